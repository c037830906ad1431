"""A folder of photos, a model that was trained on them, and requests to forget some of them."""

from pathlib import Path

import numpy as np
from PIL import Image

from helpers.commands import done

NAMES = ("apple", "brick", "cloud")
QUICK = "--method finetune --set epochs=1 --set batch_size=16"
FIRST, SECOND, THIRD = ("apple-3.png", "brick-7.png"), ("cloud-9.png", "apple-11.png"), ("brick-0.png", "cloud-5.png")


def album(place: Path) -> Path:
    """Photos of three things that are easy to tell apart, each photo with noise of its own."""
    draw = np.random.default_rng(0)
    for split, count in (("train", 24), ("test", 8)):
        for number, name in enumerate(NAMES):
            (place / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = draw.integers(0, 90, (8, 8, 3), dtype=np.uint8)
                pixels[2 * number : 2 * number + 3] += 150
                Image.fromarray(pixels).save(place / split / name / f"{name}-{i}.png")
    return place


def photo(data: Path, name: str) -> Path:
    return data / "train" / name.partition("-")[0] / name


def wish(folder: Path, name: str, *files: str) -> Path:
    """A list of files to forget."""
    (folder / name).write_text("\n".join(files) + "\n")
    return folder / name


def finished(folder: Path) -> Path:
    """The folder with photos, a trained run, and one that forgot two photos, which were then erased."""
    data = album(folder / "photos")
    trained = "train --model small --model-set width=4 --set epochs=8 --set batch_size=16"
    done(f"{trained} --data {data} --holdout 0.2 -o {folder}/trained")
    done(f"scrub {folder}/trained --forget keys:{wish(folder, 'first.txt', *FIRST)} {QUICK} -o {folder}/one")
    for name in FIRST:
        photo(data, name).unlink()
    return folder
