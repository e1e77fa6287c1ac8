"""Permissions inside a tenant: no caller learns of what it may not read."""
