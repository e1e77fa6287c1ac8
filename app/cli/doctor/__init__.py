"""The checks of `knowledge doctor`; each yields findings, and none changes what it looks at."""
