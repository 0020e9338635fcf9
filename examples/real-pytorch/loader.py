#!/usr/bin/env python3
"""Opens torch's device library as a machine with ROCm would, before and after the split, and compares.

    loader.py TARGET FAT_WHEEL SPLIT_WHEEL...

No GPU and no AMD driver are needed: the tests' stand-in for libamdhip64 takes the place of the runtime. It
follows every wrapper to its code object, in the split library through the marker and the archive, as AMD's
runtime does. Exit code 1 when the two libraries lead to different code objects.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from oracle import loader

LIBRARY = "torch/lib/libtorch_hip.so"
# Those that it needs are the wheel's own; of ROCm there is nothing but stand-ins.
WANTED = ("torch/lib/", "torch/.kpack/")


def unpack(wheels: Iterable[Path], directory: Path) -> Path:
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(directory, [name for name in wheel.namelist() if name.startswith(WANTED)])
    return directory / LIBRARY


def code_objects(library: Path, target: str, work: Path) -> dict[int, str]:
    """sha256 of the code object by the address of the wrapper that leads to it."""
    loading = loader.load(library, isa=target, workdir=work, runtime_paths=[library.parent])
    if loading.error or loading.error_now:
        sys.exit(f"{library}: {loading.error or loading.error_now}")
    for one in loading:
        if one.reason:
            sys.exit(f"{library}: wrapper {one.number} leads to no code object: {one.reason}")
    found = {one.wrapper: hashlib.sha256(one.read()).hexdigest() for one in loading}
    assert len(found) == len(loading), "a wrapper was registered twice"
    magics = {loader.HIPF: "fat", loader.HIPK: "split"}
    kinds = sorted({magics.get(one.magic, hex(one.magic)) for one in loading})
    size = sum(one.code_object.stat().st_size for one in loading if one.code_object)
    print(
        f"{library.name}: {len(found)} {'/'.join(kinds)} wrappers, {size / 1e6:.1f} MB of code for {target}"
    )
    return found


def main(target: str, fat: Path, split: list[Path]) -> int:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        before = code_objects(unpack([fat], place / "fat"), target, place / "fat-work")
        after = code_objects(unpack(split, place / "split"), target, place / "split-work")
    same = sum(before.get(wrapper) == digest for wrapper, digest in after.items())
    print(f"{same} of {len(before)} wrappers lead to the same code object")
    return 0 if before and before == after else 1


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), [Path(word) for word in sys.argv[3:]]))
