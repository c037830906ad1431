"""python -m verify PACK"""

import argparse
import sys
from pathlib import Path

from .pack import verify


def main() -> int:
    """Check the pack that the arguments name, and return the exit code."""
    parser = argparse.ArgumentParser(prog="verify", description="Check an evidence pack of scissorhands.")
    parser.add_argument("pack", type=Path)
    for name, about in (
        ("model", "the folder of the model"),
        ("ledger", "the folder of the ledger"),
        ("key", "the public key that you trust, in PEM"),
        ("policy", "thresholds, in TOML"),
    ):
        parser.add_argument(f"--{name}", type=Path, help=about)
    try:
        found = verify(**vars(parser.parse_args()))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write("".join(f"{line}\n" for line in found.lines()))
    return found.exit_code


if __name__ == "__main__":
    sys.exit(main())
