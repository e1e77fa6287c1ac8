"""`knowledge serve`: one process, or several under one that starts and replaces them."""
