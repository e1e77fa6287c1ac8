"""Every field of every form: a value comes back from its input as it was, and a bad one is refused at its input."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from jinja2 import nodes
from lxml import html
from starlette.datastructures import FormData

from app.console.forms import Form, Input, errors_at, inputs_of, show_form
from app.console.pages import access, audit, platform, saved_searches
from app.console.pages.assets import UPLOAD
from app.console.pages.entries import BLANK
from app.console.pages.settings import form_of
from app.console.rendering import FOLDER, templates
from app.console.search_form import EMPTY
from app.contract.assets import AssetPatch
from app.contract.settings import DEFAULT_SETTINGS
from app.contract.validation import validate
from app.errors import InvalidInput
from tests.console.browser import Browser, all_fields
from tests.console.contents import ASSETS, upload

FORMS = {
    "entry": BLANK,
    "asset": show_form(AssetPatch, {"roles": ["all"]}),
    "upload": UPLOAD,
    "search": EMPTY,
    "settings": form_of(DEFAULT_SETTINGS),
    "access": access.BLANK,
    "audit": audit.BLANK,
    "tenant": platform.BLANK,
    "saved": saved_searches.BLANK,
}
NEEDED: Mapping[str, dict[str, Any]] = {
    "entry": {"content": "A text"},
    "upload": {"name": "a.txt", "data": b"x"},
    "search": {"query": "bell"},
    "tenant": {"slug": "a"},
    "saved": {"name": "Bells", "request": {"query": "bell"}},
}
ID = UUID("0199c5a2-7b1e-7d3f-8a41-6c0f5e2d9b17")
OTHERS: Mapping[str, Any] = {
    "filter": {"field": "metadata.year", "gte": 2020},
    "query_embedding": [0.5, -1.0],
    "facets": ["tags", "metadata.team, north"],
    "weights": {"semantic": 0.25, "keyword": 0.75},
    "slug": "a-tenant",
    "request": {"query": "bell", "tags": ["sea"]},
}
"""Values of fields that have rules of their own."""


def values_of(each: Input) -> list[Any]:
    """Values that the input can show."""
    match each.kind:
        case "text":
            return ["A text", 'He said "no", <b>twice</b> & left']
        case "lines":
            return [["a, b", "c => d"]]
        case "area":
            return ["\nOne line\n\nand <b>another</b> & more"]
        case "number":
            return [20] if each.is_whole else [0.25, 1.0]
        case "flag" | "switch":
            return [True, False]
        case "choice":
            return [value for value, _ in each.options if value]
        case "choices":
            values = [value for value, _ in each.options]
            return [values, values[:1]]
        case "list":
            return [["a"], ["b c", "d, e", 'say "no"', "ä"]]
        case "principals":
            return [["group:CN=hr,OU=all", "user:jane"]]
        case "principal":
            return ["group:CN=hr,OU=all"]
        case "id":
            return [ID]
        case "ids":
            return [[ID, UUID(int=7)]]
        case "moment":
            return [datetime(2199, 1, 31, 12, tzinfo=UTC), datetime(2199, 1, 31, 12, 30, 7, 5, tzinfo=UTC)]
        case "json":
            return [{"a": [1, {"b": "<i>"}], "c": 2**63}]


def wrong_texts(each: Input) -> list[str]:
    """Texts that are refused, whatever the other fields are."""
    bad = {
        "number": ["much", "nan", "1e30", "-1"],
        "switch": ["perhaps"],
        "choice": ["magic"],
        "choices": ["magic"],
        "list": ["x" * 200, "x" * 140_000],
        "principals": ["user:jane\njane", " , ", "x" * 140_000, ",".join(f"user:{n}" for n in range(65))],
        "principal": ["jane", "user:jane, user:joe"],
        "id": ["x", "http://kb.example/console/assets/" + str(ID)],
        "ids": [f"{ID}, x"],
        "moment": ["tomorrow", "2026-01-01T00:00:00.5"],
        "json": ["{", "7"],
        "text": ["x" * (each.longest + 1)] if each.longest else [],
        "area": ["x" * 100_001],
    }
    return bad.get(each.kind, [])


def render_inputs(form: Form, names: list[str], errors: Mapping[str, str]) -> Any:
    """The form with these inputs, as a browser reads it."""
    module: Any = templates.get_template("parts/fields.html").module
    tree = html.fragment_fromstring(f"<form>{module.inputs(form, errors, names)}</form>")
    for area in tree.cssselect("textarea"):  # a browser drops the first line feed
        area.text = (area.text or "").removeprefix("\n")
    return tree


def send(shown: Form, names: list[str], values: Any) -> FormData:
    """What a browser sends of a form where these inputs have other values: line breaks as two characters."""
    return FormData([*shown.pairs(*names), *((name, str(value).replace("\n", "\r\n")) for name, value in values)])


def valid() -> Iterator[tuple[str, str, Any]]:
    for name, shown in FORMS.items():
        done = set()
        for each in shown.inputs.values():
            field, _, part = each.name.partition(".")
            if each.name not in shown.values or field in done:
                continue
            if part:
                done.add(field)
                value = {part: 7 if each.is_whole else 0.5}
                yield name, field, OTHERS.get(field, value)
            else:
                for value in [OTHERS[field]] if field in OTHERS else values_of(each):
                    yield name, field, value


def wrong() -> Iterator[tuple[str, str, str]]:
    for name, shown in FORMS.items():
        for each in shown.inputs.values():
            if each.name in shown.values:
                for text in wrong_texts(each):
                    yield name, each.name, text


def plain(value: Any) -> Any:
    """The value of a request as JSON has it: lists for tuples, mappings without what is not set."""
    if is_dataclass(value):
        value = {f.name: getattr(value, f.name) for f in fields(value)}
    if isinstance(value, Mapping):
        return {n: plain(v) for n, v in value.items() if v is not None and getattr(v, "name", "") != "UNSET"}
    return [plain(v) for v in value] if isinstance(value, tuple | list) else value


@pytest.mark.parametrize(("name", "field", "value"), list(valid()))
def test_a_value_comes_back_from_its_input(name: str, field: str, value: Any) -> None:
    shown = FORMS[name]
    form = show_form(shown.kind, {field: value})
    names, each = form.parts_of(field), shown.inputs.get(field)
    filled = shown.fill(send(shown, names, render_inputs(form, names, {}).form_values()))
    given = filled.changes(shown)
    request: Any = validate(shown.kind, NEEDED.get(name, {}) | given)
    if field in given or each is None:
        assert plain(getattr(request, field)) == plain(value)
    else:
        assert each.as_sent(filled.values[field]) == each.as_sent(shown.values[field]), (
            "it is the value that the form has at first"
        )
    unchanged = send(shown, names, render_inputs(shown, names, {}).form_values())
    assert shown.fill(unchanged).changes(shown) == {}


@pytest.mark.parametrize(("name", "field", "text"), list(wrong()))
def test_a_bad_value_is_refused_at_its_input(name: str, field: str, text: str) -> None:
    shown = FORMS[name]
    form = shown.fill(send(shown, [field], [(field, text)]))
    with pytest.raises(InvalidInput) as refused:
        validate(shown.kind, NEEDED.get(name, {}) | form.changes(shown))
    errors = errors_at(refused.value.errors, form)
    whole = shown.parts_of(field.partition(".")[0])
    place = field if field in errors else whole[0]
    assert {place} <= errors.keys() <= set(whole)
    tree = render_inputs(form, [place], errors)
    (marked,) = tree.cssselect("[aria-invalid=true]")
    message = tree.get_element_by_id(f"field-{place}-error")
    assert message.get("id") in marked.get("aria-describedby").split()
    assert " ".join(message.text_content().split()) == " ".join(errors[place].split())
    assert tree.get_element_by_id(f"field-{place}") is not None, "a link leads to it"
    if inputs_of(shown.kind)[field].kind != "choices" and place == field:
        assert str(dict(tree.form_values())[field]).strip() == text.strip(), "the text is still there"


async def test_every_field_is_on_its_page(browser: Browser) -> None:
    asset = (await upload(browser, "a.md", b"# Pier\n\nBoats.")).answer.headers["location"]
    for name, path, form in (
        ("entry", "/console/entries/new", "main form[method=post]"),
        ("asset", f"{asset}/edit", "main form[method=post]"),
        ("upload", ASSETS, "#upload"),
        ("search", "/console", "#search"),
        ("settings", "/console/settings", "main form[method=post]"),
    ):
        page = await browser.get(path)
        names = {e.get("name") for e in page.one(form).cssselect("input, select, textarea")}
        assert set(FORMS[name].values) - {"cursor", "facets"} <= names, name
        assert all(page.texts(f"{form} label")), "each has a label"
        # A browser drops the first line feed of a text area.
        areas = {area.get("name") for area in page.all("textarea")}
        sent = all_fields(page.one(form))
        values: Any = [(n, t.removeprefix("\n") if n in areas else t) for n, texts in sent.items() for t in texts]
        shown = FORMS[name].fill(FormData(values))
        assert shown.changed(FORMS[name]) in ([], ["title"]), "the document has a title"


GIVEN = {"caller", "changes", "way"}
"""`caller` is the block of a call; the pages that include a part define the others."""


@pytest.mark.parametrize("name", templates.list_templates())
def test_a_template_calls_only_what_it_defines_or_imports(name: str) -> None:
    """A branch that no other test renders would answer 500 for a name that was forgotten."""
    tree = templates.parse((FOLDER / "templates" / name).read_text())
    called = {call.node.name for call in tree.find_all(nodes.Call) if isinstance(call.node, nodes.Name)}
    assigned = {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}
    imports = [name for clause in tree.find_all(nodes.FromImport) for name in clause.names]
    imported = {name if isinstance(name, str) else name[1] for name in imports}
    defined = {macro.name for macro in tree.find_all(nodes.Macro)}
    assert called <= assigned | imported | defined | set(templates.globals) | GIVEN
