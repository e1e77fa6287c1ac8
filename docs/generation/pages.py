"""The generated pages and their sources."""

import json
from collections.abc import Mapping

from app.main import create_app
from app.settings import Settings
from app.web.openapi_sharing import share_repeats
from docs.generation.commands import render_commands
from docs.generation.errors import render_errors
from docs.generation.http import render_http
from docs.generation.settings import render_settings
from docs.generation.tools import render_tools


def make_pages() -> Mapping[str, str]:
    """The text of each generated page, by its path below `docs/`."""
    document = create_app(Settings()).openapi()
    return {
        "reference/http.md": render_http(document),
        "reference/openapi.json": json.dumps(share_repeats(document), indent=1, ensure_ascii=False),
        "reference/mcp.md": render_tools(),
        "reference/commands.md": render_commands(),
        "reference/settings.md": render_settings(),
        "reference/errors.md": render_errors(),
    }
