"""Support for a Citus cluster: its nodes, the places of tenants, distribution and moves."""
