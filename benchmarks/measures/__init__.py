"""What is measured besides time under load: recall, the keyword leg, the indexes of large tenants."""
