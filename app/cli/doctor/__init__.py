"""The checks of `knowledge doctor`; each yields findings and changes nothing."""
