"""Environments made with pip and uv over HTTP, broken on purpose: the doctor names it, its command mends it.

ROCm's packages are those of the small ROCm (made by this tool, libraries by gcc); torch is a miniature of a
few lines that loads them as the real one does.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from real import sdk_index
from real.conftest import Newcomer
from real.sdk_sets import Environment, SmallSets
from rocwright.model.sets import FileEntry, canonical_json, new_set
from unit.compat.doctor.desk import VERSION_PY, Tree
from wheels import ANY, write_wheel

# gfx_target_version of an MI300X and a Radeon RX 7900, for which the small ROCm has code, and of an MI210.
MI300X, RADEON_7900, MI210 = 90402, 110000, 90010

TORCH = """
import ctypes, os
import rocm_sdk
rocm_sdk.initialize_process(preload_shortnames=["amdhip64"])
{more}
from .version import __version__
"""
BY_NAME = 'ctypes.CDLL("librocblas.so.4")\n'


def torch_wheel(
    folder: Path, version: str, *, hip: str | None, cuda: str | None = None, more: str = ""
) -> Path:
    files = {
        "torch/__init__.py": TORCH.format(more=more) if hip else "from .version import __version__\n",
        "torch/version.py": VERSION_PY.format(version=version, hip=hip, cuda=cuda),
    }
    return write_wheel(
        folder, "torch", version, files, requires=["rocm[libraries]==1.0"] if hip else [], tag=ANY
    )


@dataclass
class Practice:
    """The doctor, a patient, and where its packages come from."""

    newcomer: Newcomer
    patient: Environment
    tree: Tree
    index: sdk_index.Index
    wheels: Path

    def visit(self, *words: str | Path, **variables: str) -> tuple[int, dict[str, Any], str]:
        """Exit code, result and talk of `rocwright doctor`."""
        done = self.newcomer.rocwright(
            *("doctor", "--json", "--python", self.patient.root, "--root", self.tree.root),
            *("--index-url", self.index.url, *words),
            ok=False,
            **variables,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout), done.stderr

    def complaints(self, *words: str | Path, **variables: str) -> dict[str, list[dict[str, str]]]:
        """What is to be mended in the environment, by kind."""
        code, told, _ = self.visit(*words, **variables)
        found: dict[str, list[dict[str, str]]] = {}
        for item in told["findings"]:
            if item["section"] == "environment" and item["verdict"] in ("missing", "wrong"):
                found.setdefault(item["id"], []).append(item)
        assert code == 0 or found or any(item["verdict"] == "missing" for item in told["findings"])
        return found

    def mend(self, command: str) -> None:
        """Run a command of the doctor's in a shell, as it was printed."""
        path = f"{self.newcomer.clone}/.venv/bin:/usr/bin:/bin"
        done = self.patient.call("/bin/sh", "-ec", command, PATH=path)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.fixture
def practice(
    newcomer: Newcomer, small_sets: SmallSets, tmp_path_factory: pytest.TempPathFactory, request: Any
) -> Iterator[Callable[..., Practice]]:
    """Makes an environment with ROCm and the miniature torch, in order, on a machine with an MI300X."""
    root = newcomer.home / f"doctor-{request.node.name.replace('[', '-').replace(']', '')}"
    root.mkdir()
    wheels = root / "wheels"
    wheels.mkdir()
    stack: list[Any] = []

    def make(installer: str = "uv", *, more: str = "") -> Practice:
        torch_wheel(wheels, "2.9.0+rocm1.0", hip="1.0.60850", more=more)
        server = sdk_index.serving(small_sets.old, wheels)
        index = server.__enter__()
        stack.append(server)
        tree = Tree(root / "machine").gpu(MI300X)
        newcomer.own(root)
        patient = Environment(newcomer, root / "venv", installer, index, root / "cache")
        if installer == "pip":
            newcomer.run(*patient.command("install"), "--version", ok=False)
        patient.install("torch", "rocm[libraries,device-gfx942]==1.0")
        return Practice(newcomer, patient, tree, index, wheels)

    yield make
    for server in stack:
        server.__exit__(None, None, None)
    newcomer.run("rm", "-rf", root)


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_what_installers_leave_is_in_order(practice: Callable[..., Practice], installer: str) -> None:
    here = practice(installer)
    assert here.complaints("--deep") == {}
    code, told, _ = here.visit("--import-torch")
    by_kind = {item["id"]: item for item in told["findings"]}
    assert by_kind["import"]["detail"] == "torch 2.9.0+rocm1.0 can be imported"
    assert by_kind["device-code"]["verdict"] == "ok"
    assert told["gpus"] == ["gfx942"] and told["environment"]["torch"] == "rocm"
    assert code in (0, 4)
    # Looking leaves nothing behind, not even compiled modules.
    assert here.patient.problems() == []


def test_a_device_package_that_was_removed(practice: Callable[..., Practice]) -> None:
    here = practice()
    here.patient.uninstall("rocm-sdk-device-gfx942")
    found = here.complaints()
    assert set(found) == {"device-code"}
    (item,) = found["device-code"]
    assert "no device code for GPU 0 (gfx942); none is installed" in item["detail"]
    here.mend(item["next_step"])
    assert here.complaints("--deep") == {}


def test_another_gpu_than_the_one_that_was_installed_for(practice: Callable[..., Practice]) -> None:
    here = practice()
    here.newcomer.run("rm", "-rf", here.tree.root)
    here.tree = Tree(here.newcomer.home / "other-machine").gpu(RADEON_7900).gpu(MI210, 2)
    here.newcomer.own(here.tree.root)
    first, second = here.complaints()["device-code"]
    assert "only the package for gfx942 is installed" in first["detail"]
    # No package is for that one; of those that there are none is of its kind.
    assert "GPU 1 (gfx90a) at all; the nearest it has: gfx942" in second["detail"]
    here.mend(first["next_step"])
    assert [item["about"] for item in here.complaints()["device-code"]] == [second["about"]]
    here.newcomer.run("rm", "-rf", here.tree.root)


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_pypis_torch_on_top(practice: Callable[..., Practice], installer: str, tmp_path: Path) -> None:
    here = practice(installer)
    other = torch_wheel(tmp_path, "2.10.0+cu128", hip=None, cuda="12.8")
    tmp_path.chmod(0o755)
    for place in tmp_path.parents:
        if place.name.startswith("pytest-"):
            place.chmod(0o755)
    here.patient.install("--no-deps", str(copy_for(here, other)))
    found = here.complaints("--import-torch")
    assert set(found) == {"torch"}
    assert "torch 2.10.0+cu128 is built for CUDA 12.8" in found["torch"][0]["detail"]
    here.mend(found["torch"][0]["next_step"])
    assert here.complaints("--deep", "--import-torch") == {}


def copy_for(here: Practice, path: Path) -> Path:
    """The file where the newcomer may read it, and the index does not show it."""
    place = here.wheels.parent / "elsewhere"
    place.mkdir(exist_ok=True)
    target = place / path.name
    target.write_bytes(path.read_bytes())
    here.newcomer.own(place)
    return target


def test_two_torches_over_each_other(practice: Callable[..., Practice], tmp_path: Path) -> None:
    """`pip install --ignore-installed` leaves what was there."""
    here = practice("pip")
    other = copy_for(here, torch_wheel(tmp_path, "2.10.0+cpu", hip=None))
    here.patient.install("--no-deps", "--ignore-installed", str(other))
    found = here.complaints()
    assert {"torch", "duplicate"} <= set(found)
    here.mend(found["duplicate"][0]["next_step"])
    assert here.complaints("--deep", "--import-torch") == {}


def test_a_library_that_was_deleted(practice: Callable[..., Practice]) -> None:
    here = practice()
    (library,) = here.patient.site.glob("_rocm_sdk_core/lib/libamdhip64.so.6*")
    here.newcomer.run("rm", library)
    code, told, err = here.visit("--import-torch")
    by_kind = {item["id"]: item for item in told["findings"] if item["verdict"] != "ok"}
    assert "libamdhip64.so.6" in by_kind["files"]["detail"] and by_kind["files"]["verdict"] == "missing"
    assert "is missing from the installed rocm-sdk-core" in by_kind["import"]["detail"]
    assert code == 15 and "TorchBroken" in err
    assert by_kind["import"]["next_step"] == by_kind["files"]["next_step"]
    here.mend(by_kind["import"]["next_step"])
    assert here.complaints("--deep", "--import-torch") == {}


def test_a_library_that_was_damaged(practice: Callable[..., Practice]) -> None:
    here = practice(more=BY_NAME)
    (library,) = here.patient.site.glob("_rocm_sdk_libraries/lib/librocblas.so.4*")
    here.newcomer.run("cp", "--remove-destination", "/dev/null", library)
    found = here.complaints("--import-torch", LD_LIBRARY_PATH=str(library.parent))
    assert "librocblas.so.4" in found["files"][0]["detail"]
    assert "is damaged, or for another machine: file too short" in found["import"][0]["detail"]
    here.mend(found["import"][0]["next_step"])
    assert here.complaints("--deep") == {}


def test_a_foreign_copy_on_the_library_path(practice: Callable[..., Practice]) -> None:
    here = practice(more=BY_NAME)
    lib = here.patient.site / "_rocm_sdk_libraries/lib"
    assert here.complaints("--import-torch", LD_LIBRARY_PATH=str(lib)) == {}, (
        "the environment's own is no fault"
    )
    foreign = here.wheels.parent / "opt"
    foreign.mkdir()
    (foreign / "librocblas.so.4").write_bytes((lib / "librocblas.so.4").resolve().read_bytes())
    here.newcomer.own(foreign)
    found = here.complaints("--import-torch", LD_LIBRARY_PATH=str(foreign))
    assert set(found) == {"loaded"}, "below another root LD_LIBRARY_PATH leads nowhere"
    assert f"{foreign}/librocblas.so.4" in found["loaded"][0]["detail"]
    here.tree.root.joinpath("link").mkdir()
    code, told, _ = visit_here(here, foreign)
    assert code == 4
    item = next(item for item in told["findings"] if item["id"] == "foreign-libraries")
    assert (item["verdict"], item["next_step"]) == ("wrong", "unset LD_LIBRARY_PATH")
    assert str(foreign) in item["detail"]


def visit_here(here: Practice, library_path: Path) -> tuple[int, dict[str, Any], str]:
    """A visit on the machine itself."""
    done = here.newcomer.rocwright(
        *("doctor", "--json", "--python", here.patient.root), ok=False, LD_LIBRARY_PATH=str(library_path)
    )
    return done.returncode, json.loads(done.stdout), done.stderr


def test_packages_of_two_releases(practice: Callable[..., Practice], small_sets: SmallSets) -> None:
    here = practice()
    with sdk_index.serving(small_sets.new) as newer:
        words = ["--no-deps", "--index-url", newer.url, "rocm-sdk-libraries==1.1"]
        done = here.patient.call(*here.patient.command("install"), "--cache-dir", here.patient.cache, *words)
        assert done.returncode == 0, done.stderr
    found = here.complaints()
    assert {"mixed", "requirements"} <= set(found)
    assert "rocm-sdk-libraries 1.1" in found["mixed"][0]["detail"]
    here.mend(found["mixed"][0]["next_step"])
    assert here.complaints("--deep") == {}


def test_whose_each_distribution_is(
    practice: Callable[..., Practice], small_sets: SmallSets, tmp_path: Path
) -> None:
    here = practice()
    files = sorted([*small_sets.old.glob("*.whl"), *here.wheels.glob("*.whl")])
    manifest = here.wheels.parent / "manifest.json"
    given = new_set(
        family="mini", targets=["gfx942"], platform="linux", files=map(entry_of, files), sources={}
    )
    manifest.write_bytes(canonical_json(given))
    here.newcomer.own(manifest)
    _, told, _ = here.visit("--manifest", manifest)
    whose = {item["name"]: item["whose"] for item in told["environment"]["installed"]}
    # The package rocm was built from its sdist, which the manifest does not list.
    assert whose.pop("rocm") == "unknown"
    assert set(whose.values()) == {"set"} and {"torch", "rocm-sdk-core", "rocm-sdk-libraries"} <= set(whose)
    # Another build under the same version: the miniature with one more requirement.
    files = {
        "torch/__init__.py": "",
        "torch/version.py": VERSION_PY.format(version="2.9.0+rocm1.0", hip="1", cuda=None),
    }
    other = write_wheel(tmp_path, "torch", "2.9.0+rocm1.0", files, tag=ANY)
    here.patient.install("--no-deps", "--reinstall", str(copy_for(here, other)))
    (item,) = here.complaints("--manifest", manifest)["set"]
    assert item["about"] == "torch"
    here.mend(item["next_step"])
    assert "set" not in here.complaints("--manifest", manifest)


def entry_of(path: Path) -> FileEntry:
    name, version, *_ = path.name.removesuffix(".whl").split("-")
    with zipfile.ZipFile(path) as archive:
        (member,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        metadata = hashlib.sha256(archive.read(member)).hexdigest()
    data = path.read_bytes()
    return FileEntry(
        path.name,
        hashlib.sha256(data).hexdigest(),
        len(data),
        name.replace("_", "-").lower(),
        version,
        metadata_sha256=metadata,
    )


def test_old_pythons_are_answered(newcomer: Newcomer) -> None:
    """The script that runs in the environment keeps to Python 3.8's grammar."""
    import ast

    folder = newcomer.clone / "src/rocwright/compat/doctor/inside"
    for path in folder.glob("rocwright_*.py"):
        ast.parse(path.read_text(), feature_version=(3, 8))
    system = subprocess.run(["/usr/bin/python3", "-V"], capture_output=True, text=True, check=True)
    done = newcomer.rocwright("doctor", "--json", "--python", "/usr/bin/python3", ok=False)
    assert json.loads(done.stdout)["environment"]["version"] in system.stdout
    assert sys.version_info >= (3, 10)
