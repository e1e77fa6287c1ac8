"""The page about the tools of the Model Context Protocol, from the tools themselves."""

from __future__ import annotations

from app.mcp.tools import TOOLS, Tool
from docs.generation.schemas import describe_default, describe_type
from docs.generation.tables import render_table

INTRODUCTION = """\
# MCP tools

At `/mcp` (streamable HTTP) and with `knowledge mcp` (standard input and output). A caller is offered the tools of its
role; [For agents](../how-to/agents.md) shows how to connect one.
"""


def render_tools() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *map(_render, TOOLS.values())])


def _render(tool: Tool) -> str:
    required = set(tool.input_schema.get("required", ()))
    rows = [
        (f"`{name}`", describe_type(schema), "required" if name in required else describe_default(schema),
         schema.get("description", ""))
        for name, schema in tool.input_schema.get("properties", {}).items()
    ]  # fmt: skip
    return (
        f"## `{tool.name}`\n\n*{tool.title}; for {tool.role.value} and above.* {tool.description}\n\n"
        f"{render_table(('argument', 'type', 'default', ''), rows) if rows else 'Takes no arguments.'}\n"
    )
