"""Settings in words, for tables and pages."""

from inspect import getdoc

from ..settings import Settings


def summary(kind: type[Settings]) -> str:
    """Return the first line of a docstring."""
    return (kind.__doc__ or "").strip().splitlines()[0]


def details(kind: type[Settings]) -> str:
    """Return what follows the first line of a docstring."""
    return "\n".join((getdoc(kind) or "").splitlines()[1:]).strip()


def shown(value: object) -> str:
    """Return a default as a person types it.

    >>> shown(True), shown(5e-05), shown("")
    ('true', '5e-05', "''")
    """
    return str(value).lower() if isinstance(value, bool) else str(value) or "''"
