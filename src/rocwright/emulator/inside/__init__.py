"""What runs in the tested environment under an emulator; standard library only."""
