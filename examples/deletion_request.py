"""Three people ask that their photos be deleted, one after the other; each gets evidence that can be checked.

python examples/deletion_request.py [FOLDER]
"""

import shlex
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

from scissorhands.cli import main as command_line

PEOPLE = ("ada", "bob", "eve")


def main(folder: Path) -> None:
    """Trains on photos of many people; then makes the model forget three of them, and erases their files each time."""
    take_photos(folder / "photos")
    with chdir(folder):
        scissorhands("train --model small --data photos --set epochs=20 --set lr=0.05 --set batch_size=64 -o trained")
        scissorhands("key keys")
        for name in PEOPLE:
            photos = sorted(Path("photos").glob(f"train/*/{name}-*.png"))
            Path("keys.txt").write_text("".join(f"{photo.name}\n" for photo in photos))
            scissorhands("request add --ledger ledger --keys keys.txt")
            Path("keys.txt").unlink()
            # Some photos were held out of training, so that there is nothing to forget: they are skipped.
            scissorhands("request serve trained --ledger ledger --missing skip --sign keys/key.pem")
            for photo in photos:
                photo.unlink()
        scissorhands("request close 1 2 3 --ledger ledger")
        scissorhands("request list --ledger ledger")
        check = "--model ledger/runs/003 --ledger ledger --key keys/public.pem"
        scissorhands(f"verify ledger/packs/003.zip {check}")


def scissorhands(command: str) -> None:
    """Runs a command, as you would in a terminal."""
    print(f"\n$ scissorhands {command}", flush=True)
    sys.argv = ["scissorhands", *shlex.split(command)]
    try:
        command_line()
    except SystemExit as end:
        if end.code:
            raise


def take_photos(folder: Path) -> None:
    """Writes handwritten digits as files, each with the name of who wrote it."""
    digits = load_digits()
    for number, (image, label) in enumerate(zip(digits.images[:1000], digits.target, strict=False)):
        who = PEOPLE[number // 7] if number < 21 else f"person{number // 7}"
        path = folder / ("test" if number >= 750 else "train") / str(label) / f"{who}-{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((16 * image).clip(max=255).astype("uint8")).save(path)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
