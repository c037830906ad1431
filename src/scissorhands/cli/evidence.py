"""scissorhands evidence: gather the evidence of a run into one file."""

from pathlib import Path

import click

from .arguments import PATH, RUN
from .console import err
from .escape import plain
from .exit_codes import exit_if_broken
from .options import policy_option, sign_option


@click.command()
@click.argument("run", type=RUN)
@click.option("-o", "--output", type=PATH, required=True, help="The pack to write, such as pack.zip.")
@policy_option
@sign_option
@click.option("--overwrite", is_flag=True, help="Replace the pack if it exists.")
def evidence(run: Path, output: Path, policy: Path | None, sign: Path | None, overwrite: bool) -> None:
    """Gather what shows that RUN made its model forget into one file, which 'verify' checks."""
    from ..evidence.pack import write_pack

    broken = write_pack(run, output, policy=policy, key=sign, overwrite=overwrite)
    say_packed(output, signed=sign is not None)
    exit_if_broken(broken)


def say_packed(output: Path, signed: bool) -> None:
    """Say where the pack is, and what it lacks."""
    from ..report import pdf

    err.print(f"wrote {plain(output)}")
    if not pdf.browser():
        err.print("There is no Chromium here, so it holds the page as HTML, not as PDF.")
    if not signed:
        err.print("It is not signed: --sign KEY signs it.")
