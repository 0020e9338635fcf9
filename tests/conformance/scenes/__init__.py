"""What the documents do, one module for each part; importing them registers their cases."""
