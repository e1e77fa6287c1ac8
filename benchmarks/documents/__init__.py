"""Real documents of Debian packages, and questions about them: whether a search finds the page and the heading."""
