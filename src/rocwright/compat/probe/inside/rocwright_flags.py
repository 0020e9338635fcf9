"""Flags of torch: can they be read and set, and does it make a difference?"""

from __future__ import annotations

from typing import Any

from rocwright_exercise import Absent, Skipped, Step, expect

# A long sum, which the libraries cut into parts: their partial sums are what the flags are about.
_OUTER, _INNER = 64, 65_536


def steps_of_flag(torch: Any, device: str, row: dict[str, Any]) -> list[Step]:
    """Read, set, and compute with each value; the flag is left as it was."""
    *owners, name = row["name"].split(".")
    owner = torch
    for part in owners[1:] if owners and owners[0] == "torch" else owners:
        owner = getattr(owner, part, None)
    try:
        before = getattr(owner, name)
    except (AttributeError, RuntimeError) as error:
        raise Absent(f"{row['name']}: {error}") from error

    def read() -> str:
        return str(before)

    def write() -> str:
        """Each value in turn; what is read back must be what was set."""
        try:
            for value in (False, True):
                setattr(owner, name, value)
                expect(_truth(getattr(owner, name)), value)
        finally:
            setattr(owner, name, before)
        return "False, True"

    def differs() -> dict[str, Any]:
        if device != "cuda":
            raise Skipped("it is about kernels of GPUs")
        left, right, exact = _factors(torch, row["dtype"], device)
        found = {}
        try:
            for value in (False, True):
                setattr(owner, name, value)
                found[value] = (left @ right).double()
        finally:
            setattr(owner, name, before)
        # As text: what overflowed is no number of JSON.
        off = {str(value): f"{float((one - exact).abs().max()):.4g}" for value, one in found.items()}
        return {"differ": not torch.equal(found[False], found[True]), "off": off}

    return [("readable", read), ("settable", write), ("differs", differs)]


def _truth(value: Any) -> bool:
    """Newer versions answer with several words, the first of which is the flag."""
    return bool(value[0] if isinstance(value, tuple) else value)


def _factors(torch: Any, kind: str, device: str) -> tuple[Any, Any, Any]:
    """Two matrices of this data type, and their product in double precision."""
    torch.manual_seed(11)
    dtype = getattr(torch, kind)
    left = torch.rand(_OUTER, _INNER, device=device).to(dtype)
    right = torch.rand(_INNER, _OUTER, device=device).to(dtype)
    # In half precision a sum beyond 65504 is none: 65,536 products with a mean of 1/4 stay below.
    return left, right, left.double() @ right.double()
