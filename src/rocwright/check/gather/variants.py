"""What is stated of variants: in a wheel by its `variant.json`, beside wheels by a `…-variants.json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rocwright.check.facts import VariantFacts
from rocwright.check.gather.open_file import reason
from rocwright.errors import InvalidInput
from rocwright.model.variants import WHEEL_FILE, parse_variants

# Far above what all variants of a version take.
_LARGEST = 16 << 20


def wheel_variant(dist_info: str, texts: Mapping[str, bytes]) -> VariantFacts | None:
    """What a wheel states of itself; None without the file, or where it cannot be inflated."""
    member = f"{dist_info}/{WHEEL_FILE}"
    return _read(member, texts[member], WHEEL_FILE) if member in texts else None


def index_variants(path: Path) -> VariantFacts:
    """What a file beside wheels states; never raises for a bad file."""
    try:
        if path.stat().st_size > _LARGEST:
            return VariantFacts(path.name, problem=f"it has more than {_LARGEST:,} bytes")
        return _read(path.name, path.read_bytes(), path.name)
    except OSError as error:
        return VariantFacts(path.name, problem=reason(error))


def _read(file: str, data: bytes, where: str) -> VariantFacts:
    try:
        return VariantFacts(file, parse_variants(data, where=where))
    except InvalidInput as error:
        return VariantFacts(file, problem=error.what)
