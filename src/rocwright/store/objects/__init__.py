"""Where bytes are kept: the protocol of an object store, its kinds, and a server of what is in a store."""
