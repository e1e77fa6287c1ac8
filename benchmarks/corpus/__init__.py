"""The entries of the benchmark: their texts and vectors, the tenants, the database and the copies in other systems."""
