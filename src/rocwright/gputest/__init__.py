"""Test wheels the way a user meets them: a fresh environment, the index, the packages' own tests."""
