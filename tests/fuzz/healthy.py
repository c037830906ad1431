"""Healthy folders, made once: data, models, a pipeline, runs that are finished and one that is not, and a recipe."""

import json
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).parent
CLASSES = ("a", "b", "c")
TRAIN = "train --model small --model-set width=2 --data data --set epochs=1 --holdout 0.2"
QUICK = "--method finetune --set epochs=1 --untrained"
RECIPE = {"data": '"data"', "draws": "[0]", "level": '"quick"', "epochs": "1", "methods": '["retrain", "finetune"]'}
PAYLOAD = """
from pathlib import Path
(Path(__file__).resolve().parents[2] / "outside" / "ran").touch()
class M: pass
def make(*_, **__): raise ValueError("it ran")
"""


def answered(words: Sequence[str]) -> int:
    """The exit code of a command, run in this process."""
    from scissorhands.cli import main

    sys.argv = ["scissorhands", *words]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def forked(work: Callable[[], int]) -> int:
    """Starts a process that does the work and ends with its exit code; returns its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    if child := os.fork():
        return child
    code = 99
    try:
        code = work()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code & 0xFF)


def reseal(run: Path) -> None:
    """Make the hashes of a run fit what stands in its folder now."""
    from helpers import forged

    forged.reseal(run)


def make(folder: Path) -> None:
    """Makes them all in a folder."""
    folder.mkdir(parents=True)
    os.chdir(folder)
    images(folder / "data")
    table(folder / "table")
    transformer(folder / "transformer")
    _pipeline(folder)
    (folder / "recipe.toml").write_text(recipe())
    (folder / "notes.txt").write_text("nothing\n")
    (folder / "ids.txt").write_text("0\n1\n")
    for command in (
        f"{TRAIN} -o trained",
        f"scrub trained --forget ids:ids.txt {QUICK} -o first",
        f"scrub first --forget class:b {QUICK} -o scrubbed",
        "scrub first --forget class:b --method retrain --untrained -o retrained",
        "evaluate transformer --data data --forget class:a -o scored",
    ):
        _done(command)
    shutil.copytree("trained/model", "model")
    _begin(folder)


def _done(command: str) -> None:
    child = forked(lambda: answered(shlex.split(command)))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, 3):
        raise RuntimeError(f"'{command}' ended with {code}")


def _begin(folder: Path) -> None:
    """A run that is stopped when its first checkpoint is there, and the same one in whole."""
    for epochs in (60, 600):
        command = f"{TRAIN} --set epochs={epochs} --checkpoint 0 -o begun".replace("--set epochs=1 ", "")
        _done(command.replace("begun", "whole"))
        child = forked(lambda command=command: answered(shlex.split(command)))  # type: ignore[misc]
        until = time.monotonic() + 30
        while not list(folder.glob(".begun.unfinished/checkpoints/*")) and time.monotonic() < until:
            time.sleep(0.001)
        os.kill(child, signal.SIGTERM)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if (folder / ".begun.unfinished").is_dir():
            return
        shutil.rmtree(folder / "whole")
    raise RuntimeError(f"the run that was to be stopped ended with {code}")


def images(folder: Path) -> None:
    """Six gray images of 8 × 8 for each of three classes to train, and three to test."""
    from PIL import Image

    draw = Random(1)
    for part, count in (("train", 6), ("test", 3)):
        for shade, name in enumerate(CLASSES):
            (folder / part / name).mkdir(parents=True)
            for number in range(count):
                pixels = bytes(80 * shade + draw.randrange(80) for _ in range(64))
                Image.frombytes("L", (8, 8), pixels).save(folder / part / name / f"{number}.png")


def table(folder: Path) -> None:
    """The same images as parquet, with columns of several kinds."""
    import datetime

    import datasets

    datasets.disable_progress_bars()
    folder.mkdir()
    for part in ("train", "test"):
        files = sorted((folder.parent / "data" / part).glob("*/*.png"))
        columns: dict[str, Any] = {
            "image": [{"bytes": file.read_bytes(), "path": None} for file in files],
            "label": [CLASSES.index(file.parent.name) for file in files],
            "age": [20 + number for number in range(len(files))],
            "city": ["Rome", "Oslo", "New York"] * (len(files) // 3),
            "born": [datetime.date(1990, 1, 1 + number) for number in range(len(files))],
            "tags": [["x"]] * len(files),
        }
        kinds = {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=list(CLASSES)),
            "age": datasets.Value("int64"),
            "city": datasets.Value("string"),
            "born": datasets.Value("date32"),
            "tags": [datasets.Value("string")],
        }
        whole = datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))
        whole.to_parquet(folder / f"{part}.parquet")


def transformer(folder: Path) -> None:
    """A tiny Hugging Face classifier that knows the classes by name."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    names = dict(enumerate(CLASSES))
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = ViTConfig(**sizes, image_size=8, patch_size=4, id2label=names, label2id={n: i for i, n in names.items()})
    ViTForImageClassification(config).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps({"size": {"height": 8, "width": 8}}))


def _pipeline(folder: Path) -> None:
    from helpers import tinysd

    tinysd.source(folder).rename(folder / "pipeline")
    tinysd.photographs(folder).rename(folder / "photographs")


def recipe() -> str:
    """The shipped recipe about digits, cut down to little work on the images here."""
    text = (HERE.parents[1] / "recipes" / "digits-random-10.toml").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    keys = [line.partition(" = ")[0] for line in lines]
    cut = [f"{key} = {RECIPE[key]}" if key in RECIPE else line for key, line in zip(keys, lines, strict=True)]
    return "\n".join(["seeds = [0]", *cut, "epochs = 1", "[model_set]", "width = 2", ""])
