"""`knowledge settings`: show and change a tenant's settings."""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from app.cli.door import open_door
from app.cli.execution import Commands, TenantOption, choose_target, json_option, split_assignment
from app.cli.output.text import print_json, print_table
from knowledge_client import administration

SHAPE = "the response of GET /admin/settings: {weights, fusion, keep_query_text, limits, …}"
WORDS: Mapping[str, bool | None] = {"on": True, "off": False, "default": None}

group = Commands("settings", "Show and change a tenant's settings.", "knowledge settings show --tenant acme")


@group.add(
    "knowledge settings show --tenant acme",
    "knowledge settings show -t acme --json",
    name="show",
    short_help="Show a tenant's settings.",
)
def show_settings(tenant: TenantOption, as_json: Annotated[bool, json_option(SHAPE)] = False) -> None:
    """Show a tenant's settings, including defaults; `-` means the service's default."""
    _change(tenant, [], as_json, doing="reading the settings")


@group.add(
    "knowledge settings set keep_query_text=on fusion=score --tenant acme",
    "knowledge settings set weights.semantic=0.6 weights.keyword=0.4 --tenant acme",
    "knowledge settings set limits.entries=50000 type_weights.lesson=3 --tenant acme",
    "knowledge settings set similarity_threshold=default --tenant acme",
    name="set",
    short_help="Change settings of a tenant.",
)
def set_settings(
    changes: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE", help="Numbers, words, on or off, or JSON; `default` resets a setting."),
    ],
    tenant: TenantOption,
    as_json: Annotated[bool, json_option(SHAPE)] = False,
) -> None:
    """Change settings of a tenant; others are unchanged. Running services follow within two seconds.

    `settings show` lists the names; a dot selects a part, as in weights.semantic. The tenant's own limits
    can only be lower than the platform's (`knowledge tenant limits`).
    """
    _change(tenant, changes, as_json, doing="changing the settings")


def read_changes(given: Iterable[str], current: Mapping[str, Any]) -> dict[str, Any]:
    """Parse `name=value` and `name.part=value` into the body of a change. Raises InvalidInput.

    Parts are merged into the current value, except limits, which are changed one by one.
    """
    changes: dict[str, Any] = {}
    for text in given:
        whole, value = split_assignment("NAME=VALUE", text)
        name, _, part = whole.partition(".")
        if not part:
            changes[name] = _read_value(value)
            continue
        if not isinstance(changes.get(name), dict):
            changes[name] = {} if name == "limits" else dict(_parts(current.get(name)))
        changes[name][part] = _read_value(value)
    return changes


def _change(tenant: str, given: Iterable[str], as_json: bool, *, doing: str) -> None:
    """Change the settings, if changes are given, and print them."""
    with open_door(choose_target(tenant), doing=doing, platform=True) as door:
        (door.look if given else door.run)(administration.get_settings())
        if given:
            changes = read_changes(given, door.read_answer())
            door.run(administration.change_settings(changes))
    if as_json:
        print_json(door.answer)
        return
    rows: list[tuple[str, str]] = []
    for name, value in door.read_answer().items():
        if parts := _parts(value):
            rows += [(f"{name}.{part}", _show(inner)) for part, inner in parts.items()]
        else:
            rows.append((name, _show(value)))
    print_table(("setting", "value"), rows)


def _parts(value: Any) -> Mapping[str, Any]:
    """The parts of a setting by name; empty for a setting without parts."""
    return value if isinstance(value, Mapping) else {}


def _read_value(text: str) -> Any:
    if text in WORDS:
        return WORDS[text]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _show(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
