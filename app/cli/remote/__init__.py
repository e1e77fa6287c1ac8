"""A tenant's knowledge at a service elsewhere, over HTTP: the parts of `app.cli.knowledge.Knowledge`."""
