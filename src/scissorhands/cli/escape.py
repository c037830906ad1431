"""Text from files and users, made fit to be printed: on one line, without control characters, without markup."""

import re

# How rich finds a tag. Of what is none, it takes away one backslash before a bracket.
_BRACKET = re.compile(r"(\\*)\[(?=([a-z#/@][^\[]*?\])?)")


def one_line(message: object) -> str:
    """Put a message on one line, with nothing that a terminal would take for a command.

    >>> one_line("a\\x1b[31mred\\nsecond line")
    'a\ufffd[31mred second line'
    """
    line = " ".join(str(message).split())
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


def plain(message: object) -> str:
    """Put a message on one line, with nothing that rich would take for markup; `rich.markup.escape` loses backslashes.

    A tag that follows must not follow a backslash: print what may end in one as a `Text` of its own.
    """
    return _BRACKET.sub(lambda found: found[1] * (2 if found[2] else 1) + "\\[", one_line(message))
