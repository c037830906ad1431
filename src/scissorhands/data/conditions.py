"""Conditions such as `age > 30 and not (city in (Rome, "New York") or vip == true)`: parsed, never run as code."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DataError

Array = np.ndarray[Any, Any]
Column = Callable[[str], Array]

_TOKEN = re.compile(r"""\s*(?:(==|!=|<=|>=|<|>|\(|\)|,)|"([^"]*)"|'([^']*)'|([^\s()<>=!,"']+))""")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_WORDS = ("and", "or", "not", "in")


def matches(condition: str, column: Column) -> Array:
    """Return a mask of the records that fulfill the condition.

    >>> matches("age > 30 and not age == 40", lambda name: np.array([30, 35, 40])).tolist()
    [False, True, False]
    >>> matches("city in (Rome, 'New York')", lambda name: np.array(["Rome", "Oslo"])).tolist()
    [True, False]
    """
    return _Parser(condition, column).parse()


class _Parser:
    """Recursive descent: or, and, not, a condition in brackets, a comparison."""

    def __init__(self, condition: str, column: Column) -> None:
        self.condition, self.column = condition, column
        self.tokens = self._tokens()
        self.place = 0
        self.depth = 0

    def parse(self) -> Array:
        mask = self._or()
        if self.place < len(self.tokens):
            raise self._error(f"'{self._peek()[1]}' was not expected")
        return mask

    def _tokens(self) -> list[tuple[str, str]]:
        found, place, end = [], 0, len(self.condition.rstrip())
        while place < end:
            match = _TOKEN.match(self.condition, place)
            if not match:
                raise self._error(f"'{' '.join(self.condition[place:].split())}' cannot be read")
            symbol, double, single, word = match.groups()
            quoted = double if double is not None else single
            if symbol or word in _WORDS:
                found.append(("symbol", symbol or word))
            else:
                found.append(("value", word if quoted is None else quoted))
            place = match.end()
        return found

    def _error(self, what: str) -> DataError:
        shown = " ".join(self.condition.split())
        return DataError(f"in 'where:{shown}', {what}. Write for example: age > 30 and city in (Rome, Oslo).")

    def _peek(self) -> tuple[str, str]:
        return self.tokens[self.place] if self.place < len(self.tokens) else ("end", "")

    def _accept(self, symbol: str) -> bool:
        if self._peek() == ("symbol", symbol):
            self.place += 1
            return True
        return False

    def _value(self, what: str) -> str:
        kind, text = self._peek()
        if kind != "value":
            raise self._error(f"{what} is missing" + (f" before '{text}'" if text else " at the end"))
        self.place += 1
        return text

    def _or(self) -> Array:
        mask = self._and()
        while self._accept("or"):
            mask = mask | self._and()
        return mask

    def _and(self) -> Array:
        mask = self._not()
        while self._accept("and"):
            mask = mask & self._not()
        return mask

    def _not(self) -> Array:
        self.depth += 1
        if self.depth > 100:
            raise self._error("brackets or 'not' are nested too deeply")
        try:
            return ~self._not() if self._accept("not") else self._term()
        finally:
            self.depth -= 1

    def _term(self) -> Array:
        if not self._accept("("):
            return self._comparison()
        mask = self._or()
        if not self._accept(")"):
            raise self._error("a ')' is missing")
        return mask

    def _comparison(self) -> Array:
        name = self._value("a column")
        values = self.column(name)
        if self._accept("in"):
            listed = self._list(name, values)
            with np.errstate(over="ignore"):  # a value beyond the column's range is in none of its records
                return np.isin(values, np.array(listed, values.dtype) if values.dtype.kind == "f" else listed)
        for symbol, compare in _COMPARE.items():
            if self._accept(symbol):
                value = self._typed(name, values, self._value("a value"))
                known = values == values  # a missing number is nothing, not even different from something
                return np.asarray(compare(values, value) & known, dtype=np.bool_)
        raise self._error(f"a comparison (==, !=, <, <=, >, >=, in) is missing after '{name}'")

    def _list(self, name: str, values: Array) -> list[Any]:
        if not self._accept("("):
            raise self._error("'in' wants a list in brackets")
        found = [self._typed(name, values, self._value("a value"))]
        while self._accept(","):
            found.append(self._typed(name, values, self._value("a value")))
        if not self._accept(")"):
            raise self._error("a ')' is missing")
        return found

    def _typed(self, name: str, values: Array, text: str) -> Any:
        """Return the text as a value of the column's type."""
        if values.dtype.kind == "b":
            if text.lower() not in ("true", "false"):
                raise self._error(f"'{name}' is true or false, not '{text}'")
            return text.lower() == "true"
        if values.dtype.kind in "iuf":
            try:
                whole = values.dtype.kind != "f" and re.fullmatch(r"[+-]?\d{1,18}", text)
                return int(text) if whole else float(text)
            except ValueError:
                raise self._error(f"'{name}' holds numbers, and '{text}' is none") from None
        return text
