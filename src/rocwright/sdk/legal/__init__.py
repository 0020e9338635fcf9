"""What each package says of licences and origins."""
