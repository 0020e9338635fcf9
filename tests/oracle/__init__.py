"""Second readers of the formats, written from their descriptions; they share no code with the project."""
