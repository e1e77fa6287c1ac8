"""The results of tools: structured output, and the same as text for a model."""
