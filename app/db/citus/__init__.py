"""A Citus cluster: the node of each tenant, and how statements are written there."""
