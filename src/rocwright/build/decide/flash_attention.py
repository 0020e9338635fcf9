"""Whether torch is built with flash attention, and why not."""

from __future__ import annotations

from collections.abc import Sequence

from rocwright.build.decide.wanted import Wanted
from rocwright.errors import UsageError


def choose_flash_attention(
    wanted: Wanted, supported: Sequence[str], *, has_triton: bool
) -> tuple[bool, str | None]:
    """The switch, and a sentence for the user where it is not plainly on.

    A flag wins, else one target that it is built for is enough: the others are dropped there, only a list of
    none at all breaks its configure step. On Linux triton compiles it, so there is none without triton.

    Raises `UsageError` for a flag that asks for it on Linux without triton.
    """
    fitting = [target for target in wanted.targets if target.startswith(tuple(supported))]
    needs_triton = wanted.platform == "linux" and not has_triton
    if wanted.flash_attention is not None:
        if wanted.flash_attention and needs_triton:
            raise UsageError(
                "flash attention was asked for, and triton, which compiles it, is not built",
                next_step="give --triton-dir (rocwright checkout triton), or leave the flag out",
            )
        if wanted.flash_attention and not fitting:
            return True, f"flash attention is on, as asked, but built for none of {' '.join(wanted.targets)}"
        return wanted.flash_attention, None if wanted.flash_attention else "flash attention is off, as asked"
    if needs_triton:
        return False, "flash attention is off: triton, which compiles it, is not built (--triton-dir)"
    if not fitting:
        return False, f"flash attention is off: it is built for none of {' '.join(wanted.targets)}"
    return True, None
