"""The table of runs as text: Markdown, CSV, LaTeX and JSON."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any
from unicodedata import normalize

from ..metrics import METRICS
from .rows import Row, single
from .story import tell
from .table import MAIN, Table

# What LaTeX reads as something else, as it is written there.
_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "λ": r"$\lambda$",
    "≈": r"$\approx$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "→": r"$\rightarrow$",
    "×": r"$\times$",
    "…": r"\dots{}",
    "[": "{[}",  # at the head of a row it would be an option of the line break before it
    "*": "{*}",
}
_LETTERS = "ßæœøłıÆŒØŁ"  # that pdflatex knows in any font, as it does letters with one of these accents
_ACCENTS = "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327"


def as_json(table: Table) -> str:
    """Return the table, and a row for each run, as JSON."""
    return json.dumps({**table.to_dict(), "runs": [row.to_dict() for row in single(table.rows)]}, indent=2) + "\n"


def as_csv(table: Table) -> str:
    """Return a line for each row, and for each run, with the mean and the standard deviation of every measure."""
    lines = [{"what": "row", **_line(row)} for row in table.rows]
    lines += [{"what": "over draws", **_line(row)} for row in table.over_draws]
    lines += [{"what": "run", **_line(row)} for row in single(table.rows)]
    names = list(dict.fromkeys(name for line in lines for name in line))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _line(row: Row) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for name, found in row.metrics.items():
        known |= {name: found["mean"], f"{name} std": found["std"]}
    seeds = " ".join(map(str, row.seeds))
    return {"method": row.method, "forgotten": row.forget, "seeds": seeds, "verdict": row.verdict(), **known}


def as_markdown(table: Table, title: str) -> str:
    """Return what happened in sentences, the table, and the runs one by one."""
    story = tell(table)
    head = [f"# {_plain(title)}", *map(_plain, story.told), f"**{_plain(story.headline)}.** {_plain(story.todo)}"]
    reasons = [_plain(reason) for reason in (*story.reasons, *table.notes())]
    parts = [*head, *reasons, _grid(table, table.all_rows())]
    if runs := single(table.rows):
        parts += ["## Each run", _grid(table, runs)]
    return "\n\n".join(parts) + "\n"


def _grid(table: Table, rows: Sequence[Row]) -> str:
    names = table.names(MAIN)
    lines = [["Method", *(METRICS[name].title for name in names), "Seeds", "Verdict"]]
    lines.append(["---", *("---:" for _ in names), "---", "---"])
    lines += [
        [row.method, *(row.cell(name) for name in names), ", ".join(map(str, row.seeds)), row.verdict()] for row in rows
    ]
    return "\n".join("| " + " | ".join(map(_plain, line)) + " |" for line in lines)


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is.

    >>> _plain("<b>a|b")
    '&lt;b>a\\\\|b'
    """
    return " ".join(text.split()).replace("<", "&lt;").replace("|", "\\|")


def as_latex(table: Table, title: str) -> str:
    """Return the table as the paper prints it, deviations below means, the reference first; then that of each run."""
    rows = sorted(table.all_rows(), key=lambda row: row.method != table.reference)
    pinned = 1 if any(row.method == table.reference for row in rows) else 0
    lines = [r"% \usepackage{booktabs,graphicx}", *_tabular(table, rows, title, pinned)]
    if runs := single(table.rows):
        lines += ["", *_tabular(table, runs, f"{title}: each run", seeds=True)]
    return "\n".join([*lines, ""])


def _tabular(table: Table, rows: Sequence[Row], title: str, pinned: int = 0, seeds: bool = False) -> list[str]:
    """Return the lines of a table with a rule below those rows that are pinned to its top."""
    names = table.names(MAIN)
    lines = [" & ".join(["Method", *(["Seed"] if seeds else []), *(_latex(METRICS[name].title) for name in names)])]
    for row in rows:
        own = [_latex(str(row.seeds[0]))] if seeds else []
        lines.append(" & ".join([_named(table, row), *own, *(_number(row, name) for name in names)]))
    head, *body = (f"    {line} \\\\" for line in lines)
    return [
        *(r"\begin{table}", r"  \centering", f"  \\caption{{{_latex(title)}}}"),
        r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        f"  \\begin{{tabular}}{{{'l' * (1 + seeds)}{'r' * len(names)}}}",
        *(r"    \toprule", head, r"    \midrule"),
        *body[:pinned],
        *([r"    \midrule"] if pinned and body[pinned:] else []),
        *body[pinned:],
        *(r"    \bottomrule", r"  \end{tabular}}", r"\end{table}"),
    ]


def _named(table: Table, row: Row) -> str:
    name = _latex(row.method)
    return f"\\textbf{{{name}}}" if row.method == table.nearest() else name


def _number(row: Row, name: str) -> str:
    mean, _, deviation = row.cell(name).partition(" ± ")
    return f"{_latex(mean)}$_{{\\pm {deviation}}}$" if deviation else _latex(mean)


def _latex(text: str) -> str:
    """Return a text that LaTeX prints as it is; what pdflatex has no letter for by its number.

    >>> _latex("50_% ± 1"), _latex("é → 猫")
    ('50\\\\_\\\\% $\\\\pm$ 1', 'é $\\\\rightarrow$ {[}U+732B]')
    """
    return "".join(_LATEX.get(letter) or _letter(letter) for letter in " ".join(text.split()) if letter.isprintable())


def _letter(letter: str) -> str:
    apart = normalize("NFD", letter)
    known = letter.isascii() or letter in _LETTERS or (apart[0].isascii() and apart[1:] in _ACCENTS)
    return letter if known else f"{{[}}U+{ord(letter):04X}]"
