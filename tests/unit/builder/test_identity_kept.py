"""The identity of a build through all that may happen to its wheels: one, whichever way they came to be."""

from __future__ import annotations

import json
import random
import re
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from fat_wheels import METADATA, TAG, VERSION, write
from hypothesis import given, settings
from hypothesis import strategies as st

from needs import needs, needs_lld
from oracle.fat_library import build_library, bundle, code_object
from rocwright.device_code.merge_parts import Part, merge_parts
from rocwright.device_code.verify.verify import verify
from rocwright.device_code.wheel.merge import merge_wheels
from rocwright.device_code.wheel.wheel import split_wheel
from rocwright.wheel.reversion.plan import plan_reversion
from rocwright.wheel.reversion.versions import parse_rule
from rocwright.wheel.reversion.write import write_reversion

pytestmark = [needs("gcc"), pytest.mark.slow]

MACH = {"gfx90a": 0x3F, "gfx942": 0x4C, "gfx1100": 0x41}
CANDIDATE = f"{VERSION}.0rc2"
LIBRARIES = ("torch/lib/liba.so", "torch/lib/libb.so")


def build(root: Path, targets: Sequence[str], linker: str) -> Path:
    """A build for some targets: the same host code, device code of a size that is the target's."""
    place = root / f"{linker} {' '.join(targets)}"
    if not place.exists():
        members = {"torch/__init__.py": b"x = 1\n", "torch/lib/x_gfx942.hsaco": b"for gfx942"}
        for number, name in enumerate(LIBRARIES):
            code = {
                target: code_object(MACH[target], random.Random(f"{target} {number}").randbytes(size))
                for target, size in zip(MACH, (9_000, 70_001, 300_000), strict=True)
                if target in targets
            }
            library = build_library(
                place / "lib",
                bundles=[bundle(code.items())],
                name=Path(name).name,
                linker=linker,
                ldflags=[f"-Wl,-soname,{Path(name).name}"],
            )
            members[name] = library.read_bytes()
        metadata = METADATA.replace(VERSION.encode(), CANDIDATE.encode())
        write(place, members, filename=f"mini_torch-{CANDIDATE}-{TAG}.whl", metadata=metadata)
    return next(place.glob("*.whl"))


def builds_in(wheels: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Each place that names a build, by what it is of, and the build."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                data = archive.read(name)
                if re.search(r"/\.kpack/.*\.json$", name):
                    yield "all", json.loads(data)["build"]
                elif name in LIBRARIES:
                    (build,) = re.findall(rb"host_build..([0-9a-f]{32})", data)
                    yield name.removeprefix("torch/"), build.decode()
                elif name.endswith(".kpack"):
                    table = data[int.from_bytes(data[8:16], "little") :]
                    yield from msgspec.msgpack.decode(table)["host_builds"].items()


def made(builds: Sequence[Sequence[str]], *, merged: bool, root: Path, work: Path, linker: str) -> list[Path]:
    """Wheels of a host and of its targets, merged before the split or each added to the first host."""
    fat = [build(root, targets, linker) for targets in builds]
    if merged:
        done = merge_parts([Part(path) for path in fat], work / "merged")
        split_wheel(Path(done.path), work / "split")
    else:
        for number, path in enumerate(fat):
            split_wheel(path, work / str(number))
        shutil.copytree(work / "0", work / "split")
        for number in range(1, len(fat)):
            for wheel in (work / str(number)).glob("amd_*"):
                shutil.copy(wheel, work / "split")
    return sorted((work / "split").iterdir())


PARTS = st.permutations(sorted(MACH)).flatmap(
    lambda order: st.integers(1, len(order)).map(lambda at: [sorted(order[:at]), sorted(order[at:])])
)


@pytest.mark.parametrize("linker", ["bfd", pytest.param("lld", marks=needs_lld)])
def test_a_build_has_one_identity_whatever_becomes_of_its_wheels(
    linker: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("builds")
    whole = made(
        [sorted(MACH)], merged=False, root=root, work=tmp_path_factory.mktemp("whole"), linker=linker
    )
    wanted = set(builds_in(whole))
    assert len(wanted) == len(LIBRARIES) + 1

    @settings(max_examples=12)
    @given(parts=PARTS, merged=st.booleans(), released=st.booleans(), family=st.booleans())
    def holds(*, parts: list[list[str]], merged: bool, released: bool, family: bool) -> None:
        work = tmp_path_factory.mktemp("example")
        chosen = [targets for targets in parts if targets]
        wheels = made(chosen, merged=merged, root=root, work=work, linker=linker)
        if released:
            written = write_reversion(plan_reversion(wheels, parse_rule("release")), work / "released")
            wheels = [file.path for file in written]
        # Of a host that offers all of them.
        if family and (merged or len(chosen) == 1):
            target = chosen[-1][0]
            merge_wheels(wheels, work / "family", families=[target])
            wheels = sorted((work / "family" / target).iterdir())
        assert set(builds_in(wheels)) == wanted
        assert [finding for finding in verify(wheels).findings if finding.rule == "kpack-stranger"] == []

    holds()
