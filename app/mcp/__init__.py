"""The Model Context Protocol: the functions of the HTTP API as tools for language models."""
