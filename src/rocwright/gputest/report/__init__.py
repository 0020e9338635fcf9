"""Reports: JUnit written and read, shards judged, failures grouped by cause, pages for CI and for people."""
