"""`knowledge subscription`: list the webhook subscriptions of a tenant."""

from typing import Annotated

from app.cli.door import open_door
from app.cli.execution import Commands, TenantOption, choose_target, json_option
from app.cli.output.text import print_json, print_table

COLUMNS = ("name", "owner", "host", "state", "confirmation", "waiting", "last_error")

group = Commands("subscription", "List webhook subscriptions.", "knowledge subscription list --tenant demo")


@group.add("knowledge subscription list --tenant demo", name="list")
def list_subscriptions(
    tenant: TenantOption,
    as_json: Annotated[
        bool,
        json_option(
            "a list of {saved_search_id, name, owner, host, state, confirmation, confirmed_at, waiting, failures,"
            " last_error, …}"
        ),
    ] = False,
) -> None:
    """List the subscriptions of a tenant, newest first, and whether their endpoints have agreed."""
    with open_door(choose_target(tenant), doing="reading the subscriptions") as door:
        found = door.read_all("/admin/subscriptions")
    for row in found:
        row["host"] = row.pop("url")
    if as_json:
        print_json(found)
        return
    rows = [["" if row[name] is None else row[name] for name in COLUMNS] for row in found]
    print_table([name.replace("_", " ") for name in COLUMNS], rows, right=("waiting",))
