"""The pages that the `type` of a problem refers to."""

from __future__ import annotations

from html import escape

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from app.contract.problems import PATH, TYPES, ProblemType
from app.web.problems import problem_response, title_of

router = APIRouter(prefix=PATH, include_in_schema=False)

PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title></head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


@router.get("")
async def list_problem_types() -> Response:
    """List every type of problem."""
    items = "\n".join(
        f'<li><a href="{kind.uri}">{kind.name}</a> ({kind.status}): {escape(kind.meaning)}</li>'
        for kind in TYPES.values()
    )
    return _page("Types of problems", f"<ul>\n{items}\n</ul>")


@router.get("/{name}")
async def show_problem_type(name: str) -> Response:
    """Show the meaning and the remedy of one type."""
    kind = TYPES.get(name)
    if kind is None:
        return problem_response(404, "there is nothing at this path")
    return _page(kind.name, _describe(kind))


def _describe(kind: ProblemType) -> str:
    return (
        f"<p>Status {kind.status}, {title_of(kind.status)}.</p>\n<p>{escape(kind.meaning)}</p>\n"
        f'<p>{escape(kind.remedy)}</p>\n<p><a href="{PATH}">All types</a></p>'
    )


def _page(title: str, body: str) -> Response:
    return HTMLResponse(PAGE.format(title=escape(title), body=body))
