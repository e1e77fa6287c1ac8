"""A server, its pool of connections, and the transactions on them."""
