"""Ranking quality: a judged collection searched through the whole service, measured and compared with BM25."""
