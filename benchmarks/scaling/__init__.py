"""How the service scales beyond one server: measured on this machine, and on paper for larger numbers."""
