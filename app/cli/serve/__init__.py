"""`knowledge serve`: one process, or a supervisor that starts and replaces several."""
