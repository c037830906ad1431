"""scissorhands verify: check an evidence pack."""

from pathlib import Path

import click

from ..errors import ReadError
from ..verify.pack import verify as check
from .arguments import FILE, PATH
from .console import out, say_json
from .escape import plain
from .options import json_option, policy_option


@click.command()
@click.argument("pack", type=FILE)
@click.option("--model", type=PATH, metavar="FOLDER", help="The model, to compare its files with those in the pack.")
@click.option("--ledger", type=PATH, metavar="DIR", help="The ledger, to compare the requests in the pack with it.")
@click.option("--key", type=PATH, metavar="PUBLIC", help="The public key that must have signed the pack.")
@policy_option
@json_option
def verify(
    pack: Path, model: Path | None, ledger: Path | None, key: Path | None, policy: Path | None, as_json: bool
) -> None:
    """Check PACK by itself, and against what else is given; say what holds and what does not.

    Exit code 1: something does not hold. 3: all holds, but a line of the policy is broken.
    """
    try:
        found = check(pack, model, ledger, key, policy)
    except ValueError as error:
        raise ReadError(str(error)) from None
    if as_json:
        say_json(vars(found))
    else:
        for line in found.lines():
            out.print(plain(line))
    if found.exit_code:
        raise click.exceptions.Exit(found.exit_code)
