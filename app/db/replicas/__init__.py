"""Read replicas: which of them may serve a tenant's searches, and when."""
