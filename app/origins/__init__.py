"""Places whose files can be kept as a source: folders, git repositories, and stores that fsspec reaches."""
