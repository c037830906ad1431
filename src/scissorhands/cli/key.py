"""scissorhands key: make a key to sign evidence with."""

from pathlib import Path

import click

from .arguments import PATH
from .console import err
from .escape import plain


@click.command()
@click.argument("folder", type=PATH)
def key(folder: Path) -> None:
    """Make a key to sign packs with: key.pem, which stays secret, and public.pem, in FOLDER."""
    from ..evidence.signing import make_key

    secret, public = make_key(folder)
    err.print(f"wrote {plain(secret)}, which only you may have, and {plain(public)}, for those who verify")
