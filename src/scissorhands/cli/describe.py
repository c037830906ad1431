"""Settings and times in words, for tables, pages and progress."""

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


def duration(seconds: float) -> str:
    """Return a time as a person says it.

    >>> duration(0.3), duration(45), duration(600), duration(9000), duration(200000)
    ('1 s', '45 s', '10 min', '2.5 h', '2.3 days')
    """
    for most, unit, name in ((99.5, 1, "s"), (5970, 60, "min")):
        if seconds < most:
            return f"{max(1, round(seconds / unit))} {name}"
    return f"{seconds / 3600:.1f} h" if seconds < 86400 else f"{seconds / 86400:.1f} days"
