"""Pages of the reference that are made from the code whenever the site is built, so that they cannot fall behind."""
