"""What commands print: results on stdout; progress, remarks and failures on stderr."""
