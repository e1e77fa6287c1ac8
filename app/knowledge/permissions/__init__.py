"""Permissions inside a tenant: changes of many items, and overviews for admins."""
