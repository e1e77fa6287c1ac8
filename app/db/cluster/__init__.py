"""What only a Citus cluster needs: its nodes, the places of tenants, distribution and moves."""
