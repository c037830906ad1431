"""Take the README's picture: the first screen of a report. `make picture` calls it after the demo.

python .ci/picture.py runs/demo-random/report.html docs/report.png
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scissorhands.report.pdf import browser

SIZE = "1180,760"


def main(page: str, picture: str) -> None:
    """Draws the page in a browser without a window."""
    own = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as profile:
        flags = ["--headless", "--disable-gpu", "--hide-scrollbars", f"--window-size={SIZE}", *own]
        where = [f"--user-data-dir={profile}", f"--screenshot={Path(picture).resolve()}"]
        command = [browser(), *flags, *where, Path(page).resolve().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
