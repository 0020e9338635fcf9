"""Record which symbols the C and C++ runtimes of a distribution define: `data/platform_symbols.toml`.

    python docs/record_symbols.py SUITE DATE x86_64=DIR aarch64=DIR

Each DIR holds the unpacked packages libc6, libstdc++6, libgcc-s1 and libatomic1 of that suite of Debian
and that
architecture (`apt-get download`, `dpkg -x`). The names are those that `nm` tells.
"""

from __future__ import annotations

import base64
import lzma
import subprocess  # noqa: TID251 - a tool beside the package
import sys
import textwrap
from pathlib import Path

_OUTPUT = Path(__file__).parent.parent / "src/rocwright/data/platform_symbols.toml"
# What one package brings is one row: a symbol that moved from libpthread to libc is found in either.
_GROUPS = {
    "libc6": (
        "ld-linux-*.so.*", "libc.so.6", "libm.so.6", "libmvec.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1",  # noqa: E501
        "libutil.so.1", "libresolv.so.2", "libanl.so.1", "libnsl.so.1", "libthread_db.so.1",
    ),
    "libstdc++6": ("libstdc++.so.6",),
    "libgcc-s1": ("libgcc_s.so.1",),
    "libatomic1": ("libatomic.so.1",),
}  # fmt: skip
_OWN = "GLIBC_PRIVATE"


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


def main(suite: str, date: str, *roots: str) -> None:
    """Write the table for these directories, `machine=DIR`."""
    lines = [
        "# What the C and C++ runtimes define, by architecture: `name` or `name@version`, one a line, packed with xz and",  # noqa: E501
        "# written as base64. Written by docs/record_symbols.py from a distribution's packages; never edited.",  # noqa: E501
        "",
        f'source = "https://packages.debian.org/{suite}/"',
        f"checked = {date}",
    ]
    for machine, root in (text.split("=", 1) for text in roots):
        for package, patterns in _GROUPS.items():
            files = sorted({f.resolve() for p in patterns for f in Path(root).rglob(p) if f.is_file()})
            symbols = names_of(files)
            packed = base64.b64encode(lzma.compress("\n".join(symbols).encode(), preset=9)).decode()
            shown = ", ".join(f'"{name}"' for name in patterns)
            lines += [
                "",
                "[[library]]",
                f'machine = "{machine}"',
                f'package = "{package}"',
                f"names = [{shown}]",
            ]
            lines += [f"count = {len(symbols)}", 'symbols = """', *textwrap.wrap(packed, 116), '"""']
    _OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
