"""What clients of an index read: pure functions from listed files to pages, and their writing."""
