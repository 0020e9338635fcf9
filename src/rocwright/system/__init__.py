"""The only doors to the world: processes, files, the terminal, git."""
