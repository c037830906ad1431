"""Files: what cannot be read is refused in one line; what is written is whole, regular and, where asked, private."""

import os
import stat
import tempfile
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from scissorhands import files
from scissorhands.errors import ReadError, SettingError, WriteError


def test_a_fifo_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ReadError, match="not a regular file"):
        files.read_text(tmp_path / "pipe")


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff\xfe", b"{", b"[1]", b"1" * 5000])
def test_what_is_no_json_object_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ReadError) as refused:
        files.read_json(tmp_path / "a.json", dict)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", ["a = " + "[" * 10_000, "a = 1\na = 2", "=", "a = 1e999999\nb"])
def test_what_is_no_toml_is_refused_in_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(content)
    with pytest.raises(ReadError):
        files.read_toml(tmp_path / "a.toml")


def test_a_file_above_the_bound_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("12345")
    assert files.read_text(tmp_path / "a.txt", most=5) == "12345"
    with pytest.raises(ReadError, match="more than 4 bytes"):
        files.read_text(tmp_path / "a.txt", most=4)


def test_tensors_are_read_into_memory_that_is_aligned(tmp_path: Path) -> None:
    """A header of a length that is no multiple of 8 leaves what follows it misaligned in the mapped file."""
    save_file({"a": torch.arange(64.0), "b": torch.zeros(3, dtype=torch.uint8)}, tmp_path / "plain")
    raw = (tmp_path / "plain").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = raw[8 : 8 + length].rstrip() + b" " * 3
    (tmp_path / "odd").write_bytes((len(header)).to_bytes(8, "little") + header + raw[8 + length :])
    read = files.read_tensors(tmp_path / "odd")["a"]
    assert read.data_ptr() % 32 == 0
    assert torch.equal(read, torch.arange(64.0))


def test_only_a_regular_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(WriteError, match="not a regular file"):
        files.write_text(tmp_path / "link", "gone")
    with pytest.raises(WriteError, match="not a regular file"):
        files.write_text(Path("/dev/null"), "gone")
    assert (tmp_path / "precious").read_text() == "keep"
    assert Path("/dev/null").is_char_device()


def test_what_is_private_is_readable_by_its_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_text(tmp_path / "ids.txt", "1\n", private=True)
    files.write_tensors(tmp_path / "x.safetensors", {"x": torch.zeros(1)}, private=True)
    for name in ("ids.txt", "x.safetensors"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))
    files.private_folder(files.cache("images"))
    assert stat.S_IMODE((tmp_path / "cache" / "images").stat().st_mode) == 0o700


def test_an_empty_setting_of_the_cache_is_like_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCISSORHANDS_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert files.cache("images") == tmp_path / "home" / "scissorhands" / "images"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    files.write_text(tmp_path / "a.txt", "old")

    def broken() -> None:
        with files.replacing(tmp_path / "a.txt") as part:
            part.write_text("half")
            raise OSError(5, "broken")

    with pytest.raises(WriteError, match="broken"):
        broken()
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_a_link_where_a_part_is_written_is_not_followed(tmp_path: Path) -> None:
    """A folder that one was sent may hold links under every name that a process of ours might take."""
    (tmp_path / "precious").write_text("keep")
    run = tmp_path / "run"
    run.mkdir()
    names = [f".{name}.{os.getpid()}" for name in ("scores.json", "x.safetensors")]
    for name in names:
        (run / name).symlink_to(tmp_path / "precious")
    files.write_text(run / "scores.json", "{}")
    files.write_tensors(run / "x.safetensors", {"x": torch.zeros(1)})
    assert (tmp_path / "precious").read_text() == "keep"
    assert sorted(path.name for path in run.iterdir() if not path.is_symlink()) == ["scores.json", "x.safetensors"]


def test_a_part_that_is_there_already_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "precious").write_text("keep")
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / ".a.txt.guessed").symlink_to(tmp_path / "precious")
    with pytest.raises(WriteError, match="exists"):
        files.write_text(tmp_path / "a.txt", "gone")
    assert (tmp_path / "precious").read_text() == "keep"
    assert (tmp_path / ".a.txt.guessed").is_symlink()


@pytest.mark.parametrize("key", ["a.{}", "[a.{}]", "x = {{ a.{} = 1 }}", "[[ a . {} ]]"])
@pytest.mark.parametrize("part", ["a", '"b c"', "' '"])
def test_a_key_of_many_parts_is_refused_at_once(key: str, part: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(key.format(".".join([part] * 20_000)) + " = 1")
    begun = time.monotonic()
    with pytest.raises(ReadError, match="more than 64 parts"):
        files.read_toml(tmp_path / "a.toml")
    assert time.monotonic() - begun < 2


def test_what_only_has_many_dots_is_read(tmp_path: Path) -> None:
    text = f"a = [{', '.join(['0.5'] * 500)}]\nb = '{'It is. ' * 5}{'... ' * 500}'\n" + "c.d.e.f = 1\n"
    (tmp_path / "a.toml").write_text(text)
    assert len(files.read_toml(tmp_path / "a.toml")["a"]) == 500


@pytest.mark.parametrize("text", ["a" * 10**6, "a " * 10**6, '"' * 10**6, "a." * 63 + "\n", "' " * 10**6])
def test_looking_for_long_keys_takes_no_time(text: str) -> None:
    begun = time.monotonic()
    files._LONG_KEY.search(text)
    assert time.monotonic() - begun < 2


def test_a_cache_in_the_home_of_nobody_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCISSORHANDS_CACHE", "~nobodyx/y")
    with pytest.raises(SettingError, match="SCISSORHANDS_CACHE is '~nobodyx/y', and there is no such home folder"):
        files.cache("images")
    assert not list(tmp_path.iterdir())


def test_a_user_without_a_home_has_a_cache_that_is_not_in_the_folder_one_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(_: int) -> None:
        raise KeyError

    for name in ("HOME", "XDG_CACHE_HOME", "SCISSORHANDS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    monkeypatch.chdir(tmp_path)
    assert files.cache("images") == Path(tempfile.gettempdir()) / f"scissorhands-{os.getuid()}" / "images"


def test_what_is_no_text_in_utf8_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="is not UTF-8 text"):
        files.write_text(tmp_path / "a.toml", "folder = 'nd\udcff'")
    assert not list(tmp_path.iterdir())
