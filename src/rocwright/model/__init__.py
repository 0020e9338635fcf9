"""Values only: what the rooms hand to each other, frozen, without input or output."""
