"""Render pages from templates. All values are escaped, and only the console's scripts may run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import orjson
from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app.console.forms import EXAMPLE
from app.console.search_form import FILTERS, RANKING, describe_search
from app.console.visitor import PAGE_STATE, SHOWN, visitor_of
from app.console.words import LISTS, NAMED, name_document, name_principal, name_value, picker_of, pretty_json
from app.contract.entries import Entry
from app.contract.fields import Page
from app.documents.formats import FORMATS
from app.knowledge.quarantine import flags_of
from app.knowledge.search.answer.snippet import SnippetMaker
from app.web.access import Call, CurrentCaller, CurrentServices

READERS = (
    ("/console", "Search"),
    ("/console/entries", "Entries"),
    ("/console/assets", "Documents"),
    ("/console/saved-searches", "Saved searches"),
)
"""Address and name of each section that all roles of a tenant see."""

ADMINS = (
    ("/console/health", "Health"),
    ("/console/usage", "Usage"),
    ("/console/feedback", "Feedback"),
    ("/console/settings", "Settings"),
    ("/console/compare", "Compare"),
    ("/console/model", "Model"),
    ("/console/sources", "Sources"),
    ("/console/access", "Access"),
    ("/console/keys", "API keys"),
    ("/console/receipts", "Searches"),
    ("/console/quarantine", "Quarantine"),
    ("/console/erasures", "Erasures"),
    ("/console/audit", "Audit trail"),
)
"""The sections of a tenant's admin; readers find the comparison below the results of a search."""


def section_of(path: str) -> str:
    """The address of the section of a page: the first two parts of its path."""
    return "/".join(path.split("/")[:3])


FOLDER = Path(__file__).parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {"content-security-policy": POLICY, "cache-control": "no-store", "referrer-policy": "same-origin"}
CARRIED = ("retry-after", "allow", "connection")
"""Headers of a problem that its page also has."""


def plain_value(value: Any) -> str:
    """A value of JSON as a person writes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(plain_value, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} {plain_value(part)}" for name, part in value.items()) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def make_sentence(text: str) -> str:
    """The text with an uppercase first letter and an end; a text that begins with a field's name stays unchanged."""
    if text[:1].isalpha() and not re.match(r"[a-z_.\d]+:", text):
        text = text[0].upper() + text[1:]
    return text if not text or text[-1] in ".!?:" else f"{text}."


def name_media_type(media_type: str) -> str:
    """The name of the kind of file with this type; an unknown type is its own name."""
    return next((kind.label for kind in FORMATS if kind.media_type == media_type), media_type)


LOOKED_AT = 2_000
"""Characters of the text that the excerpt is taken from."""


def excerpt_of(entry: Entry) -> str:
    """The first words as a reader sees them, without marks of Markdown or headings that the title repeats."""
    return SnippetMaker("").make(entry.title, entry.content[:LOOKED_AT], entry.language, (), None).text


templates = Environment(
    loader=FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
templates.globals.update(
    version=version("knowledge-search"),
    NAMED=NAMED,
    EXAMPLE=EXAMPLE,
    FILTERS=FILTERS,
    RANKING=RANKING,
    PAGE_STATE=PAGE_STATE,
    LISTS=LISTS,
    SECTIONS=READERS,
    ADMIN_SECTIONS=ADMINS,
)
templates.filters.update(
    pretty_json=pretty_json,
    plain=plain_value,
    document=name_document,
    action=partial(name_value, "action"),
    principal=name_principal,
    kind=partial(name_value, "entry_type"),
    excerpt=excerpt_of,
    described=describe_search,
    sentence=make_sentence,
    flags=flags_of,
    flag=partial(name_value, "flag"),
    erased=partial(name_value, "Erasure.kind"),
    erasure_state=partial(name_value, "Erasure.state"),
    media=name_media_type,
    section=section_of,
    picker=picker_of,
)


def render(request: Request, template: str, *, status: int = 200, **context: Any) -> Response:
    """Render a page, or a part of one, from a template; each gets `request` and `visitor`.

    Templates in `parts` do not include the page around them.
    """
    visitor = visitor_of(request)
    html = templates.get_template(template).render(request=request, visitor=visitor, **context)
    if visitor is not None:
        html = _FORM.sub(rf'\1?{SHOWN}={visitor.state}"', html)
    return HTMLResponse(html, status, HEADERS)


_FORM = re.compile(r'(<form\b[^>]*\bmethod="post"[^>]*\baction="/console/(?!sign-)[^"?]*)"')
"""A form that changes something: a page that another tab has outdated must not change another tenant."""


def render_problem(request: Request, response: Response) -> Response:
    """Render a problem as a page, or as a part if a part was requested."""
    problem = orjson.loads(response.body)
    problem["heading"] = NAMED["problems"].get(str(problem["status"]), problem["title"])
    part = "parts/problem.html" if request.headers.get("hx-request") else "pages/problem.html"
    shown = render(request, part, status=response.status_code, problem=problem)
    shown.headers.update({name: response.headers[name] for name in CARRIED if name in response.headers})
    return place_above(shown) if part == "parts/problem.html" else shown


def place_above(response: Response) -> Response:
    """Show the part above the page, so that a problem does not replace the target of the request."""
    response.headers.update({"HX-Retarget": "#problem", "HX-Reselect": ".problem", "HX-Reswap": "innerHTML"})
    return response


PAGE_SIZE = 25
"""Items per page of a list."""


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The addresses of the first page, if this is another one, and of the next page."""

    first: str | None
    following: str | None


def page_links(address: str, page: Page[Any], cursor: str, given: Mapping[str, str]) -> PageLinks:
    """Build the links of a page; `cursor` is empty for the first page, and `given` are the filters of the list."""
    more = page.next_cursor
    return PageLinks(
        first=_address(address, given) if cursor else None,
        following=_address(address, {**given, "cursor": more}) if more else None,
    )


def _address(address: str, parameters: Mapping[str, str]) -> str:
    return f"{address}?{urlencode(parameters)}" if parameters else address


@dataclass(frozen=True, slots=True)
class Visit(Call):
    """A request of a page by a member of a tenant."""

    request: Request

    @property
    def wants_part(self) -> bool:
        """Whether a script of a page asks for a part of it."""
        return bool(self.request.headers.get("hx-request"))

    def render(self, template: str, *, status: int = 200, **context: Any) -> Response:
        """Render a page, or a part of one, for the visitor."""
        return render(self.request, template, status=status, **context)


async def _visit(request: Request, caller: CurrentCaller, services: CurrentServices) -> Visit:
    return Visit(caller, services, request)


CurrentVisit = Annotated[Visit, Depends(_visit)]
