"""Pages from templates: all values are escaped, and the policy allows only the console's scripts."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app.console.parts.entry_types import TYPES, name_type
from app.console.parts.excerpt import excerpt_of
from app.console.parts.flags import name_flag
from app.console.parts.moments import picker_of
from app.console.sections import ADMINS, READERS, section_of
from app.console.visitor import visitor_of
from app.documents.formats import FORMATS
from app.knowledge.quarantine.flagging import flags_of

FOLDER = Path(__file__).parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {"content-security-policy": POLICY, "cache-control": "no-store", "referrer-policy": "same-origin"}
CARRIED = ("retry-after", "allow", "connection")
"""Headers of a problem that its page also has."""


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


def name_media_type(media_type: str) -> str:
    """The name of the kind of file with this type; that of an unknown one is the type itself."""
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
templates.globals["SECTIONS"] = READERS
templates.globals["ADMIN_SECTIONS"] = ADMINS

templates.filters["pretty_json"] = pretty_json
templates.filters["plain"] = plain_value
templates.filters["kind"] = name_type
templates.filters["excerpt"] = excerpt_of
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
    part = "parts/problem.html" if request.headers.get("hx-request") else "pages/problem.html"
    shown = render(request, part, status=response.status_code, problem=problem)
    shown.headers.update({name: response.headers[name] for name in CARRIED if name in response.headers})
    return place_above(shown) if part == "parts/problem.html" else shown


def place_above(response: Response) -> Response:
    """Show the part above the page, so that a problem does not replace the target of the request."""
    response.headers.update({"HX-Retarget": "#problem", "HX-Reselect": ".problem", "HX-Reswap": "innerHTML"})
    return response
