"""What permissions cost in a large tenant, and whether its callers find all that they may read."""
