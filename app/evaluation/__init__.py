"""Ranking quality: run a judged collection through the whole service, and compare the results with BM25."""
