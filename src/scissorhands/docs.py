"""Pages that are made from the code's own lines, so that they cannot say something else.

python -m scissorhands.docs docs      # writes the pages into the folder
"""

import sys
from pathlib import Path

from .methods import METHODS
from .settings import Settings


def methods_page() -> str:
    """Every method with its settings, as Markdown."""
    lines = ["# Methods", "", "Made by `python -m scissorhands.docs docs` from the lines that define the settings."]
    for name, kind in METHODS.items():
        lines += ["", f"## `{name}`", "", f"{summary(kind)} *{kind.paper}.*", ""]
        lines += [f"Takes at most {kind.copies} times the model's size in memory, besides the model and the batch.", ""]
        lines += ["| setting | default | rule | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{row['name']}` | `{shown(row['default'])}` | {row['rule']} | {row['meaning']} |"
            for row in kind.described()
        ]
    return "\n".join(lines) + "\n"


def summary(kind: type[Settings]) -> str:
    """The first line of a docstring."""
    return (kind.__doc__ or "").strip().splitlines()[0]


def shown(value: object) -> str:
    """A default as a person types it.

    >>> shown(True), shown(5e-05), shown("")
    ('true', '5e-05', "''")
    """
    return str(value).lower() if isinstance(value, bool) else str(value) or "''"


PAGES = {"methods.md": methods_page}


if __name__ == "__main__":
    for page, make in PAGES.items():
        (Path(sys.argv[1]) / page).write_text(make(), encoding="utf-8")
