"""Settings: refused when made, named when misspelt, unchanged by TOML."""

import tomllib
from dataclasses import FrozenInstanceError, dataclass
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scissorhands.errors import SettingError
from scissorhands.settings import Settings, at_least_one, non_negative, setting, share, switch, text, to_toml


@dataclass(frozen=True, kw_only=True)
class Example(Settings):
    part: float = setting(0.5, share, "a share")
    times: int = setting(3, at_least_one, "a count")
    on: bool = setting(True, switch, "a switch")
    name: str = setting("x", text, "a name")
    rate: float = setting(0.1, non_negative, "a number")


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
