"""Take the pictures of the README and of the tutorials: reports of what they say, as a browser shows them.

`make picture` calls it after the demos. What the tutorials do is done here in a folder of its own, as they say it.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from scissorhands.report.pdf import browser

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
WIDTH, COLORS = 1180, 64  # pixels, and the colors of a picture, which has few
TRAIN = "train --model small --data photos --set epochs=20 --set lr=0.05 --set batch_size=64 -o runs/original"
ASKED = "--forget keys:delete.txt --missing skip"


def main() -> None:
    """Take all pictures."""
    taken(ROOT / "runs/demo-random/report.html", "report", 700)
    taken(ROOT / "runs/demo-diffusion/report.html", "tutorial-concept", 1250)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder)
        for line in (
            TRAIN,
            f"scrub runs/original {ASKED} -o runs/scrubbed",
            "evaluate runs/scrubbed --level standard",
            "report runs/scrubbed -o report.html --title 'The request of 3 February'",
            "bench table.toml -o runs/table",
        ):
            command = [str(Path(sys.executable).with_name("scissorhands")), *shlex.split(line)]
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        taken(folder / "report.html", "tutorial-deletion", 660)
        taken(folder / "runs/table/report.html", "tutorial-table", 1080)


def written(folder: Path) -> None:
    """Write what the tutorials begin with: their photos, a list of a hundred of them, and their recipe."""
    (code,) = blocks("tutorial-deletion", "python")
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    photos = sorted((folder / "photos/train").glob("digit-[012]/*.png"))[::4][:100]
    (folder / "delete.txt").write_text("".join(f"{photo.parent.name}/{photo.name}\n" for photo in photos))
    (folder / "table.toml").write_text(blocks("tutorial-table", "toml")[0])


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of code in a page of the docs."""
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / f"{page}.md").read_text(), flags=re.DOTALL)


def taken(page: Path, name: str, height: int) -> None:
    """Save what a browser without a window shows of a page, as a small picture."""
    picture, own = DOCS / f"{name}.png", ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as profile:
        flags = ["--headless", "--disable-gpu", "--hide-scrollbars", f"--window-size={WIDTH},{height}", *own]
        where = [f"--user-data-dir={profile}", f"--screenshot={picture}", "--virtual-time-budget=10000"]
        subprocess.run([browser(), *flags, *where, page.as_uri()], check=True, capture_output=True, timeout=120)
    with Image.open(picture) as shown:
        small = shown.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    small.save(picture, optimize=True)


if __name__ == "__main__":
    main()
