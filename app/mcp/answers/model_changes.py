"""The result of kb_rebuild_embeddings."""

from __future__ import annotations

from app.knowledge.reembedding.account import explain_change
from app.knowledge.reembedding.change import ModelChange
from app.mcp.answers.tool_answer import ToolAnswer, to_json
from app.web.rendering import describe_change

STATES = {
    "filling": "The vectors are being created",
    "ready": "The vectors are complete, and searches use the old model",
    "switched": "Searches use the new vectors",
    "dropping": "The change has ended, and the vectors that are not in use are being removed",
}


def answer_change(change: ModelChange) -> ToolAnswer:
    """Describe a change in text and as structured output."""
    subject = f"Rebuild of {change.new.name}" if change.rebuild else f"{change.old.name} to {change.new.name}"
    done = f"{change.progress:.0%} of {change.entries} entries are done"
    lines = [f"{subject}: {change.state}. {STATES[change.state]}; {done}.", *explain_change(change)]
    return ToolAnswer("\n".join(lines), to_json(describe_change(change)))
