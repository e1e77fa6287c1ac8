"""Render pages from templates. All values are escaped, and only the console's scripts may run."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app.console.parts.entries import excerpt_of
from app.console.parts.words import (
    LABELS,
    LISTS,
    TYPES,
    describe_search,
    name_action,
    name_flag,
    name_principal,
    name_type,
    picker_of,
)
from app.console.visitor import PAGE_STATE, visitor_of
from app.documents.formats import FORMATS
from app.knowledge.quarantine.flagging import flags_of

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
    ("/console/receipts", "Searches"),
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
HEADINGS = {
    401: "Please sign in",
    403: "You may not do this",
    404: "This does not exist",
    409: "This is not possible now",
    410: "These results are no longer available",
    412: "This has changed in the meantime",
    413: "This is too large",
    415: "This kind of file is not supported",
    422: "Something in the request is not valid",
    429: "Too many requests",
    500: "Something went wrong",
    503: "The service is not available now",
}
"""Headings of the pages of problems, by their status."""


def pretty_json(value: Any) -> str:
    """Format JSON for people."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


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


templates = Environment(
    loader=FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
templates.globals["version"] = version("knowledge-search")
templates.globals["ENTRY_TYPES"] = TYPES
templates.globals["SEARCH_LABELS"] = LABELS
templates.globals["PAGE_STATE"] = PAGE_STATE
templates.globals["LISTS"] = LISTS
templates.globals["SECTIONS"] = READERS
templates.globals["ADMIN_SECTIONS"] = ADMINS

templates.filters["pretty_json"] = pretty_json
templates.filters["plain"] = plain_value
templates.filters["action"] = name_action
templates.filters["principal"] = name_principal
templates.filters["kind"] = name_type
templates.filters["excerpt"] = excerpt_of
templates.filters["described"] = describe_search
templates.filters["sentence"] = make_sentence
templates.filters["flags"] = flags_of
templates.filters["flag"] = name_flag
templates.filters["media"] = name_media_type
templates.filters["section"] = section_of
templates.filters["picker"] = picker_of


def render(request: Request, template: str, *, status: int = 200, **context: Any) -> Response:
    """Render a page, or a part of one, from a template; each gets `request` and `visitor`.

    Templates in `parts` do not include the page around them.
    """
    html = templates.get_template(template).render(request=request, visitor=visitor_of(request), **context)
    return HTMLResponse(html, status, HEADERS)


def render_problem(request: Request, response: Response) -> Response:
    """Render a problem as a page, or as a part if a part was requested."""
    problem = orjson.loads(response.body)
    problem["heading"] = HEADINGS.get(problem["status"], problem["title"])
    part = "parts/problem.html" if request.headers.get("hx-request") else "pages/problem.html"
    shown = render(request, part, status=response.status_code, problem=problem)
    shown.headers.update({name: response.headers[name] for name in CARRIED if name in response.headers})
    return place_above(shown) if part == "parts/problem.html" else shown


def place_above(response: Response) -> Response:
    """Show the part above the page, so that a problem does not replace the target of the request."""
    response.headers.update({"HX-Retarget": "#problem", "HX-Reselect": ".problem", "HX-Reswap": "innerHTML"})
    return response
