"""scissorhands methods: list the methods, or show the settings of one."""

import click

from .arguments import METHOD
from .console import out, say_json
from .describe import summary
from .escape import plain


@click.command()
@click.argument("name", type=METHOD, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def methods(name: str | None, as_json: bool) -> None:
    """List the methods, or show the settings of one."""
    from .. import tasks
    from .show import show_rows

    if name is None:
        known = tasks.methods().items()
        show_rows([{"name": each, "paper": kind.paper, "what": summary(kind)} for each, kind in known], as_json)
        return
    kind = tasks.method(name)
    if as_json:
        say_json({"name": name, "what": summary(kind), "settings": list(kind.described())})
        return
    out.print(f"[bold]{plain(name)}[/]  {plain(summary(kind))}\n")
    show_rows(list(kind.described()), as_json=False)
