"""What a repository lacks for its workflows to run: gathered, judged, each with the next step."""
