"""Reference pages that are generated from the code whenever the site is built, so that they stay up to date."""
