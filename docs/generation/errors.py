"""The page about errors, from the table of their statuses."""

import inspect
from collections.abc import Iterator

from app import errors
from app.contract.problems import TYPES, type_of_error
from app.web.problems import problems
from docs.generation.tables import render_table

INTRODUCTION = """\
# Errors

Error responses are [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457) problems of type `application/problem+json`.
`type` names the kind of problem: programs should compare it rather than `title` or `detail`. It refers to a page of the
service, such as `/problems/stale-etag`. `request_id` is also in the log of the service. 422 names the invalid fields,
429 and 503 have `Retry-After`, 429 names the limit, and `/problems/entry-exists` and `/problems/asset-exists` have the
id of the other one in `existing_id`.

<!-- schema: Problem -->
```json
{
  "type": "/problems/invalid-input",
  "title": "Unprocessable Content",
  "status": 422,
  "detail": "limit: must be between 1 and 50",
  "request_id": "5f2b6c1e8d3a4f70",
  "errors": [{"field": "limit", "message": "must be between 1 and 50"}]
}
```

MCP tools return the same object in a result with `isError`. The command line prints one line on standard error and
exits with a non-zero status.
"""
AFTER = """\

In Python, all errors are `KnowledgeError`s from `app.errors`. The table lists those that HTTP maps to a status. Their
texts are safe to show: they contain no SQL, no address and no data of another tenant.
"""


def render_errors() -> str:
    """The whole page."""
    meanings = {status: answer["description"] for status, answer in problems(*sorted(_statuses())).items()}
    return "\n".join(
        (
            INTRODUCTION,
            "## By status\n",
            render_table(("status", "meaning"), [(str(s), text) for s, text in meanings.items()]),
            "## By type\n",
            render_table(
                ("type", "status", "meaning", "what to do"),
                [(f"`{t.uri}`", str(t.status), t.meaning, t.remedy) for t in TYPES.values()],
            ),
            "## In Python\n" + AFTER,
            render_table(("class", "status", "meaning"), _classes()),
        )
    )


def _statuses() -> set[int]:
    return {kind.status for kind in TYPES.values()} - {405}


def _classes() -> Iterator[tuple[str, str, str]]:
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        found = type_of_error(kind) if issubclass(kind, errors.KnowledgeError) else None
        if found is not None:
            yield f"`{name}`", str(found.status), (inspect.getdoc(kind) or "").split("\n\n")[0]
