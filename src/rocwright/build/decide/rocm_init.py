"""`torch/_rocm_init.py`: the module through which a framework wheel finds its ROCm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def preload_list(wanted: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """The wanted short names that the installed ROCm has, in order.

    A name that the ROCm at hand does not know would make `import torch` fail on every machine.
    """
    available = frozenset(known)
    return tuple(name for name in wanted if name in available)


def render_rocm_init(preload: Sequence[str], check_version: str) -> str:
    """The module's text: one function `initialize()`, importing `rocm_sdk` only when called."""
    names = "".join(f"            {name!r},\n" for name in preload)
    return (
        '"""Generated at build time: loads ROCm from its Python packages before any extension needs it."""\n'
        "\n\n"
        "def initialize():\n"
        "    import rocm_sdk\n"
        "\n"
        "    rocm_sdk.initialize_process(\n"
        f"        preload_shortnames=[\n{names}        ],\n"
        f"        check_version={check_version!r},\n"
        "    )\n"
    )
