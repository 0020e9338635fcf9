"""What stands in the generated blocks of the pages, a module for each kind of source."""
