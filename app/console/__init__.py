"""The search console: pages for people, over the same services, roles and tenants as every other way in."""
