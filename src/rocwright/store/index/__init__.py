"""What clients of an index read: pages, locks and install lines of listed sets; written, and verified."""
