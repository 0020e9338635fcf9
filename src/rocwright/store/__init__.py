"""Layout, upload, sets, index pages, channels and the gate between them."""
