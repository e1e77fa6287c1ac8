"""The tools, each with its required role; they do the same as the HTTP endpoints."""

from collections.abc import Mapping

from app.contract.vocabulary import ToolSet
from app.mcp.tools import administration, reading, searching, writing
from app.mcp.tools.tool import Tool

TOOLS: Mapping[str, Tool] = {
    tool.name: tool for module in (searching, reading, writing, administration) for tool in module.TOOLS
}
"""Tools by name, in the order of the listing."""

SETS: Mapping[ToolSet, frozenset[str]] = {
    "core": frozenset({"kb_search", "kb_get_related", "hybrid_search", "kb_get", "kb_add", "kb_update", "kb_feedback"}),
    "all": frozenset(TOOLS),
    "assistants": frozenset({"search", "fetch"}),
}
"""Tools that a client lists: each costs a model tokens. It can call the others, too, since roles protect them."""
