"""The page about settings: the texts of `.env.example`, and the allowed values from the code."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from app.settings import Settings, variable_names
from docs.generation.tables import render_table

EXAMPLE = Path(__file__).parents[2] / ".env.example"
SECTION = re.compile(r"# --- (.+?) -+$")
VARIABLE = re.compile(r"([A-Z][A-Z0-9_]+)=(.*)$")

INTRODUCTION = """\
# Settings

Settings come from the environment, or from a file. The environment takes precedence, and an empty value means
"not set". An invalid or contradictory setting stops the start with one line that names it.

`knowledge serve`, `worker` and `migrate` read the file `.env` in the current folder. The other commands may run in any
folder, for instance in a cloned repository, and read only the file that you name: `knowledge --env-file FILE search …`,
or the variable `KB_ENV_FILE`. The file must belong to you or to root, and others must not be able to write to it. Its
values are used as written: `${NAME}` is not expanded.

A key goes only to an address from the same source: when the environment sets `OPENAI_API_KEY` and the file
`OPENAI_BASE_URL`, or the reverse, the start stops with one line that names both. The same holds for `GEMINI_…`, for
`EMBEDDING_NEXT_…`, for `KB_RERANKER_…`, and for a `DATABASE_URL` without a password together with `PGPASSWORD`,
`PGPASSFILE` or `PGSSLKEY`.
"""


def render_settings() -> str:
    """The whole page. Raises RuntimeError when a variable is only in the code or only in the example."""
    known = _allowed()
    text, shown = [INTRODUCTION], []
    example = EXAMPLE.read_text("utf-8")
    for part in _parts(example[example.index("# ---") :]):
        if isinstance(part, str):
            text.append(part)
            continue
        shown += list(part)
        rows = [(f"`{n}`", f"`{v}`" if v else "empty", known.get(n, "")) for n, v in part.items()]
        text.append(render_table(("variable", "default", "must be"), rows))
    if missing := set(shown) ^ set(variable_names()):
        raise RuntimeError(f"settings in one place only: {', '.join(sorted(missing))}")
    return "\n".join(text)


def _parts(example: str) -> Iterator[str | dict[str, str]]:
    """Headings and paragraphs of the example file, and each run of variables."""
    words: list[str] = []
    variables: dict[str, str] = {}
    for line in [*example.splitlines(), ""]:
        found = VARIABLE.match(line)
        if found:
            if words:
                yield " ".join(words) + "\n"
                words = []
            variables[found[1]] = found[2]
            continue
        if variables:
            yield variables
            variables = {}
        if heading := SECTION.match(line):
            yield f"## {heading[1]}\n"
        elif line.startswith("#"):
            words.append(line.removeprefix("#").strip())
        elif words:
            yield " ".join(words) + "\n"
            words = []


def _allowed() -> Mapping[str, str]:
    """The allowed values of each variable, by its name."""
    return {
        str(field.validation_alias): field.description or ""
        for group in Settings.model_fields.values()
        for field in getattr(group.annotation, "model_fields", {}).values()
    }
