"""Implement `app.cli.knowledge.Knowledge` over HTTP, for a service elsewhere."""
