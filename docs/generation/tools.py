"""The page about the tools of the Model Context Protocol, from the tools themselves."""

from app.mcp.tools import TOOLS
from app.mcp.tools.tool import Tool
from docs.generation.schemas import describe_fields
from docs.generation.tables import render_table

INTRODUCTION = """\
# MCP tools

The tools are available at `/mcp` (streamable HTTP) and with `knowledge mcp` (standard input and output). The role of
the caller determines the tools that it can use; [For agents](../how-to/agents.md) shows how to connect a client.
"""


def render_tools() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *map(_render, TOOLS.values())])


def _render(tool: Tool) -> str:
    rows = describe_fields(tool.input_schema)
    return (
        f"## `{tool.name}`\n\n*{tool.title}; for {tool.role.value} and above.* {tool.description}\n\n"
        f"{render_table(('argument', 'type', 'default', ''), rows) if rows else 'Takes no arguments.'}\n"
    )
