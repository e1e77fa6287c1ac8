"""Every shape that enters or leaves the service, declared once and used on every surface."""
