"""What each wheel says of the licences and origins of its files (PEP 639, PEP 770)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rocwright.sdk.plan import Shipped
from rocwright.sdk.tree import RocmTree
from rocwright.wheel.source import Source


@dataclass(frozen=True)
class Terms:
    """Of one wheel: SPDX expression, licence texts (name below `licenses/`, bytes), bill of materials."""

    expression: str | None
    texts: tuple[tuple[str, Source], ...]
    bill: bytes


@dataclass(frozen=True)
class Legal:
    """Knows where the files of a tree come from."""

    sources: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_tree(cls, tree: RocmTree) -> Legal:
        """Read what the tree says of its origins."""
        return cls()

    def of(self, distribution: str, version: str, shipped: Sequence[Shipped]) -> Terms:
        """The terms of one wheel."""
        return Terms(None, (), b"{}\n")
