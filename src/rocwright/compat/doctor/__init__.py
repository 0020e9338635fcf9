"""Look at this machine and at an environment: what is missing or wrong there, and which command mends it."""
