"""Wheels split with variants: what chooses among the device wheels is written, and the host requires it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fat_wheels import FILENAME, INFO, TAG, VERSION, fat_bytes, usual
from fat_wheels import content as opened
from fat_wheels import write as write_fat

from rocwright.check.run import check_paths
from rocwright.device_code.wheel.unsplit import unsplit_wheels
from rocwright.device_code.wheel.wheel import WheelSplit, split_wheel
from rocwright.errors import UsageError
from rocwright.pipeline.variants import with_selectors

CHOOSES = f"amd_mini_torch_device-{VERSION}-py3-none-{TAG.rpartition('-')[2]}"
LABELS = ("gfx90a", "gfx942", "gfx1100")


@pytest.fixture(scope="module")
def fat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    libraries = fat_bytes(tmp_path_factory.mktemp("fat"))
    return write_fat(tmp_path_factory.mktemp("wheel"), usual(libraries))


@pytest.fixture(scope="module")
def split(fat: Path, tmp_path_factory: pytest.TempPathFactory) -> WheelSplit:
    return split_wheel(fat, tmp_path_factory.mktemp("split"), overlay_root="torch", variants=True)


def output(split: WheelSplit) -> Path:
    return Path(split.host).parent


def test_each_target_of_a_device_wheel_has_a_variant_that_requires_it(split: WheelSplit) -> None:
    wanted = [f"{CHOOSES}.whl", *(f"{CHOOSES}-{label}.whl" for label in ("null", *LABELS))]
    assert sorted(Path(path).name for path in split.selectors) == sorted(wanted)
    for label in LABELS:
        text = opened(output(split) / f"{CHOOSES}-{label}.whl").files
        [metadata] = [data.decode() for name, data in text.items() if name.endswith("/METADATA")]
        assert f"Requires-Dist: amd-mini-torch-device-{label}=={VERSION}\n" in metadata
    assert f"Requires-Dist: amd-mini-torch-device=={VERSION}" in metadata_of(output(split) / FILENAME)


def metadata_of(wheel: Path) -> list[str]:
    return opened(wheel).files[f"{INFO}/METADATA"].decode().splitlines()


def test_what_comes_out_breaks_no_rule_about_variants(split: WheelSplit) -> None:
    found = check_paths([output(split)], closed=True).findings
    assert [one for one in found if one.rule.startswith("variant") or "selector" in one.cause] == []


def test_a_set_with_variants_leaves_such_wheels_as_they_are(
    split: WheelSplit, fat: Path, tmp_path: Path
) -> None:
    files = sorted(output(split).glob("*.whl"))
    assert sorted(with_selectors(files, tmp_path / "work", lambda _: None)) == files
    # Variants that come later are the same, byte for byte, and so is what the host requires.
    plain = split_wheel(fat, tmp_path / "plain", overlay_root="torch")
    later = with_selectors([Path(plain.host).parent], tmp_path / "later", lambda _: None)
    for path in later:
        if path.name == FILENAME:
            assert metadata_of(path) == metadata_of(output(split) / FILENAME)
        else:
            assert path.read_bytes() == (output(split) / path.name).read_bytes()


def test_without_variants_nothing_changes(fat: Path, split: WheelSplit, tmp_path: Path) -> None:
    plain = split_wheel(fat, tmp_path, overlay_root="torch")
    assert plain.selectors == ()
    left = {path.name for path in output(split).iterdir()} - {Path(one).name for one in split.selectors}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_a_wheel_without_device_code_gets_none(tmp_path: Path) -> None:
    fat = write_fat(tmp_path / "in", {"torch/__init__.py": b""})
    done = split_wheel(fat, tmp_path / "out", variants=True)
    assert done.selectors == ()
    assert (tmp_path / "out" / FILENAME).read_bytes() == fat.read_bytes()


def test_a_variant_is_not_split(fat: Path, tmp_path: Path) -> None:
    variant = tmp_path / FILENAME.replace(".whl", "-gfx942.whl")
    shutil.copy(fat, variant)
    with pytest.raises(UsageError, match="is the variant gfx942"):
        split_wheel(variant, tmp_path / "out", variants=True)
    assert not (tmp_path / "out").exists()


def test_what_was_split_with_variants_becomes_one_wheel_again(
    fat: Path, split: WheelSplit, tmp_path: Path
) -> None:
    unsplit_wheels(sorted(output(split).glob("*.whl")), tmp_path)
    assert metadata_of(tmp_path / FILENAME) == metadata_of(fat)
