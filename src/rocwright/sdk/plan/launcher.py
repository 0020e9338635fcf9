"""Native launchers that stand in for links to programs, which wheels cannot hold."""

from __future__ import annotations

import tempfile
from functools import cache
from importlib import resources
from pathlib import Path

from rocwright.errors import InvalidInput, MissingTool
from rocwright.system import process

_PLACEHOLDER = b"@ROCWRIGHT-LAUNCHER-TARGET@"
_ROOM = 512
_FLAGS = (
    *("-Os", "-ffreestanding", "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fno-pie"),
    *("-no-pie", "-static", "-nostdlib", "-s"),
    *("-Wl,--build-id=none", "-Wl,-z,noexecstack", "-Wl,-z,noseparate-code"),
)


@cache
def _template() -> bytes:
    """The compiled launcher, its target still the placeholder; compiled once a run."""
    source = resources.files("rocwright.sdk.plan").joinpath("launcher.c").read_text(encoding="utf-8")
    try:
        compiler = process.find_program(
            "cc", purpose="compile launchers for links to programs", package="gcc"
        )
    except MissingTool:
        compiler = process.find_program(
            "gcc", purpose="compile launchers for links to programs", package="gcc"
        )
    with tempfile.TemporaryDirectory(prefix="rocwright-") as scratch:
        text, program = Path(scratch) / "launcher.c", Path(scratch) / "launcher"
        text.write_text(source, encoding="utf-8")
        process.run(
            [str(compiler), *_FLAGS, "-o", str(program), "launcher.c"],
            cwd=Path(scratch),
            next_step="the compiler must be able to make a static program; install gcc",
        )
        binary = program.read_bytes()
    if binary.count(_PLACEHOLDER) != 1:
        raise InvalidInput("the compiled launcher does not hold its target once", where=str(compiler))
    return binary


def launcher(target: str) -> bytes:
    """A program that runs `target`, a path relative to the launcher's own directory, with its arguments.

    Raises `MissingTool` without a C compiler, `InvalidInput` for a target longer than 511 bytes.
    """
    encoded = target.encode()
    if len(encoded) >= _ROOM:
        raise InvalidInput(f"link target is {len(encoded)} bytes, a launcher holds 511: {target}")
    at = (binary := _template()).index(_PLACEHOLDER)
    return binary[:at] + encoded.ljust(_ROOM, b"\0") + binary[at + _ROOM :]
