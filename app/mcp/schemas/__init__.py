"""The arguments and the structured output of tools, as flat JSON schemas."""
