"""The tools, each with its required role; they do the same as the HTTP endpoints."""

from collections.abc import Mapping

from app.mcp.tools import administration, reading, searching, writing
from app.mcp.tools.tool import Tool

TOOLS: Mapping[str, Tool] = {
    tool.name: tool for module in (searching, reading, writing, administration) for tool in module.TOOLS
}
"""Tools by name, in the order of the listing."""
