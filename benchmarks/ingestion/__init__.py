"""How fast files become searchable, and in how much memory: the ingestion part of `make bench`."""
