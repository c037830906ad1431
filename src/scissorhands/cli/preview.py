"""scissorhands preview: what a request would touch, before anything is done."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import RunError
from .arguments import PATH, TRAINED
from .console import err, out, say_json
from .escape import plain
from .options import device_option, factory_option, json_option, method_option, require_options, scrub_options

if TYPE_CHECKING:
    from ..runs.preview import Preview


@click.command()
@click.argument("model", type=TRAINED)
@scrub_options
@factory_option
@method_option
@click.option("-o", "--output", type=PATH, help="A page with thumbnails to write, such as preview.html.")
@device_option
@json_option
def preview(
    model: str,
    what: dict[str, Any],
    factory: str | None,
    method: str,
    output: Path | None,
    device: str,
    as_json: bool,
) -> None:
    """Show what a request would touch: which records, what looks like them, what the verdict can tell, how long."""
    from .. import tasks
    from ..files import write_text
    from ..report.page import is_page
    from ..report.preview import sheet
    from ..runs.place import Place
    from ..runs.preview import preview as look

    if output and output.suffix.lower() not in (".html", ".htm"):
        raise RunError(f"cannot write {output}: a preview is a page, so give it a name that ends in .html or .htm.")
    if output and output.exists() and (output.is_symlink() or not output.is_file() or not is_page(output)):
        raise RunError(f"cannot write {output}: it exists and is no page of ours. Choose another name, or remove it.")
    task = tasks.find(model)
    require_options((*what, "factory"), task, model)
    found = look(model, task.asks.from_options(what), method, factory, Place(Path(), device=device).torch_device())
    if output:
        write_text(output, sheet(found, f"What {what['forget']} would forget"), private=True)
    if as_json:
        say_json(found.to_dict())
    else:
        _show(found, method)
    if output:
        err.print(f"wrote {plain(output)}")


def _show(found: "Preview", method: str) -> None:
    """Print a preview."""
    from .describe import duration
    from .level import outlook
    from .show import show_rows

    forget = len(found.split.forget)
    before = f", {found.before} forgotten before" if found.before else ""
    out.print(f"{forget} of {forget + len(found.split.retain)} records would be forgotten{before}")
    show_rows(found.classes, as_json=False)
    alike = {one.record for one in found.duplicates}
    out.print(f"{len(alike)} of them have a near-duplicate that stays" + (":" if alike else ""))
    for one in found.duplicates[:5]:
        stays = found.name(one.part, one.other)
        out.print(plain(f"  {found.name('forget', one.record)} is like {stays} ({one.part})"))
    for level, power in found.power.items():
        out.print(plain(outlook(level, power)))
    takes = f"takes about {duration(found.seconds)} here" if found.seconds is not None else f"cannot: {found.cannot}"
    out.print(plain(f"{method} {takes}"))
    out.print("Nothing was changed.")
