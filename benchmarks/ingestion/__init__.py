"""How fast files become searchable, and how much memory that takes: the ingestion part of `make bench`."""
