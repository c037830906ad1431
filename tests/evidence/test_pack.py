"""The evidence of a run as one file: what is in it, and that each change is found."""

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from helpers import tinysd
from helpers.commands import cli, done
from scissorhands.evidence.pack import pack
from scissorhands.evidence.recount import binned
from scissorhands.evidence.signing import make_key
from scissorhands.metrics.separation import auc
from scissorhands.report import pdf
from scissorhands.verify.pack import archive, auc_between, stated, verify

TRAIN = "train --model small --model-set width=4 --data digits --set epochs=2 --set batch_size=64"
PACKED = "2099-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scrubbed run, a key, and two packs of it: one signed."""
    folder = tmp_path_factory.mktemp("evidence")
    done(TRAIN, "-o", folder / "trained")
    done("scrub --forget random:40 --method finetune --set epochs=1", folder / "trained", "-o", folder / "scrubbed")
    make_key(folder / "keys")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pdf, "browser", lambda: "")
        pack(folder / "scrubbed", folder / "plain.zip", packed=PACKED)
        pack(folder / "scrubbed", folder / "signed.zip", key=folder / "keys/key.pem", packed=PACKED)
    return folder


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def forged(path: Path, to: Path, change: Callable[[dict[str, bytes]], None], relist: bool = True) -> Path:
    """A pack in which something was changed, and whose manifest was written again."""
    content = members(path)
    change(content)
    if relist:
        listed = {name: stated(x) for name, x in content.items() if name not in ("manifest.json", "signature.json")}
        content["manifest.json"] = (json.dumps({"members": listed}, indent=2) + "\n").encode()
    to.write_bytes(archive(content))
    return to


def test_a_pack_holds_and_says_what_was_not_looked_at(folder: Path) -> None:
    found = verify(folder / "plain.zip")
    assert (found.failed, found.broken, found.exit_code) == ([], [], 0)
    assert [line.partition(":")[0] for line in found.unchecked] == [
        "the signature",
        "attacks and the verdict",
        "the model",
        "the requests",
        "thresholds",
    ]
    given = verify(folder / "signed.zip", folder / "scrubbed", key=folder / "keys/public.pem")
    assert not given.failed
    assert len(given.unchecked) == 3
    assert not verify(folder / "signed.zip", folder / "scrubbed" / "model").failed


def test_the_bytes_of_a_pack_are_the_same_each_time(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, "browser", lambda: "")
    pack(folder / "scrubbed", tmp_path / "again.zip", packed=PACKED)
    assert (tmp_path / "again.zip").read_bytes() == (folder / "plain.zip").read_bytes()


def test_it_names_no_record_and_holds_no_output(folder: Path) -> None:
    inside = members(folder / "plain.zip")
    assert not [name for name in inside if "forget" in name or "outputs" in name]
    bins = json.loads(inside["evidence.json"])["recount"]["bins"]
    assert all(some + rest >= 10 for some, rest in bins)
    page = inside["report.html"].decode()
    assert 'id="attacks"' in page
    assert 'id="losses"' not in page
    card = inside["README.md"].decode()
    assert "forget **40 records**" in card
    assert "suppression is not removal" in card
    assert card.startswith('---\nbase_model: "small"\n')
    before = json.loads((folder / "trained/scores.json").read_text())["files"]["model/model.safetensors"]
    assert before.split()[-1] in card


# Runs the program with imports of nothing but itself and the standard library.
ALONE = """
import runpy, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "verify"}:
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocker())
runpy.run_module("verify", run_name="__main__")
"""


def test_the_program_inside_needs_nothing_else(folder: Path, tmp_path: Path) -> None:
    """Run with neither site packages nor this package."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "signed.zip")}
    command = [
        *(sys.executable, "-S", "-c", ALONE),
        str(folder / "signed.zip"),
        *("--key", str(folder / "keys/public.pem")),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "holds: that is the key you gave" in answer.stdout
    wrong = subprocess.run(
        [*command[:5], "--key", "gone"], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert wrong.returncode == 2
    assert "gone" in wrong.stderr


def test_a_pipeline_has_a_pack_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(pdf, "browser", lambda: "")
    source, photographs = tinysd.source(tmp_path), tinysd.photographs(tmp_path)
    done(tinysd.command(source, tmp_path / "run", "finetune", f"--data {photographs}"))
    done(f"evidence {tmp_path}/run -o {tmp_path}/pack.zip")
    assert not verify(tmp_path / "pack.zip", tmp_path / "run").failed
    card = members(tmp_path / "pack.zip")["README.md"].decode()
    assert re.search(r"\n\| loss on the concept \| \d\.\d\d \| \d\.\d\d \|\n", card)
    assert " |  | loss on the rest | it does not show what is drawn |\n" in card


def test_the_area_lies_between_what_the_bins_allow() -> None:
    draw = torch.Generator().manual_seed(0)
    for count in (3, 40, 200):
        forgotten, others = torch.randn(count, generator=draw) + 0.3, torch.randn(300, generator=draw)
        low, high = auc_between(binned(forgotten, others))
        assert low <= auc(forgotten, others) <= high <= low + 0.06


def test_numbers_that_do_not_follow_are_found_though_all_hashes_were_written_again(
    folder: Path, tmp_path: Path
) -> None:
    def better(content: dict[str, bytes]) -> None:
        scores = json.loads(content["run/scores.json"])
        scores["values"] |= {"retain_accuracy": 99.0, "auc": 0.9}
        del scores["seal"]
        scores["seal"] = hashlib.sha256(json.dumps(scores, sort_keys=True).encode()).hexdigest()
        content["run/scores.json"] = json.dumps(scores).encode()

    failed = verify(forged(folder / "plain.zip", tmp_path / "a.zip", better)).failed
    assert any("says retain_accuracy is 99.00 %, and" in line for line in failed)
    assert any("says AUC is 0.900, and it is between" in line for line in failed)
    assert any("evidence.json says auc is" in line for line in failed)


def test_a_file_or_an_archive_that_is_none_is_told(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "none.zip").write_text("hello")
    answer = cli("verify", tmp_path / "none.zip")
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.startswith("FAILED: the pack is not a zip file")
    assert cli("verify", tmp_path / "gone.zip").code == 2
    unsigned = cli("verify --key", folder / "keys/public.pem", folder / "plain.zip")
    assert unsigned.code == 1
    assert "FAILED: the pack is not signed" in unsigned.out


def test_the_commands_write_sign_and_hold_to_a_policy(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, "as_pdf", lambda page: b"%PDF-1.4 of a page")
    monkeypatch.setattr(pdf, "browser", lambda: "")
    policy, output = tmp_path / "policy.toml", tmp_path / "pack.zip"
    policy.write_text("largest_auc = 0.99\nlargest_retain_loss = -99.0\n")
    wrote = cli("evidence", folder / "scrubbed", "-o", output, "--policy", policy, "--sign", folder / "keys/key.pem")
    assert wrote.code == 3
    assert "policy: policy.toml, line 2: largest_retain_loss = -99.0, but the loss" in wrote.err
    assert "no Chromium here" in wrote.err
    checked = cli("verify", output)
    assert checked.code == 3
    assert "POLICY: policy.toml, line 2: largest_retain_loss" in checked.out
    policy.write_text("largest_auc = 0.99\nsigned = true\n")
    assert cli("verify", output, "--policy", policy).code == 0
    assert cli("evaluate", folder / "scrubbed", "--policy", policy).code == 0
    policy.write_text("largest_auc = 0.01\n")
    assert cli("evaluate", folder / "scrubbed", "--policy", policy).code == 3
    assert members(output)["report.pdf"] == b"%PDF-1.4 of a page"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("evidence {0}/scrubbed -o {0}/plain.zip", "exists already"),
        ("evidence {0}/scrubbed -o {0}/pack.tar", "ends in .zip"),
        ("evidence {0}/trained -o {0}/new.zip", "did not make a model forget"),
        ("evidence {0}/scrubbed -o {0}/new.zip --sign {0}/keys/public.pem", "not a private key"),
        ("evidence {0}/scrubbed -o {0}/new.zip --policy {0}/scrubbed/run.toml", "has no setting 'verb'"),
        ("verify {0}/plain.zip --key {0}/keys/key.pem", "not a public key"),
        ("key {0}/keys", "never replaced"),
    ],
)
def test_a_mistake_is_told_in_one_line_and_nothing_is_written(folder: Path, command: str, says: str) -> None:
    before = sorted(folder.rglob("*"))
    answer = cli(command.format(folder))
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err
    assert len(answer.err.splitlines()) == 1
    assert sorted(folder.rglob("*")) == before


@pytest.mark.skipif(not pdf.browser(), reason="needs Chromium to print the page")
def test_a_page_is_printed_by_a_browser() -> None:
    assert pdf.as_pdf("<h1>hello</h1>").startswith(b"%PDF-")
