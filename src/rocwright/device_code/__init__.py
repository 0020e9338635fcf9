"""Code for GPUs inside of libraries: fat binaries and archives of it, and what is done to them.

Formats: `fatbin`, `unpack`, `wrappers`, `kpack`. Plans for a library: `split`, `host`, `cut`, `refill`.
Verbs over trees of files (`tree`), wheels (`wheel`), the parts of a build (`merge_parts`), and the proof of
what they wrote (`verify`).
"""
