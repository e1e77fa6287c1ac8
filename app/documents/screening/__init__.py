"""Finds suspicious content: invisible characters, secrets, and instructions to language models."""
