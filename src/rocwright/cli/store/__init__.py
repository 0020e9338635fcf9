"""`rocwright store`: what a store can do, what is in it, runs that were uploaded, pages."""
