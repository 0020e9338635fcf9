#!/usr/bin/env python3
"""STAND-IN for PyTorch's tools/amd_build/build_amd.py: hipifies the miniature tree it lies in.

Like the real script it finds its tree from its own place, corrects one name inside a submodule
textually, writes most translations out of place (c10/cuda -> c10/hip, .cu -> .hip) and those of
torch/csrc in place. It takes no options and is not PyTorch's hipify.
"""

import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
FOLDERS = ("aten/src/ATen/cuda", "aten/src/ATen/native/cuda", "c10/cuda", "torch/csrc")
THIRD_PARTY_FIX = (
    "third_party/minifmt/include/minifmt/platform.h",
    "__HIP_PLATFORM_HCC__",
    "__HIP_PLATFORM_AMD__",
)


def fix_third_party():
    """Replaces the old platform macro in the submodule, as the real script does for some twenty files."""
    name, old, new = THIRD_PARTY_FIX
    path = TREE / name
    if not path.is_file():
        sys.exit(f"{path} is missing: run `git submodule update --init --recursive` in {TREE} first")
    text = path.read_text(encoding="utf-8")
    if old not in text:
        return []
    path.write_text(text.replace(old, new), encoding="utf-8", newline="\n")
    return [name]


def main():
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(TREE / "torch" / "utils" / "hipify"))
    import hipify_python

    written = fix_third_party() + hipify_python.hipify(TREE, FOLDERS)
    for name in written:
        print(f"hipified {name}")
    print(f"miniature hipify: {len(written)} files written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
