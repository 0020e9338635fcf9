"""Whom a channel trusts: keys, roles, signatures over what opens its gate, and a store that minds them."""
