"""What is compiled while ROCm is packaged: programs in place of links to programs, and libraries in place of
names without a version.
"""

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
_SHARED = (
    *("-shared", "-nostdlib", "-s"),
    *("-Wl,--build-id=none", "-Wl,-z,noexecstack", "-Wl,-z,noseparate-code", "-Wl,--hash-style=gnu"),
)


def _compiler(purpose: str) -> str:
    try:
        return str(process.find_program("cc", purpose=purpose, package="gcc"))
    except MissingTool:
        return str(process.find_program("gcc", purpose=purpose, package="gcc"))


@cache
def _template() -> bytes:
    """The compiled launcher, its target still the placeholder; compiled once a run."""
    source = resources.files("rocwright.sdk.plan").joinpath("launcher.c").read_text(encoding="utf-8")
    compiler = _compiler("compile launchers for links to programs")
    with tempfile.TemporaryDirectory(prefix="rocwright-") as scratch:
        text, program = Path(scratch) / "launcher.c", Path(scratch) / "launcher"
        text.write_text(source, encoding="utf-8")
        process.run(
            [compiler, *_FLAGS, "-o", str(program), "launcher.c"],
            cwd=Path(scratch),
            next_step="the compiler must be able to make a static program; install gcc",
        )
        binary = program.read_bytes()
    if binary.count(_PLACEHOLDER) != 1:
        raise InvalidInput("the compiled launcher does not contain its target exactly once", where=compiler)
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


def library_of(name: str, needed: str) -> bytes:
    """A shared library called `name` without anything in it, which needs the library `needed` beside it.

    Whoever opens it finds the functions of that one, which is in the process once, whatever it was opened by.

    Raises `MissingTool` without a C compiler.
    """
    compiler = _compiler(f"make a library {name} that leads to {needed}")
    with tempfile.TemporaryDirectory(prefix="rocwright-") as scratch:
        here = Path(scratch)
        (here / "empty.c").write_text("")
        # What is linked tells nothing but its name.
        for made, more in (
            (needed, ()),
            (name, (needed, "-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN")),
        ):
            options = ["-Wl,--no-as-needed", f"-Wl,-soname,{made}", "-o", made, "empty.c", *more]
            process.run(
                [compiler, *_SHARED, *options],
                cwd=here,
                next_step="the compiler must be able to make a shared library; install gcc",
            )
        return (here / name).read_bytes()
