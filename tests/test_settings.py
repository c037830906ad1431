"""Settings: refused when made, named when misspelt, unchanged by TOML."""

import tomllib
from dataclasses import FrozenInstanceError, dataclass
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scissorhands.errors import SettingError
from scissorhands.settings import (
    REQUIRED,
    Depends,
    Settings,
    at_least_one,
    names,
    non_negative,
    numbers,
    one_of,
    setting,
    share,
    switch,
    table,
    text,
    to_toml,
)


@dataclass(frozen=True, kw_only=True)
class Example(Settings):
    part: float = setting(0.5, share, "a share")
    times: int = setting(3, at_least_one, "a count")
    on: bool = setting(True, switch, "a switch")
    name: str = setting("x", text, "a name")
    rate: float = setting(0.1, non_negative, "a number")


@dataclass(frozen=True, kw_only=True)
class Dependent(Settings):
    part: float = setting(Depends("name", 0.5, {"half": 0.25, "bad": 2.0}), share, "a share")
    name: str = setting("x", one_of("x", "half", "bad"), "a name")


def test_a_default_may_depend_on_another_setting() -> None:
    assert (Dependent().part, Dependent(name="half").part, Dependent(name="half", part=0.1).part) == (0.5, 0.25, 0.1)
    assert next(Dependent.described())["default"] == "0.5 (half: 0.25; bad: 2.0)"
    with pytest.raises(SettingError, match="'name' must be one of"):
        Dependent(name="y")
    with pytest.raises(SettingError, match="'part' must be a share"):
        Dependent(name="bad")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"part": 1.5}, "'part' must be a share from 0 to 1, not 1.5"),
        ({"part": float("nan")}, "'part' must be"),
        ({"part": "0.5"}, "'part' must be"),
        ({"times": 0}, "'times' must be a whole number, 1 or more, not 0"),
        ({"times": 2.0}, "'times' must be"),
        ({"times": True}, "'times' must be"),
        ({"on": 1}, "'on' must be true or false, not 1"),
        ({"name": 3}, "'name' must be text"),
        ({"times": 10**26}, "'times' must be a whole number, 1 or more, and at most 2147483647, not 1000"),
        ({"times": 16**5000}, "'times' must be .* at most 2147483647, not this int"),
        ({"times": 1e308}, "'times' must be"),
        ({"rate": 1e308}, r"'rate' must be a number, 0 or more, and at most 1e\+30, not 1e\+308"),
        ({"rate": 10**400}, "'rate' must be"),
        ({"rate": {"deep": {"er": 1}}}, "'rate' must be"),
        ({"rate": [1]}, "'rate' must be"),
        ({"rate": date(2024, 1, 1)}, """'rate' must be a number, 0 or more, not "2024-01-01"."""),
        ([1], r"the settings of Example are names with values, not \[1\]"),
        ({"tmies": 3}, r"Example has no setting 'tmies'. Did you mean 'times'\? Known: part, times, on, name, rate"),
    ],
)
def test_a_bad_value_is_refused_when_the_object_is_made(values: Any, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Example.make(values)


def test_a_whole_number_does_for_a_number() -> None:
    assert type(Example.make({"part": 1}).part) is float


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Example().part = 0.1  # type: ignore[misc]


def test_texts_are_read_by_the_type_of_their_field() -> None:
    assert Example.parsed(["part=1e-3", "times = 7", "on=False", "name=7=8"]) == {
        "part": 1e-3,
        "times": 7,
        "on": False,
        "name": "7=8",
    }


@pytest.mark.parametrize(
    ("texts", "says"),
    [(["part"], "not of the form"), (["=3"], "not of the form"), (["part=1", "part=0"], "set twice")],
)
def test_texts_of_another_form_are_refused(texts: list[str], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Example.parsed(texts)


def test_a_message_shows_the_start_of_a_long_value() -> None:
    with pytest.raises(SettingError) as caught:
        Example.make(Example.parsed([f"times={'9' * 5000}"]))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", ["times=2.5", "times=x", "on=yes", "part=1%", "times=99999999999", "rate=1e308"])
def test_a_text_of_the_wrong_type_is_refused_by_the_rule(value: str) -> None:
    with pytest.raises(SettingError, match="must be"):
        Example.make(Example.parsed([value]))


plain = st.one_of(
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(st.integers(-9, 9)),
)


tables = st.dictionaries(st.from_regex(r"\A[a-z_]{1,8}\Z"), plain)


@given(tables, tables)
def test_values_survive_toml(top: dict[str, object], inner: dict[str, object]) -> None:
    top.pop("table", None)
    assert tomllib.loads(to_toml({**top, "table": inner})) == {**top, "table": inner}


# Lists and tables


@dataclass(frozen=True, kw_only=True)
class Nested(Settings):
    inner: Example = setting(Example(), table, "settings of its own")
    seeds: list[int] = setting([0, 1], numbers, "whole numbers")
    draws: list[int] | None = setting(None, numbers, "whole numbers, or none")
    words: str | list[str] = setting(REQUIRED, text, "a text or several")
    chosen: list[str] = setting(["a"], names, "names")
    counts: dict[str, int] = setting({}, table, "whole numbers by name")
    anything: dict[str, Any] = setting({}, table, "values by name")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "Nested needs 'words'"),
        ({"inner": {"part": 2}}, "Example: 'part' must be a share from 0 to 1, not 2"),
        ({"inner": {"prt": 2}}, "Example has no setting 'prt'. Did you mean 'part'"),
        ({"inner": [1]}, "the settings of Example are names with values"),
        ({"seeds": 3}, "'seeds' must be a list of whole numbers, each of them once, not 3"),
        ({"seeds": []}, "'seeds' must be a list"),
        ({"seeds": [0, 0]}, "'seeds' must be a list"),
        ({"seeds": [0, True]}, "'seeds' must be a list"),
        ({"seeds": [0.5]}, "'seeds' must be a list"),
        ({"seeds": (0, 1)}, "'seeds' must be a list"),
        ({"seeds": [2**40]}, "'seeds' must be a list .*, and at most 2147483647"),
        ({"draws": []}, "'draws' must be a list"),
        ({"draws": [2**40]}, "'draws' must be a list .*, and at most 2147483647"),
        ({"words": 3}, "'words' must be text"),
        ({"words": [3]}, "'words' must be text"),
        ({"chosen": "a"}, "'chosen' must be a list of names"),
        ({"counts": {"a": "b"}}, "'counts' must be a table"),
        ({"counts": {"a": 2**40}}, "'counts' must be a table .*, and at most 2147483647"),
        ({"counts": {1: 1}}, "'counts' must be a table"),
        ({"anything": 3}, "'anything' must be a table"),
    ],
)
def test_a_bad_list_or_table_is_refused(values: Any, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Nested.make({"words": "x", **values} if values else values)


def test_lists_and_tables_are_kept_and_a_table_becomes_settings() -> None:
    made = Nested.make(
        {"words": ["a", "b"], "inner": {"part": 1}, "draws": [3], "counts": {"a": 1}, "anything": {"b": [1, "c"]}}
    )
    assert made.inner == Example(part=1.0)
    assert (made.words, made.draws, made.counts, made.anything) == (["a", "b"], [3], {"a": 1}, {"b": [1, "c"]})
    assert Nested.make(made.to_dict()) == made


def test_a_list_that_is_a_default_belongs_to_one_object() -> None:
    Nested(words="x").seeds.append(5)
    assert Nested(words="x").seeds == [0, 1]
    assert {row["name"]: row["default"] for row in Nested.described()}["seeds"] == [0, 1]


def test_what_is_typed_for_a_list_is_refused_as_text() -> None:
    with pytest.raises(SettingError, match="'seeds' must be a list"):
        Nested.make({"words": "x", **Nested.parsed(["seeds=12"])})
