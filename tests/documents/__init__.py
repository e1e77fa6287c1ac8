"""Reading files: detection, parsing, confinement, chunking, language."""
