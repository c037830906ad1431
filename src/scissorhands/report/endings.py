"""What a report can be, by the ending of its name; apart from the code that writes it, which would import torch."""

from pathlib import Path

from ..errors import RunError

ENDINGS = (".html", ".htm", ".pdf", ".md", ".csv", ".tex", ".json")


def require_ending(output: Path) -> None:
    """Refuse a folder, and a name whose ending does not say what a report is to be."""
    if output.is_dir():
        raise RunError(f"cannot write {output}: it is a folder.")
    if output.suffix.lower() not in ENDINGS:
        raise RunError(
            f"cannot write {output}: give it a name that ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}."
        )
