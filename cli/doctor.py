"""``stallscope doctor``: what works on this machine, what does not, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .command import described
from .options import json_option

if TYPE_CHECKING:
    from .check import Check

MARKS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "failed": ("FAILED", "bold red")}


@described(
    "doctor",
    short="What works on this machine, and why something does not.",
    examples=(
        ("What works here, and why something does not", "stallscope doctor"),
        ("The same for a bug report or a script", "stallscope doctor --json"),
    ),
    output_keys={
        "ok": "false if stallscope cannot work here",
        "checks": "list of {section, name, state (ok, note, failed), found, hint}",
    },
)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Check this machine: versions, scanner, torch and its devices, plug-ins, cache.

    Exits with 1 if something is missing that stallscope cannot work without.
    """
    from .machine import checks

    found = list(checks())
    ok = all(check.state != "failed" for check in found)
    if as_json:
        from .rendering.json_output import print_json

        print_json({"ok": ok, "checks": [check.to_dict() for check in found]})
    else:
        _print(found)
    ctx.exit(0 if ok else 1)


def _print(found: list[Check]) -> None:
    from rich.text import Text

    from .rendering.page import page
    from .rendering.text import printable

    out = page()
    section = ""
    for check in found:
        if check.section != section:
            if section:
                out.print()
            section = check.section
            out.print(Text(section.capitalize(), "bold"))
        mark, style = MARKS[check.state]
        out.print(Text.assemble("  ", (f"{mark:<7}", style), f"{check.name:<22} ", printable(check.found)))
        if check.hint:
            out.print(Text(f"{'':>9}{printable(check.hint)}", "dim"))
