"""What has to be there before any work begins."""
