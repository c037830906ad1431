"""Records keep the numbers that they had when a model was trained, whatever is erased later."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import scissorhands as sh
from scissorhands.data.inventory import Aligned, Inventory, aligned, as_json, read_inventories
from scissorhands.data.records import Stored
from scissorhands.errors import DataError, ReadError

EMPTY: dict[str, object] = {"fingerprint": "", "shape": [], "labels": [], "hashes": []}
PATHS = ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png", "dog/3.png", "dog/4.png")


def photos(which: Sequence[int] = range(6), keyed: bool = True, shades: Sequence[int] = range(6)) -> Stored:
    """Some of six photos, each of another shade."""
    pixels = torch.tensor([shades[i] for i in which], dtype=torch.uint8).reshape(-1, 1, 1, 1)
    labels = torch.tensor([int(i > 1) for i in which])
    keys = [PATHS[i] for i in which] if keyed else None
    return Stored(pixels, labels, keys=keys, key="path" if keyed else "", columns={"shade": pixels.flatten().numpy})


def found(records: Stored, expected: Sequence[int] = (), then: Stored | None = None) -> tuple[Aligned, list[str]]:
    return aligned(records, Inventory.of(then or photos()), expected)


@pytest.mark.parametrize("keyed", [True, False], ids=["keys", "contents alone"])
def test_records_keep_their_numbers_when_others_are_erased(keyed: bool) -> None:
    now, said = found(photos([0, 2, 3, 5], keyed), [1, 4], photos(keyed=keyed))
    assert said == []
    assert now.missing.tolist() == [1, 4]
    assert now.labels.tolist() == [0, 0, 1, 1, 1, 1]
    assert now.fetch(torch.tensor([5, 2]))[0].flatten().tolist() == [5, 2]
    assert now.columns["shade"]()[[0, 2, 3, 5]].tolist() == [0, 2, 3, 5]
    assert now.keys[5] == ("dog/4.png" if keyed else "5")
    assert now.fingerprint == photos().fingerprint
    with pytest.raises(DataError, match=r"('cat/2.png'|record 1) is not in the data any more"):
        now.fetch(torch.tensor([0, 1]))


def test_what_nobody_expects_is_named() -> None:
    now, said = found(photos([5, 3, 2, 0], shades=[0, 1, 9, 3, 4, 5]), [4])
    assert said == ["'cat/2.png' is not there any more", "'dog/1.png' has changed"]
    assert now.missing.tolist() == [1, 2, 4]
    assert found(photos(), (), photos([0, 1, 2]))[1] == [f"'dog/{n}.png' is new" for n in (2, 3, 4)]
    assert found(photos([0, 1], keyed=False), (), photos([0, 1, 2], keyed=False))[1] == [
        "record 2 is not there any more"
    ]


def test_of_twins_the_one_that_is_left_is_the_one_to_retain() -> None:
    same = photos([0, 0, 2, 2], keyed=False)
    now, said = found(photos([0, 2], keyed=False), [0, 3], same)
    assert (now.missing.tolist(), said) == ([0, 3], [])


def test_records_that_are_read_in_another_way_are_refused() -> None:
    larger = Stored(torch.zeros(6, 1, 2, 2, dtype=torch.uint8), photos().labels, keys=PATHS, key="path")
    with pytest.raises(DataError, match=r"has the shape \[1, 2, 2\], and had \[1, 1, 1\]"):
        found(larger)


def test_what_was_missing_before_is_not_named_again() -> None:
    first, _ = found(photos([0, 2, 3, 5]), [1, 4])
    again, said = aligned(photos([0, 2, 3]), Inventory.of(first), [5])
    assert (again.missing.tolist(), said) == ([1, 4, 5], [])
    assert again.as_of_then().missing.tolist() == [1, 4]


def test_a_split_leaves_out_what_is_missing_and_divides_the_rest_as_before() -> None:
    whole = photos([*range(6)] * 4, keyed=False)
    now, _ = found(photos([i % 6 for i in range(24) if i not in (3, 7)], keyed=False), (), whole)
    held = [6, 7, 8, 9, 10, 11]
    before = sh.split(whole, [0], test=photos(), unseen=held)
    after = sh.split(now, [0], test=photos(), unseen=held)
    gone = set(now.missing.tolist())
    assert len(gone) == 2
    for name, part in before.parts().items():
        if name != "test":
            left = getattr(after, name)
            assert set(left.ids.tolist() if left else ()) == {*part.ids.tolist()} - gone, name
    assert after.manifest != before.manifest


def test_a_key_that_is_not_there_any_more_is_said_to_be_so() -> None:
    now, _ = found(photos([0, 1, 2, 3]), [4])
    with pytest.raises(DataError, match=r"'dog/4\.png' is not there any more, '3\.png' was forgotten before, or"):
        sh.split(now, ["dog/4.png", "3.png"], test=photos(), before=[4])


def test_an_inventory_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    known = {"train": Inventory.of(photos()), "test": Inventory.of(photos([0, 4], keyed=False))}
    path.write_text(as_json(known))
    again = read_inventories(path)
    assert {name: (list(x.keys), list(x.hashes), x.labels, x.fingerprint) for name, x in again.items()} == {
        name: (list(x.keys), list(x.hashes), x.labels, x.fingerprint) for name, x in known.items()
    }


@pytest.mark.parametrize(
    "damaged",
    [
        "[]",
        "{}",
        '{"train": 3, "test": 4}',
        json.dumps({name: {**EMPTY, "labels": [1]} for name in ("train", "test")}),
        json.dumps({name: {**EMPTY, "labels": ["a"], "hashes": ["b"]} for name in ("train", "test")}),
        json.dumps({name: {**EMPTY, "labels": [10**30], "hashes": ["b"]} for name in ("train", "test")}),
        json.dumps({"train": EMPTY}),
    ],
)
def test_a_file_that_is_no_inventory_is_refused(damaged: str, tmp_path: Path) -> None:
    (tmp_path / "inventory.json").write_text(damaged)
    with pytest.raises(ReadError, match="cannot be read"):
        read_inventories(tmp_path / "inventory.json")
