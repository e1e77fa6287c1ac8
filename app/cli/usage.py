"""`knowledge usage`: what a tenant used by day."""

from dataclasses import fields
from datetime import datetime
from typing import Annotated

import typer

from app.cli.door import open_door
from app.cli.execution import TenantOption, choose_target, json_option, program
from app.cli.output.text import print_json, print_table
from app.contract.administration import DayUsage
from knowledge_client import administration


@program.add("knowledge usage --tenant demo", "knowledge usage --from 2026-01-01 --to 2026-01-31 --json --tenant demo")
def usage(
    tenant: TenantOption,
    first: Annotated[
        datetime | None,
        typer.Option(
            "--from", metavar="DAY", formats=["%Y-%m-%d"], help="First day (UTC); default: 29 days before the last."
        ),
    ] = None,
    last: Annotated[
        datetime | None, typer.Option("--to", metavar="DAY", formats=["%Y-%m-%d"], help="Last day; default: today.")
    ] = None,
    as_json: Annotated[bool, json_option("a list of days, as in GET /admin/usage")] = False,
) -> None:
    """Show searches, writes and embedded tokens by day, and the entries, files and bytes stored at its end."""
    with open_door(choose_target(tenant), doing="reading the usage") as door:
        days = door.run(administration.get_usage(first=first and first.date(), last=last and last.date())).items
    if as_json:
        print_json(door.read_answer()["items"])
        return
    names = [field.name for field in fields(DayUsage)]
    print_table(
        [name.replace("_", " ") for name in names], [[str(getattr(day, name)) for name in names] for day in days]
    )
