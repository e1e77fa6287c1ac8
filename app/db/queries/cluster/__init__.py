"""The queries about the nodes of a Citus cluster, run as the owner of the tables."""
