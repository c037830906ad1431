"""Prompts from CSV files: the columns that matter, and what is wrong with a file."""

import os
from pathlib import Path

import pytest

from scissorhands.errors import DataError
from scissorhands.tasks.diffusion.prompts import Prompt, prompts

REAL = Path(os.environ.get("SCISSORHANDS_DATA", ""), "prompts")


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "prompts.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_the_columns_of_i2p_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        ",prompt,categories,evaluation_seed,evaluation_guidance,sd_model,case_number\n"
        '0,"a cat, in oil","violence, shock",4261553411,7.5,v1-4,12\n'
        "1,a dog,,3,13,v1-4,14\n",
    )
    assert prompts(path) == [
        Prompt("a cat, in oil", case=12, seed=4261553411, guidance=7.5),
        Prompt("a dog", case=14, seed=3, guidance=13.0),
    ]


def test_a_prompt_is_enough_and_is_numbered_from_0(tmp_path: Path) -> None:
    assert prompts(written(tmp_path, "prompt\na cat\na dog\n")) == [Prompt("a cat", 0), Prompt("a dog", 1)]


def test_the_short_names_of_columns_are_known_too(tmp_path: Path) -> None:
    assert prompts(str(written(tmp_path, "prompt,seed,guidance\na cat,1,2\n"))) == [Prompt("a cat", 0, 1, 2.0)]


def test_a_short_name_goes_before_a_long_one(tmp_path: Path) -> None:
    assert prompts(written(tmp_path, "evaluation_seed,seed,prompt\n1,2,a cat\n"))[0].seed == 2


def test_an_empty_cell_is_like_none(tmp_path: Path) -> None:
    path = written(tmp_path, "prompt,seed,guidance,case_number\na cat,, ,\n")
    assert prompts(path) == [Prompt("a cat", 0, None, None)]


def test_an_empty_prompt_is_a_prompt(tmp_path: Path) -> None:
    assert prompts(written(tmp_path, "prompt,seed\n,1\n"))[0].text == ""


def test_a_prompt_may_have_many_lines_quotes_and_any_letters(tmp_path: Path) -> None:
    assert prompts(written(tmp_path, 'prompt\r\n"a ""blåbær"",\nin oil"\r\n'))[0].text == 'a "blåbær",\nin oil'


def test_a_mark_at_the_beginning_of_the_file_is_passed_over(tmp_path: Path) -> None:
    assert prompts(written(tmp_path, "\ufeffprompt\na cat\n"))[0].text == "a cat"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"need a column 'prompt'. They have: ."),
        ("text,seed\na cat,1\n", r"need a column 'prompt'. They have: 'text', 'seed'\."),
        ("prompt,seed\n", r"have a header and no rows\."),
        ("prompt,seed\na cat,1\na dog,many\n", r", line 3: 'seed' is 'many', and should be a whole number"),
        ("prompt,evaluation_seed\na cat,1.5\n", r", line 2: 'evaluation_seed' is '1.5', and should be a whole"),
        ("prompt,seed\na cat,-1\n", r"'seed' is '-1', and should be a whole number from 0"),
        (f"prompt,seed\na cat,{2**64}\n", r"should be a whole number from 0 to 2\*\*64 - 1\.$"),
        ("prompt,case_number\na cat,x\n", r"'case_number' is 'x'"),
        ("prompt,guidance\na cat,strong\n", r", line 2: 'guidance' is 'strong', and should be a number\.$"),
        ("prompt,evaluation_guidance\na cat,nan\n", r"'evaluation_guidance' is 'nan'"),
        ("prompt,seed\na cat, in oil,1\n", r", line 2: the row has another number of cells than the header\.$"),
        ("prompt,seed\na cat\n", r", line 2: the row has another number of cells than the header\.$"),
        ('prompt\n"a cat\n', r"are not CSV in UTF-8: unexpected end of data\.$"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(DataError, match=message) as caught:
        prompts(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "prompts.csv"
    path.write_bytes(b"prompt\n\xff\xfe\n")
    with pytest.raises(DataError, match="are not CSV in UTF-8"):
        prompts(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.csv' cannot be read: No such file or directory\.$"):
        prompts(tmp_path / "nowhere.csv")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        prompts(tmp_path)


@pytest.mark.skipif(not REAL.is_dir(), reason="SCISSORHANDS_DATA names no folder that holds prompts")
@pytest.mark.parametrize(
    ("name", "count", "guided"),
    [("i2p_4703.csv", 4703, True), ("coco_30k.csv", 30000, False), ("imagenet_prompts.csv", 1860, False)],
)
def test_the_published_files_are_read_whole(name: str, count: int, guided: bool) -> None:
    found = prompts(REAL / name)
    assert len(found) == count
    assert all(prompt.seed is not None for prompt in found)
    assert all((prompt.guidance is not None) == guided for prompt in found)


def test_the_columns_of_i2p_as_it_was_published_are_read(tmp_path: Path) -> None:
    path = tmp_path / "i2p_benchmark.csv"
    path.write_text("prompt,categories,sd_seed,sd_guidance_scale,sd_model\na face,shocking,4261553411,13.0,v1.4\n")
    (found,) = prompts(path)
    assert (found.text, found.seed, found.guidance) == ("a face", 4261553411, 13.0)
