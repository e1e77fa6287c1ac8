"""Floods: what one tenant's flood does to another tenant, and to the service."""
