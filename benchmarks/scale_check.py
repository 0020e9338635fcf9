"""What checking sets of 5, 50 and 500 wheels costs, and a wheel of a thousand to a hundred thousand files.

Each is the whole command `rocwright check`. The wheels of a set stand on each other: each requires the first
one and one more by exact version, imports it, and links its library against that one's, which it finds beside
itself. Each has an extension module, a program and a dozen modules besides. Of the files of the large wheel
a tenth are modules in packages, and the rest headers, as in torch.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from check import CONTRACT_BROKEN, module
from measured import ROCWRIGHT, Command, Side, fresh
from results import Report, ended, grown

from rocwright.wheel.metadata import Metadata
from rocwright.wheel.source import BytesSource
from rocwright.wheel.write import Member, WheelPlan, write_wheel

WHEELS = (5, 50, 500)
FILES = (1_000, 10_000, 100_000)
MODULES = 12
TAG = "cp312-cp312-linux_x86_64"
EXTENSION = "_C.cpython-312-x86_64-linux-gnu.so"
EACH = 100  # files in a directory


def one_of(number: int, extension: bytes, folder: Path) -> WheelPlan:
    """A wheel of the set; its library is linked against that of the wheel before it, in `folder`."""
    name, before = f"part{number}", f"part{(number - 1) // 2}" if number else ""
    library = folder / f"lib{name}.so"
    wants = f"extern int {before}_value(void);" if before else ""
    code = f"{wants} int {name}_value(void) {{ return {f'{before}_value() +' if before else ''} {number}; }}"
    needs = (folder / f"lib{before}.so", f"-Wl,-rpath,$ORIGIN/../../{before}/lib") if before else ()
    compiled(code, library, f"-Wl,-soname,{library.name}", *needs)
    files = {
        "__init__.py": f"import {before}\n".encode() if before else b"VALUE = 1\n",
        "program.py": b"def main():\n    print('done')\n",
        EXTENSION: extension,
        f"lib/{library.name}": library.read_bytes(),
        **{f"m{at}.py": module(number * MODULES + at) for at in range(MODULES)},
    }
    members = tuple(Member(f"{name}/{place}", BytesSource(data)) for place, data in files.items())
    requires = tuple(f"{one}==1" for one in dict.fromkeys(("part0", before)) if number and one)
    metadata = Metadata(name, "1", requires_dist=requires, requires_python=">=3.12")
    entry_points = {"console_scripts": {name: f"{name}.program:main"}}
    return WheelPlan(name, "1", metadata, members, TAG, entry_points=entry_points)


def compiled(code: str, library: Path, *options: str | Path) -> None:
    """Write a shared library."""
    command: Command = ["cc", "-shared", "-fPIC", "-s", "-Wl,-z,noexecstack", "-o", library, "-x", "c", "-"]
    subprocess.run([*command, "-x", "none", *options], input=code.encode(), check=True)


def write_set(folder: Path, count: int) -> None:
    """The wheels of a set; the first of a larger set are those of a smaller one."""
    with tempfile.TemporaryDirectory() as place:
        libraries = Path(place)
        compiled("void *PyInit__C(void) { return 0; }", libraries / EXTENSION)
        extension = (libraries / EXTENSION).read_bytes()
        for number in range(count):
            write_wheel(one_of(number, extension, libraries), folder)


def write_large(folder: Path, count: int) -> None:
    """One wheel with so many files besides those of its dist-info."""
    members = (Member(name, BytesSource(data)) for name, data in large_files(count))
    write_wheel(WheelPlan("large", "1", Metadata("large", "1"), tuple(members)), folder)


def large_files(count: int) -> Iterator[tuple[str, bytes]]:
    """A directory has its `__init__`, modules and headers."""
    for number in range(count):
        place = f"large/d{number // EACH}" if number else "large"
        if number % EACH == 0:
            yield f"{place}/__init__.py", b"VALUE = 1\n"
        elif number % 10 == 0:
            yield f"{place}/m{number}.py", module(number)
        else:
            yield f"{place}/h{number}.h", f"#pragma once\nint value_{number}(int);\n".encode() * 20


def main() -> int:
    """Measure, print, and tell by the exit code whether the goals were met."""
    report = Report("scale", __doc__, runs=1)
    report.parse()
    command: Command = [ROCWRIGHT, "check", "--json"]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sets, large = {}, {}
        for count in WHEELS:
            write_set(wheels := fresh(place / f"set-{count}", made=True), count)
            # All of a closed set, so that every rule about one is applied.
            sets[count] = Side([*command, "--set", wheels, *sorted(wheels.iterdir())], cwd=place)
        for count in FILES:
            write_large(wheels := fresh(place / f"files-{count}", made=True), count)
            large[count] = Side([*command, wheels], cwd=place, accept=(0, CONTRACT_BROKEN))
        what = "check of a set of 5 to 500 wheels that stand on each other"
        report.add(grown("check", what, "wheels", sets, exponent=1.1))
        what = "check of one wheel of 1,000 to 100,000 files"
        report.add(grown("check-files", what, "files", large, exponent=1.1))
    return report.finish()


if __name__ == "__main__":
    ended(main)
