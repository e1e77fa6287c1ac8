"""The console: web pages for people, with the same services, roles and tenants as the other interfaces."""
