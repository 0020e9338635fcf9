"""What lies beside archives: one build for all parts, databases too, and an archive for each target."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from pathlib import Path

import pytest
from kpack_cases import TARGETS, build_fat

from oracle.fat_library import build_library, bundle
from rocwright.device_code.tree.merge import merge_trees
from rocwright.device_code.tree.split import split_tree
from rocwright.device_code.verify.verify import verify
from trees import write
from unit.check.kpack_cases import BUNDLES, code

DATABASE = "lib/rocblas/library/TensileLibrary_gfx908.dat"


def _rocm(folder: Path, **options: object) -> Path:
    fat = (
        build_library(folder / "fat", **{"bundles": BUNDLES, **options})
        if options
        else build_fat(folder / "fat")
    )
    root = folder / "rocm"
    (root / "lib").mkdir(parents=True)
    shutil.copy2(fat, root / "lib/libfat.so")
    write(root / DATABASE)
    return root


@pytest.fixture
def split(tmp_path: Path) -> Path:
    split_tree(_rocm(tmp_path), tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The same tree of another build."""
    root = _rocm(tmp_path / "other", extra_asm=".section .rodata\n.long 4711")
    split_tree(root, tmp_path / "other/out")
    return tmp_path / "other/out"


def _told(*paths: Path, targets: list[str] | None = None) -> list[tuple[str, str]]:
    report = verify(paths, targets=targets)
    return [(f.rule, f.file) for f in report.findings] + [
        (n.rule, n.file) for n in report.notes if n.rule.startswith("kpack-target")
    ]


def test_parts_say_their_build_and_targets(split: Path) -> None:
    assert verify([split]).findings == ()
    host = json.loads((split / "generic/.kpack/rocm.json").read_bytes())
    assert host["targets"] == list(TARGETS)
    part = json.loads((split / "gfx90a/.kpack/rocm_gfx90a.json").read_bytes())
    its = {
        target: hashlib.sha256((split / f"gfx90a/.kpack/rocm_{target}.kpack").read_bytes()).hexdigest()
        for target in ("gfx90a:xnack+", "gfx90a:xnack-")
    }
    assert part == {**host, "part": "gfx90a", "targets": list(its), "archives": its}
    databases = json.loads((split / "gfx908/.kpack/rocm_gfx908.json").read_bytes())
    assert databases == {**host, "part": "gfx908", "targets": [], "archives": {}}


def test_an_archive_of_a_build_with_equal_host_code(split: Path, tmp_path: Path) -> None:
    """Markers and builds are equal; what lies beside the archive names its bytes."""
    changed = bundle([("gfx942", code("gfx942", b"0")), ("gfx1100", code("gfx1100", b"9"))])
    split_tree(_rocm(tmp_path / "again", bundles=[changed, *BUNDLES[1:]]), tmp_path / "again/out")
    for part in ("generic/.kpack/rocm.json", "gfx942/.kpack/rocm_gfx942.json"):
        assert (split / part).read_bytes() == (tmp_path / "again/out" / part).read_bytes()
    name = "gfx1100/.kpack/rocm_gfx1100.kpack"
    shutil.copy2(tmp_path / "again/out" / name, split / name)
    [finding] = verify([split]).findings
    assert (finding.rule, finding.file) == ("kpack-stranger", name)
    assert "gfx1100/.kpack/rocm_gfx1100.json names " in finding.cause


def test_a_target_without_its_archive(split: Path) -> None:
    (split / "gfx90a/.kpack/rocm_gfx90a:xnack-.kpack").unlink()
    assert _told(split) == [("kpack-target", "generic/.kpack/rocm.json")]
    assert _told(split, targets=["gfx942", "gfx1100"]) == []


def test_a_target_whose_part_is_gone(split: Path) -> None:
    shutil.rmtree(split / "gfx1100")
    assert _told(split) == [("kpack-target", "generic/.kpack/rocm.json")]
    assert _told(split, targets=["gfx942"]) == []


def test_a_machine_with_the_packages_of_one_gpu(split: Path, tmp_path: Path) -> None:
    for part in ("generic", "gfx942"):
        shutil.copytree(split / part, tmp_path / "here", dirs_exist_ok=True)
    # Three archives of two other targets.
    assert _told(tmp_path / "here") == [("kpack-target-absent", "here/.kpack/rocm.json")] * 3
    assert _told(tmp_path / "here", targets=["gfx942"]) == []
    assert _told(tmp_path / "here", targets=["gfx1100"]) == [("kpack-target", "here/.kpack/rocm.json")]
    assert _told(tmp_path / "here", targets=["gfx942", "gfx1201"]) == [
        ("kpack-target", "here/.kpack/rocm.json")
    ]


def test_databases_of_another_build(split: Path, other: Path) -> None:
    shutil.rmtree(split / "gfx908")
    shutil.copytree(other / "gfx908", split / "gfx908")
    assert _told(split) == [("kpack-stranger", "gfx908/.kpack/rocm_gfx908.json")]


def test_a_part_of_another_build_is_one_fault(split: Path, other: Path) -> None:
    shutil.rmtree(split / "gfx942")
    shutil.copytree(other / "gfx942", split / "gfx942")
    assert _told(split) == [("kpack-stranger", "gfx942/.kpack/rocm_gfx942.kpack")]


def test_a_target_that_is_added_later_keeps_the_identity(tmp_path: Path, split: Path) -> None:
    for name, targets in (("first", ["gfx942"]), ("later", ["gfx1100", "gfx90a", "gfx908"])):
        split_tree(tmp_path / "rocm", tmp_path / name, targets=targets)
    merge_trees([tmp_path / "first", tmp_path / "later"], tmp_path / "merged")
    assert _told(tmp_path / "merged") == []
    for part in ("generic", "gfx942", "gfx908"):
        for file in (split / part / ".kpack").iterdir():
            assert (tmp_path / "merged" / part / ".kpack" / file.name).read_bytes() == file.read_bytes()


def test_a_tree_for_a_family_names_its_targets_alone(split: Path, tmp_path: Path) -> None:
    merge_trees([split], tmp_path / "families", families={"mine": ["gfx942", "gfx908"]})
    said = json.loads((tmp_path / "families/mine/.kpack/rocm.json").read_bytes())
    assert said["targets"] == ["gfx942"]
    assert _told(tmp_path / "families/mine") == []


def test_files_of_other_tools_are_none_of_our_business(split: Path) -> None:
    write(split / "generic/.kpack/manifest.json", '{"files": []}')
    assert _told(split) == []


def test_damaged_files_are_findings(split: Path) -> None:
    """Seeded: cut, with bytes changed, of another name."""
    file = split / "generic/.kpack/rocm.json"
    whole, rng = file.read_bytes(), random.Random(31)
    for _ in range(60):
        data = bytearray(whole[: rng.randrange(len(whole) + 1)] if rng.random() < 0.3 else whole)
        for _ in range(rng.randrange(1, 6)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        file.write_bytes(bytes(data))
        allowed = ("kpack-readable", "kpack-stranger", "kpack-target")
        assert all(rule in allowed for rule, _ in _told(split))
    file.write_bytes(whole.replace(b'"rocm"', b'"mine"'))
    assert _told(split) == [("kpack-readable", "generic/.kpack/rocm.json")]
