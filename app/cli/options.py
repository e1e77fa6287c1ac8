"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

TenantOption = Annotated[
    str, typer.Option("--tenant", "-t", metavar="SLUG", help="The tenant to work in.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print machine-readable output.")]


def examples(*lines: str) -> str:
    """An epilog whose lines are kept as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
