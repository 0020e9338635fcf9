"""torch of the miniature family, its device code compiled in parts by hipcc: merged it is one build's."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle import loader
from oracle.fatbin_walk import walk
from real.builder.conftest import FOLDERS, Builder
from real.conftest import Demo
from rocwright.binary.elf import read_elf
from rocwright.binary.view import mapped
from rocwright.device_code.same_host import host_differences
from rocwright.device_code.wheel.wheel import split_wheel
from unit.builder.fat_wheels import of_device

ALL = "gfx906,gfx90a,gfx1030"
LIBRARY = "torch/lib/libtorch_hip.so"


def rocwright(*words: str | Path, ok: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "rocwright", *map(str, words)], capture_output=True, text=True
    )
    if ok and done.returncode != 0:
        pytest.fail(f"{words} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done


class Builds:
    """Wheels of torch for all three targets, or of the part with some, each built once, by name."""

    def __init__(self, family: Builder) -> None:
        self.family, self.wheels = family, dict[str, Path]()
        self.source = family.source("torch")

    def __call__(self, name: str, *options: str, targets: str = ALL) -> Path:
        if name not in self.wheels:
            root = self.family.root
            words = ["--root-checkout-dir", root / "src", "--work-dir", root / f"{name}-work"]
            words += ["--output-dir", root / name, "--pytorch-rocm-arch", targets]
            rocwright("build", *self.family.prefix, *words, *options)
            (self.wheels[name],) = (root / name).glob("torch-*.whl")
        return self.wheels[name]

    def one(self) -> Path:
        return self("one", "--device-part", "gfx906")

    def two(self) -> Path:
        return self("two", "--device-part", "gfx90a,gfx1030")


@pytest.fixture(scope="module")
def built(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builds]:
    root = tmp_path_factory.mktemp("parts")
    folder = FOLDERS["torch"]
    shutil.copytree(
        demo.work / "src" / folder,
        root / "src" / folder,
        symlinks=True,
        ignore=shutil.ignore_patterns("build"),
    )
    yield Builds(Builder(root, demo.work, ("torch",)))
    shutil.rmtree(root)


def library(wheel: Path, place: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(LIBRARY, place)
    return place / LIBRARY


def objects(file: Path) -> dict[tuple[int, str], str]:
    """Wrapper and entry → sha256, by the second reader."""
    return {
        (wrapper.index, name): entry.sha256
        for wrapper in walk(file)
        for name, entry in wrapper.device.items()
    }


def members(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def test_merged_parts_are_the_split_of_one_build_object_for_object(built: Builds, tmp_path: Path) -> None:
    whole = built("whole")
    parts = [built.one(), built.two()]
    # Nothing but the library with device code is another one.
    for one in parts:
        odd = {name for name, digest in members(one).items() if members(whole).get(name) != digest}
        assert {name for name in odd if not name.endswith("/RECORD")} == {LIBRARY}
    libraries = [library(wheel, tmp_path / f"x{n}") for n, wheel in enumerate([whole, *parts])]
    assert [len(objects(file)) for file in libraries] == [6, 2, 4]
    for other in libraries[1:]:
        with mapped(libraries[0]) as one, mapped(other) as two:
            assert host_differences(read_elf(one), one, read_elf(two), two) == []

    words = ["wheel", "merge-parts", *parts, "--output-dir", tmp_path / "merged", "--targets", ALL, "--json"]
    report = json.loads(rocwright(*words).stdout)
    assert (report["objects"], report["libraries"], report["shared"]) == (6, 1, 0)
    assert report["targets"] == ["gfx906", "gfx90a", "gfx1030"]
    merged = Path(report["path"])
    assert objects(library(merged, tmp_path / "m")) == objects(libraries[0])

    split_wheel(whole, tmp_path / "split-whole")
    split_wheel(merged, tmp_path / "split-merged")
    device = sorted(path.name for path in (tmp_path / "split-whole").glob("amd_torch_device_*"))
    assert len(device) == 3
    for name in device:
        assert of_device(tmp_path / "split-merged" / name) == of_device(tmp_path / "split-whole" / name)
    hosts = [members(tmp_path / place / whole.name) for place in ("split-whole", "split-merged")]
    odd = {name for name in hosts[0] | hosts[1] if hosts[0].get(name) != hosts[1].get(name)}
    assert {name for name in odd if not name.endswith("/RECORD")} == {LIBRARY}
    rocwright("kpack", "verify", *sorted((tmp_path / "split-merged").iterdir()), "--against", merged)


def test_the_merged_library_registers_the_code_of_each_target(built: Builds, tmp_path: Path) -> None:
    parts = [built.one(), built.two()]
    rocwright("wheel", "merge-parts", *parts, "--output-dir", tmp_path / "merged")
    merged = library(tmp_path / "merged" / parts[0].name, tmp_path / "m")
    with zipfile.ZipFile(parts[0]) as archive:
        archive.extractall(
            tmp_path / "m", [n for n in archive.namelist() if n.startswith("torch/lib/libc10")]
        )
        archive.extract("torch/lib/libtorch_cpu.so", tmp_path / "m")
    for target in ALL.split(","):
        found = loader.load(merged, isa=target, workdir=tmp_path / target)
        own = [wrapper.device[f"hipv4-amdgcn-amd-amdhsa--{target}"].data for wrapper in walk(merged)]
        assert not found.error and [each.read() for each in found] == own


def test_a_part_of_changed_sources_or_of_its_own_targets_is_refused(built: Builds, tmp_path: Path) -> None:
    one = built.one()
    alone = built("alone", targets="gfx90a,gfx1030")
    done = rocwright("wheel", "merge-parts", one, alone, "--output-dir", tmp_path / "out", ok=False)
    assert done.returncode == 3
    assert f"{LIBRARY}: .rodata+0x" in done.stderr
    assert "here 'gfx906 gfx90a gfx1030' and" in done.stderr and "here 'gfx90a gfx1030'" in done.stderr

    changed = built.source / "aten" / "src" / "ATen" / "native" / "cpu" / "Ops.cpp"
    text = changed.read_text()
    changed.write_text(
        text + '\nextern "C" __attribute__((used)) int not_in_the_other_part() { return 7; }\n'
    )
    try:
        two = built("changed", "--device-part", "gfx90a,gfx1030")
    finally:
        changed.write_text(text)
    done = rocwright("wheel", "merge-parts", one, two, "--output-dir", tmp_path / "out", ok=False)
    assert done.returncode == 3 and "torch/lib/libtorch_cpu.so: " in done.stderr
    assert not (tmp_path / "out").exists()
