"""Split wheels set back: the fat wheel's files, metadata and code, read by zipfile and installed by pip."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from fat_wheels import ALPHA, BETA, GAMMA, INFO, METADATA, VERSION, Content, content, fat_bytes, usual
from fat_wheels import write as write_fat

from command_line import Run
from needs import needs
from oracle import loader
from oracle.fat_library import build_library, bundle, code_object
from oracle.fatbin_walk import walk
from rocwright.device_code.wheel.merge import merge_wheels
from rocwright.device_code.wheel.unsplit import WheelUnsplit, unsplit_wheels
from rocwright.device_code.wheel.wheel import split_wheel
from rocwright.errors import InvalidArchive, InvalidInput, InvalidWheel, RocwrightError, UsageError

pytestmark = [needs("gcc"), pytest.mark.slow]

TAG = "py3-none-any"
HOST = f"mini_torch-{VERSION}-{TAG}.whl"
LIBRARIES = {"torch/lib/libraw.so": [ALPHA, GAMMA], "torch/_C.so": [BETA]}
DATABASES = {
    "gfx942": "torch/lib/rocblas/library/Kernels_gfx942.hsaco",
    "gfx1100": "torch/lib/aotriton.images/amd-gfx11xx/flash/x.aks2",
}
NEEDS = ["rocm-sdk-device-@GFXARCH@ == 7.1"]


def device(target: str) -> str:
    return f"amd_mini_torch_device_{target}-{VERSION}-{TAG}.whl"


@pytest.fixture(scope="module")
def fat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fat")
    return write_fat(place / "in", usual(fat_bytes(place)), filename=HOST)


@pytest.fixture(scope="module")
def dist(fat: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dist")
    split_wheel(fat, place, device_requires=NEEDS)
    return place


@pytest.fixture(scope="module")
def done(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> WheelUnsplit:
    return unsplit_wheels(sorted(dist.iterdir()), tmp_path_factory.mktemp("back"))


def code_in(found: Content, name: str, place: Path) -> list[dict[str, bytes]]:
    """Code by target of each wrapper of a library in a wheel."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "lib.so").write_bytes(found.files[name])
    return [
        {text.rpartition("--")[2]: one.data or b"" for text, one in wrapper.device.items()}
        for wrapper in walk(place / "lib.so")
    ]


def test_the_fat_wheel_is_back(done: WheelUnsplit, fat: Path, tmp_path: Path) -> None:
    (wheel,) = done.wheels
    assert Path(wheel.path).name == HOST and wheel.size == Path(wheel.path).stat().st_size
    assert [path.name for path in Path(wheel.path).parent.iterdir()] == [HOST]
    # `content` compares RECORD with every file.
    found, before = content(Path(wheel.path)), content(fat)
    assert found.files.keys() == before.files.keys()
    other = {*LIBRARIES, f"{INFO}/RECORD"}
    assert {n: d for n, d in found.files.items() if n not in other} == {
        n: d for n, d in before.files.items() if n not in other
    }
    assert found.files[f"{INFO}/METADATA"] == METADATA
    for name, units in LIBRARIES.items():
        assert code_in(found, name, tmp_path) == units
    assert found.info["torch/bin/tool"].external_attr >> 16 == 0o100755
    assert (done.objects, done.identical) == (7, 7)
    assert (wheel.files, wheel.missing) == (2, ())


def test_it_splits_again_to_the_same_wheels(done: WheelUnsplit, dist: Path, tmp_path: Path) -> None:
    split_wheel(Path(done.wheels[0].path), tmp_path, device_requires=NEEDS)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in dist.iterdir())
    for target in ("gfx90a", "gfx942", "gfx1100", "gfx11"):
        assert content(tmp_path / device(target)).files == content(dist / device(target)).files
    hosts = [content(place / HOST).files for place in (dist, tmp_path)]
    changed = {name for name in hosts[0] if hosts[0][name] != hosts[1].get(name)}
    assert changed <= {*LIBRARIES, f"{INFO}/RECORD"}


def test_pip_installs_it_and_the_loader_finds_fat_wrappers(done: WheelUnsplit, tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(site)]
    keep = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    words = [*command, done.wheels[0].path]
    ended = subprocess.run(words, capture_output=True, text=True, env=keep, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not list(site.rglob("*.kpack")) and not list(site.rglob(".kpack"))
    for name, units in LIBRARIES.items():
        for isa, target in (("gfx942", "gfx942"), ("gfx90a:sramecc+:xnack-", "gfx90a:xnack-")):
            found = loader.load(site / name, isa=isa, workdir=tmp_path / "work")
            assert not found.error and {one.magic for one in found} == {loader.HIPF}
            loaded = [None if one.reason else one.read() for one in found]
            assert loaded == [unit.get(target) for unit in units]


def test_check_finds_nothing(rocwright: Run) -> None:
    """A wheel in which nothing was wrong, from the split to the check as people type it."""
    units = [
        bundle([("gfx942", code_object(0x4C, b"x" * 3999)), ("gfx1100", code_object(0x41, b"y" * 3999))])
    ]
    flags = ["-Wl,-soname,libmini.so"]
    library = build_library(Path("lib"), bundles=units * 2, name="libmini.so", ldflags=flags)
    metadata = b"Metadata-Version: 2.1\nName: mini-code\nVersion: 1.0\nRequires-Python: >=3.10\n\nText.\n"
    files = {"mini_code/__init__.py": b"x = 1\n", "mini_code/lib/libmini.so": library.read_bytes()}
    name = "mini_code-1.0-py3-none-linux_x86_64.whl"
    fat = write_fat(Path("in"), files, filename=name, metadata=metadata)
    rocwright("wheel", "split", fat, "--output-dir", "split")
    wheels = sorted(Path("split").iterdir())
    said = rocwright("kpack", "unsplit", *wheels, "--output-dir", "back", "--json").json
    assert said["wheels"][0]["path"] == f"back/{name}"
    for path in (fat, Path("back", name)):
        ended = rocwright("check", path, "--json")
        assert ended.code == 0 and ended.json["findings"] == []


def test_targets_choose_device_wheels(dist: Path, fat: Path, tmp_path: Path) -> None:
    for target in ("gfx942", "gfx1100"):
        unsplit_wheels(sorted(dist.iterdir()), tmp_path / target, targets=[target])
        found = content(tmp_path / target / HOST)
        other = DATABASES["gfx1100" if target == "gfx942" else "gfx942"]
        assert found.files.keys() == content(fat).files.keys() - {other}
        for name, units in LIBRARIES.items():
            mine = [{t: data for t, data in unit.items() if t == target} for unit in units]
            assert code_in(found, name, tmp_path / "x") == mine


def test_only_the_wheels_at_hand_without_targets(dist: Path, tmp_path: Path) -> None:
    done = unsplit_wheels([dist / HOST, dist / device("gfx942")], tmp_path)
    assert {one.targets for one in done.wheels[0].libraries} == {("gfx942",)}
    assert done.wheels[0].missing == tuple(map(device, ("gfx90a", "gfx1100", "gfx11")))


def test_a_wheel_that_was_merged_for_a_family(dist: Path, tmp_path: Path) -> None:
    split = tmp_path / "split"
    split_wheel(Path(unsplit_wheels(sorted(dist.iterdir()), tmp_path / "0").wheels[0].path), split)
    merge_wheels(sorted(split.iterdir()), tmp_path / "merged", families=["gfx942"])
    done = unsplit_wheels([tmp_path / "merged/gfx942" / HOST], tmp_path / "out")
    found = content(tmp_path / "out" / HOST)
    assert not [name for name in found.files if ".kpack" in name]
    assert found.files[f"{INFO}/METADATA"] == METADATA
    assert code_in(found, "torch/_C.so", tmp_path / "x") == [{"gfx942": BETA["gfx942"]}]
    assert done.objects == 3


def test_the_same_inputs_give_the_same_bytes(done: WheelUnsplit, dist: Path, tmp_path: Path) -> None:
    unsplit_wheels(sorted(dist.iterdir())[::-1], tmp_path, threads=1)
    assert (tmp_path / HOST).read_bytes() == Path(done.wheels[0].path).read_bytes()


def test_a_dry_run_writes_nothing(done: WheelUnsplit, dist: Path, tmp_path: Path) -> None:
    planned = unsplit_wheels(sorted(dist.iterdir()), tmp_path / "out", dry_run=True)
    assert not (tmp_path / "out").exists()
    assert planned.objects == 7 and planned.identical == 0
    sizes = [[one.fat_size for one in each.wheels[0].libraries] for each in (planned, done)]
    assert sizes[0] == sizes[1]


# -- what is refused ---------------------------------------------------------------------------------------


def refused(paths: Sequence[Path], place: Path, kind: type[RocwrightError], **how: object) -> str:
    """The error's text; an earlier output stays as it was, and nothing lies beside it."""
    out = place / "out"
    out.mkdir()
    (out / HOST).write_bytes(b"of an earlier run")
    for dry_run in (True, False):
        with pytest.raises(kind) as caught:
            unsplit_wheels(paths, out, dry_run=dry_run, **how)
        assert [path.name for path in out.iterdir()] == [HOST]
        assert (out / HOST).read_bytes() == b"of an earlier run"
    return f"{caught.value}\n{caught.value.next_step}"


def test_a_target_without_device_wheel(dist: Path, tmp_path: Path) -> None:
    text = refused(sorted(dist.iterdir()), tmp_path, InvalidInput, targets=["gfx950"])
    assert f"no archive at hand has code of {HOST} for gfx950" in text
    assert "there are: gfx90a:xnack+ gfx90a:xnack- gfx942 gfx1100;" in text


def test_a_group_that_a_target_needs(dist: Path, tmp_path: Path) -> None:
    text = refused([dist / HOST, dist / device("gfx1100")], tmp_path, InvalidInput)
    assert f"needs {device('gfx11')}" in text


def test_a_host_alone_and_a_device_wheel_alone(dist: Path, tmp_path: Path) -> None:
    assert "its archives are not beside it" in refused([dist / HOST], tmp_path, InvalidInput)
    shutil.rmtree(tmp_path / "out")
    text = refused([dist / device("gfx942")], tmp_path, InvalidInput)
    assert "is a device wheel that no host given offers" in text


def test_a_wheel_that_was_not_split(fat: Path, tmp_path: Path) -> None:
    assert "was not split" in refused([fat], tmp_path, UsageError)


def test_a_device_wheel_of_another_build(dist: Path, tmp_path: Path) -> None:
    libraries = usual(fat_bytes(tmp_path / "fat"))
    other = build_library(
        tmp_path / "other",
        bundles=[bundle([("gfx942", code_object(0x4C, b"other" * 999))])] * 2,
        extra_asm=".section .rodata\n.zero 64\n",
    )
    libraries["torch/lib/libraw.so"] = other.read_bytes()
    split_wheel(write_fat(tmp_path / "in", libraries, filename=HOST), tmp_path / "strange")
    text = refused([dist / HOST, tmp_path / "strange" / device("gfx942")], tmp_path, InvalidInput)
    assert "mini_torch_gfx942.kpack is not of torch/lib/libraw.so" in text and "of build" in text


def test_databases_of_another_build(dist: Path, tmp_path: Path) -> None:
    """The archives are the host's; what the part says of itself is not."""
    found = content(dist / device("gfx942"))
    info = f"amd_mini_torch_device_gfx942-{VERSION}.dist-info"
    said = json.loads(found.files["torch/.kpack/mini_torch_gfx942.json"])
    files = {name: data for name, data in found.files.items() if not name.startswith(info)}
    files["torch/.kpack/mini_torch_gfx942.json"] = json.dumps(said | {"build": "f" * 32}).encode()
    place = tmp_path / "changed"
    write_fat(place, files, filename=device("gfx942"), metadata=found.files[f"{info}/METADATA"])
    text = refused([dist / HOST, place / device("gfx942")], tmp_path, InvalidInput)
    assert f"{device('gfx942')} is of another build than {HOST}" in text


def test_an_archive_that_is_not_the_one_that_its_wheel_names(dist: Path, tmp_path: Path) -> None:
    """RECORD was written for it: the wheel was packed again."""
    found = content(dist / device("gfx942"))
    info = f"amd_mini_torch_device_gfx942-{VERSION}.dist-info"
    files = {name: data for name, data in found.files.items() if not name.startswith(info)}
    archive = bytearray(files["torch/.kpack/mini_torch_gfx942.kpack"])
    archive[20] ^= 1  # one that nothing else reads
    files["torch/.kpack/mini_torch_gfx942.kpack"] = bytes(archive)
    place = tmp_path / "changed"
    write_fat(place, files, filename=device("gfx942"), metadata=found.files[f"{info}/METADATA"])
    text = refused([dist / HOST, place / device("gfx942")], tmp_path, InvalidArchive)
    assert f"torch/.kpack/mini_torch_gfx942.kpack in {device('gfx942')}: it is of another build, or " in text
    assert ", and torch/.kpack/mini_torch_gfx942.json names " in text


def test_a_damaged_device_wheel(dist: Path, tmp_path: Path) -> None:
    place = tmp_path / device("gfx942")
    data = bytearray((dist / place.name).read_bytes())
    at = data.index(b"KPAK") + 80
    data[at] ^= 1
    place.write_bytes(data)
    with pytest.raises((InvalidWheel, InvalidArchive)) as caught:
        unsplit_wheels([dist / HOST, place], tmp_path / "out")
    assert place.name in str(caught.value) or "mini_torch_gfx942.kpack" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_two_builds_of_a_host(dist: Path, tmp_path: Path) -> None:
    shutil.copy(dist / HOST, tmp_path / HOST)
    text = refused([*sorted(dist.iterdir()), tmp_path / HOST], tmp_path, UsageError)
    assert "is given in several builds" in text


def test_the_host_is_never_replaced(dist: Path) -> None:
    before = {path.name: path.read_bytes() for path in dist.iterdir()}
    with pytest.raises(UsageError, match="would replace"):
        unsplit_wheels(sorted(dist.iterdir()), dist)
    assert {path.name: path.read_bytes() for path in dist.iterdir()} == before
