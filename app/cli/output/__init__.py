"""Output of commands: results on stdout; progress, remarks and failures on stderr."""
