"""Tests on a GPU that an emulator plays: what is tested, what a result there says, what is recorded."""
