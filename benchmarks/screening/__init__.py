"""Precision and recall of the flags of suspicious content, on generated samples."""
