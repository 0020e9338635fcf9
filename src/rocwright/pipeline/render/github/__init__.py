"""Workflows of GitHub Actions from the definition: each job is one `rocwright pipeline step`."""
