"""All mutations, in the order in which they are documented."""

from __future__ import annotations

from real import (
    mutations_archive,
    mutations_code,
    mutations_installers,
    mutations_metadata,
    mutations_python,
    mutations_sets,
    mutations_variants,
)
from real.mutations_base import MUTATIONS, Mutation

__all__ = [
    "MUTATIONS",
    "Mutation",
    "mutations_archive",
    "mutations_code",
    "mutations_installers",
    "mutations_metadata",
    "mutations_python",
    "mutations_sets",
    "mutations_variants",
]
