"""Record which symbols the runtimes of a distribution and interpreters define: `data/platform_symbols.toml`.

    python docs/record_symbols.py SUITE DATE x86_64=DIR aarch64=DIR python3.11=LIBRARY …

Each DIR holds the unpacked packages libc6, libstdc++6, libgcc-s1, libatomic1, zlib1g and libexpat1 of that
suite of Debian and that architecture (`apt-get download`, `dpkg -x`); LIBRARY is the interpreter's own,
libpython3.11.so.1.0. The names are those that `nm` tells, what is needed what `readelf` tells.
"""

from __future__ import annotations

import base64
import lzma
import re
import subprocess  # noqa: TID251 - a tool beside the package
import sys
import textwrap
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

_OUTPUT = Path(__file__).parent.parent / "src/rocwright/data/platform_symbols.toml"
# A symbol that moved from libpthread to libc is found in either: what one package brings is one row. What the
# loader brings in by name alone (libm) is a row of its own.
_GROUPS = {
    "libc6": (
        "ld-linux-*.so.*", "libc.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1",
        "libanl.so.1",
    ),
    "libc6: libm": ("libm.so.6", "libmvec.so.1"),
    "libc6: libresolv": ("libresolv.so.2",),
    "libc6: libnsl": ("libnsl.so.1",),
    "libc6: libthread_db": ("libthread_db.so.1",),
    "libstdc++6": ("libstdc++.so.6",),
    "libgcc-s1": ("libgcc_s.so.1",),
    "libatomic1": ("libatomic.so.1",),
    "zlib1g": ("libz.so.1",),
    "libexpat1": ("libexpat.so.1",),
}  # fmt: skip
_OWN = "GLIBC_PRIVATE"
_NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
_PYTHON = re.compile(r"python3\.([0-9]+)")
_PYTHONS = "https://www.python.org/downloads/source/"


def names_of(files: list[Path]) -> list[str]:
    """`name` and `name@version` of all that these files define."""
    found = set()
    for file in files:
        argv = ["nm", "-D", "--defined-only", "--format=posix", "--with-symbol-versions", str(file)]
        for line in subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines():
            symbol, kind, *_ = line.split()
            name, _, version = symbol.replace("@@", "@").partition("@")
            if kind in "Aa" or version == _OWN:
                continue
            found |= {name, f"{name}@{version}"} if version else {name}
    # Only the longer form: the other is its beginning.
    versioned = {name.partition("@")[0] for name in found if "@" in name}
    return sorted(name for name in found if "@" in name or name not in versioned)


def needed_by(files: list[Path], own: tuple[str, ...]) -> list[str]:
    """What these files load, themselves aside."""
    found = set()
    for file in files:
        done = subprocess.run(["readelf", "-d", str(file)], check=True, capture_output=True, text=True)
        found |= set(_NEEDED.findall(done.stdout))
    return sorted(name for name in found if not any(fnmatch(name, pattern) for pattern in own))


def main(suite: str, date: str, *roots: str) -> None:
    """Write the table for these directories, `machine=DIR`, and interpreters, `python3.N=LIBRARY`."""
    lines = [
        "# What the C and C++ runtimes and their like define, by architecture: `name` or `name@version`, one a line, and",  # noqa: E501
        "# what CPython does: `name minors`. Packed with xz, as base64. Written by docs/record_symbols.py; never edited.",  # noqa: E501
        "",
        f'source = "https://packages.debian.org/{suite}/"',
        f"checked = {date}",
    ]
    pythons: dict[int, Path] = {}
    for machine, root in (text.split("=", 1) for text in roots):
        if (match := _PYTHON.fullmatch(machine)) is not None:
            pythons[int(match[1])] = Path(root)
            continue
        for package, patterns in _GROUPS.items():
            files = sorted({f.resolve() for p in patterns for f in Path(root).rglob(p) if f.is_file()})
            symbols = names_of(files)
            lines += [
                "",
                "[[library]]",
                f'machine = "{machine}"',
                f'package = "{package}"',
                f"names = [{_quoted(patterns)}]",
                f"needed = [{_quoted(needed_by(files, patterns))}]",
                *_packed(symbols),
            ]
    names = {
        minor: {name for name in names_of([file]) if name.startswith(("Py", "_Py"))}
        for minor, file in pythons.items()
    }
    symbols = [
        f"{name} {','.join(str(minor) for minor in sorted(names) if name in names[minor])}"
        for name in sorted(set().union(*names.values()))
    ]
    minors = ", ".join(map(str, sorted(names)))
    lines += ["", "[interpreter]", f'source = "{_PYTHONS}"', f"checked = {date}", f"minors = [{minors}]"]
    _OUTPUT.write_text("\n".join([*lines, *_packed(symbols)]) + "\n", encoding="utf-8")


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _packed(symbols: list[str]) -> list[str]:
    packed = base64.b64encode(lzma.compress("\n".join(symbols).encode(), preset=9)).decode()
    return [f"count = {len(symbols)}", 'symbols = """', *textwrap.wrap(packed, 116), '"""']


if __name__ == "__main__":
    main(*sys.argv[1:])
