"""A page as PDF, printed by a Chromium where one is installed."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..errors import FailedError

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = ("--headless", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--no-pdf-header-footer")
_SECONDS = 120


def browser() -> str:
    """Return the path of a Chromium; empty if there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), "")


def as_pdf(page: str) -> bytes:
    """Return a page as PDF; empty if there is no Chromium to print it."""
    program = browser()
    if not program:
        return b""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "page.html").write_text(page)
        output = folder / "page.pdf"
        own = ("--no-sandbox",) if os.geteuid() == 0 else ()  # with its sandbox it refuses to run as root
        flags = (*_FLAGS, *own, f"--user-data-dir={folder / 'profile'}", f"--print-to-pdf={output}")
        try:
            command = [program, *flags, (folder / "page.html").as_uri()]
            subprocess.run(command, capture_output=True, timeout=_SECONDS, check=True)
            return output.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise FailedError(f"{program} did not print the page: {str(error).splitlines()[0][:200]}") from None
