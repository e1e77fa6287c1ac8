"""The Model Context Protocol: what HTTP offers, as tools for language models."""
