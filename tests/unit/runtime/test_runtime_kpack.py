"""Kpack mode: device packages of single targets beside one libraries package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import fake_rocm as fake
import pytest

INITIALIZE = "import rocm_sdk; rocm_sdk.initialize_process()"


def warnings_of(site: Path, code: str = INITIALIZE, **environ: str) -> list[str]:
    done = fake.python(site, code, **environ)
    assert done.returncode == 0, done.stderr
    return [line.partition("RuntimeWarning: ")[2] for line in done.stderr.splitlines() if "Warning: " in line]


def test_a_missing_libraries_package_says_what_to_install(tmp_path: Path, kpack_wheels) -> None:
    """Today's packages raise UnboundLocalError."""
    site = fake.unpack(tmp_path / "site", kpack_wheels["rocm"], kpack_wheels["core"])
    done = fake.python(site, "import rocm_sdk; rocm_sdk.find_libraries('rocblas')")
    assert done.stderr.strip().splitlines()[-1] == (
        "rocm_sdk._dist.PackageMissing: ROCm library 'rocblas': the package rocm-sdk-libraries is not "
        'installed; install it with: pip install "rocm[libraries]==5.2.3"'
    )
    # A GPU changes nothing about that: who has no libraries needs no device code.
    fake.with_gpus(site, "gfx906")
    assert warnings_of(site) == []
    assert fake.rocm_sdk(site, "test").returncode == 0
    assert json.loads(fake.rocm_sdk(site, "version", "--json").stdout)["packages"]["libraries"] is None


def test_a_gpu_without_its_device_package_is_told_the_line(kpack_site: Path, kpack_wheels) -> None:
    fake.with_gpus(kpack_site, "gfx906", "gfx1030", "gfx906")
    assert warnings_of(kpack_site) == [
        "the installed ROCm libraries have no device code for GPU 0 2 (gfx906), GPU 1 (gfx1030). "
        'Install it with: pip install "rocm[libraries,device-gfx906,device-gfx1030]==5.2.3" '
        "(ROCM_SDK_NO_GPU_CHECK=1 switches this check off)"
    ]
    fake.unpack(kpack_site, kpack_wheels["gfx906"])
    # The other GPU is served now; this one still is not.
    code = INITIALIZE + "; rocm_sdk.initialize_process()"
    assert warnings_of(kpack_site, code) == [
        "the installed ROCm libraries have no device code for GPU 1 (gfx1030). "
        'Install it with: pip install "rocm[libraries,device-gfx1030]==5.2.3" '
        "(ROCM_SDK_NO_GPU_CHECK=1 switches this check off)"
    ]
    assert warnings_of(kpack_site, ROCM_SDK_NO_GPU_CHECK="1") == []
    fake.unpack(kpack_site, kpack_wheels["gfx1030"])
    assert warnings_of(kpack_site) == []


@pytest.mark.parametrize(
    ("environ", "unserved"),
    [
        ({"ROCR_VISIBLE_DEVICES": "0"}, None),
        ({"ROCR_VISIBLE_DEVICES": "1"}, "GPU 0 (gfx1030)"),
        ({"HIP_VISIBLE_DEVICES": "1,0"}, "GPU 0 (gfx1030)"),
        ({"CUDA_VISIBLE_DEVICES": "1"}, "GPU 0 (gfx1030)"),
        ({"ROCR_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "1"}, None),
        ({"ROCR_VISIBLE_DEVICES": "GPU-0000000000000002"}, "GPU 0 (gfx1030)"),
        ({"ROCR_VISIBLE_DEVICES": ""}, None),  # hides all
        ({"HIP_VISIBLE_DEVICES": "-1"}, None),
        ({"HIP_VISIBLE_DEVICES": ""}, "GPU 1 (gfx1030)"),  # as good as not set
        ({"HIP_VISIBLE_DEVICES": "0,7,1"}, None),  # the list ends at what is not there
        ({"HSA_OVERRIDE_GFX_VERSION": "9.0.6"}, None),
        ({"HSA_OVERRIDE_GFX_VERSION": "10.3.1"}, "GPU 0 1 (gfx1031)"),
    ],
    ids=lambda value: " ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else None,
)
def test_hidden_gpus_are_not_compared(
    kpack_site: Path, kpack_wheels, environ: dict[str, str], unserved: str | None
) -> None:
    fake.unpack(kpack_site, kpack_wheels["gfx906"])
    fake.with_gpus(kpack_site, "gfx906", "gfx1030")
    kept = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), "")
    found = warnings_of(kpack_site, **{**kept, **environ})
    if unserved is None:
        assert found == []
    else:
        assert found[0].startswith(f"the installed ROCm libraries have no device code for {unserved}. ")


def test_no_gpu_is_silence(kpack_site: Path) -> None:
    fake.with_gpus(kpack_site)
    assert warnings_of(kpack_site) == []


def test_a_group_serves_its_members(kpack_site: Path, kpack_wheels) -> None:
    fake.with_gpus(kpack_site, "gfx1101")
    assert 'pip install "rocm[libraries,device-gfx11]==5.2.3"' in warnings_of(kpack_site)[0]
    fake.unpack(kpack_site, kpack_wheels["gfx11"])
    assert warnings_of(kpack_site) == []
    assert fake.rocm_sdk(kpack_site, "targets").stdout == "gfx1100;gfx1101\n"


def test_a_target_without_a_package_names_the_nearest(kpack_site: Path) -> None:
    fake.with_gpus(kpack_site, "gfx1103")
    assert warnings_of(kpack_site)[0].startswith(
        "the installed ROCm libraries have no device code for GPU 0 (gfx1103). ROCm 5.2.3 as Python "
        "packages has no device code for gfx1103; the nearest it has: gfx1100 gfx1101"
    )


def test_a_damaged_marker_warns_and_lets_the_program_run(kpack_site: Path, kpack_wheels) -> None:
    fake.unpack(kpack_site, kpack_wheels["gfx906"])
    fake.with_gpus(kpack_site, "gfx906")
    marker = kpack_site / fake.KPACK / "_device_gfx906.json"
    marker.write_text("{")
    (found,) = warnings_of(kpack_site)
    assert found.startswith(f"cannot tell whether ROCm serves the GPUs of this machine: a device package of "
                            f"ROCm is damaged: {marker}: ")  # fmt: skip


def test_targets_lists_only_what_is_installed(kpack_site: Path, kpack_wheels) -> None:
    """Today's `rocm-sdk targets` lists everything that was ever built."""
    done = fake.rocm_sdk(kpack_site, "targets")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "rocm-sdk: the libraries that are installed have no device code. "
        "Which package this machine needs: rocm-sdk targets --detect\n"
    )
    fake.unpack(kpack_site, kpack_wheels["gfx1030"])
    assert fake.rocm_sdk(kpack_site, "targets").stdout == "gfx1030\n"
    assert json.loads(fake.rocm_sdk(kpack_site, "targets", "--json").stdout) == {
        "targets": ["gfx1030"],
        "devices": {"gfx1030": ["gfx1030"]},
        "families": [],
    }


def test_detect_prints_the_gpus_and_one_line_for_all(kpack_site: Path, kpack_wheels) -> None:
    fake.unpack(kpack_site, kpack_wheels["gfx906"])
    fake.with_gpus(kpack_site, "gfx906", "gfx1030")
    done = fake.rocm_sdk(kpack_site, "targets", "--detect")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "0  gfx906  0000:00:00.0  model 1  installed",
        "1  gfx1030  0000:00:00.0  model 2  not installed",
        'pip install "rocm[libraries,device-gfx906,device-gfx1030]==5.2.3"',
    ]


def test_detect_exits_3_when_the_set_has_no_package_for_a_gpu(kpack_site: Path) -> None:
    fake.with_gpus(kpack_site, "gfx1201", "gfx1100")
    done = fake.rocm_sdk(kpack_site, "targets", "--detect")
    assert done.returncode == 3
    assert done.stdout.splitlines()[-1] == 'pip install "rocm[libraries,device-gfx11]==5.2.3"'
    assert done.stderr == (
        "ROCm 5.2.3 as Python packages has no device code for gfx1201; "
        "it has: gfx1030 gfx1100 gfx1101 gfx906\n"
    )
    done = fake.rocm_sdk(kpack_site, "targets", "--detect", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 3
    assert [(gpu["target"], gpu["offered"], gpu["installed"]) for gpu in report["gpus"]] == [
        ("gfx1201", False, False),
        ("gfx1100", True, False),
    ]
    assert report["install"] == 'pip install "rocm[libraries,device-gfx11]==5.2.3"'


def test_detect_without_gpu(kpack_site: Path) -> None:
    fake.with_gpus(kpack_site)
    done = fake.rocm_sdk(kpack_site, "targets", "--detect")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no AMD GPU is visible here\n")


def test_version_tells_the_device_packages(kpack_site: Path, kpack_wheels) -> None:
    fake.unpack(kpack_site, kpack_wheels["gfx906"], kpack_wheels["profiler"])
    facts = json.loads(fake.rocm_sdk(kpack_site, "version", "--json").stdout)
    assert facts == {
        "rocm": "5.2.3",
        "mode": "kpack",
        "family": None,
        "selected_by": None,
        "packages": {"core": "5.2.3", "libraries": "5.2.3", "devel": None, "profiler": "5.2.3"},
        "devices": {"gfx906": "5.2.3"},
        "libraries": ["amd_comgr", "amdhip64", "rocblas"],
        "sources": {"clr": "0123abc"},
    }


def test_a_device_package_of_another_version_fails_its_check(
    kpack_site: Path, tmp_path: Path, kpack_wheels
) -> None:
    fake.unpack(kpack_site, kpack_wheels["gfx906"], fake.device_wheel(tmp_path, "gfx1030", version="5.2.2"))
    checks = json.loads(fake.rocm_sdk(kpack_site, "test", "--json").stdout)["checks"]
    found = {check["id"]: check for check in checks}
    assert found["package:device-gfx906"]["verdict"] == "passed"
    assert found["package:device-gfx1030"] == {
        "id": "package:device-gfx1030",
        "verdict": "failed",
        "cause": "it is version 5.2.2, rocm is 5.2.3",
        "fix": 'pip install "rocm[device-gfx1030]==5.2.3"',
    }


def test_the_profilers_run_from_their_own_tree(kpack_site: Path, kpack_wheels, tmp_path: Path) -> None:
    fake.unpack(kpack_site, kpack_wheels["profiler"])
    code = "from rocm_profiler._cli import rocprof_sys_run; rocprof_sys_run()"
    done = fake.python(kpack_site, code, "-x")
    assert done.stdout == f"rocprof-sys-run from {kpack_site}/_rocm_profiler/bin -x\n"
    alone = fake.unpack(tmp_path / "alone", kpack_wheels["profiler"])
    done = fake.python(alone, code)
    assert done.stderr == (
        'rocm: the profilers need rocm-sdk-core; install it with: pip install "rocm[profiler]"\n'
    )


@pytest.fixture
def with_devel(kpack_site: Path, kpack_wheels) -> Path:
    return fake.unpack(kpack_site, kpack_wheels["devel"])


def test_device_packages_appear_in_an_expanded_tree_and_go_again(with_devel: Path, kpack_wheels) -> None:
    site = with_devel
    tree = Path(fake.rocm_sdk(site, "path", "--root").stdout.strip())
    inode = tree.stat().st_ino
    assert str((tree / ".kpack").readlink()) == f"../{fake.KPACK}/.kpack"
    kernels = tree / "lib/rocblas/library/kernels_gfx906.co"
    note = tree / "_device_gfx906.json"
    assert (note.is_symlink(), note.exists(), (tree / "_device_gfx11.json").is_symlink()) == (
        True,
        False,
        True,
    )
    assert (kernels.is_symlink(), kernels.exists(), (tree / ".kpack").exists()) == (True, False, False)
    assert fake.rocm_sdk(site, "test").returncode in (0, 1)
    fake.unpack(site, kpack_wheels["gfx906"])
    assert fake.rocm_sdk(site, "path", "--root").stdout == f"{tree}\n"
    assert tree.stat().st_ino == inode  # nothing had to be made anew
    assert kernels.read_bytes() == b"gfx906"
    assert note.samefile(site / fake.KPACK / "_device_gfx906.json")
    assert [path.name for path in (tree / ".kpack").iterdir()] == ["rocblas_gfx906.kpack"]
    (site / fake.KPACK / "lib/rocblas/library/kernels_gfx906.co").unlink()
    checks = json.loads(fake.rocm_sdk(site, "test", "--json").stdout)["checks"]
    assert {c["verdict"] for c in checks if c["id"] in ("devel:expand", "devel:layout")} == {"passed"}


def test_a_tree_elsewhere_overlays_by_absolute_links(with_devel: Path, tmp_path: Path) -> None:
    done = fake.rocm_sdk(with_devel, "path", "--root", ROCM_SDK_DEVEL_DIR=str(tmp_path / "elsewhere"))
    tree = Path(done.stdout.strip())
    assert str((tree / ".kpack").readlink()) == f"{with_devel}/{fake.KPACK}/.kpack"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ([".kpack/x", "file", "0"], "bad path '.kpack/x'"),  # below an overlay
        (["more", "overlay", "../alone"], "bad overlay"),
        (["more", "overlay", "../../x/y"], "bad overlay"),
        ([["more"], "overlay", "x"], "_devel.json is not readable"),
        ([7, "overlay", "x"], "_devel.json is not readable"),
    ],
)
def test_bad_overlays_are_refused(kpack_site: Path, tmp_path: Path, entry, words: str) -> None:
    fake.unpack(kpack_site, fake.devel_wheel(tmp_path, entries=[*fake.KPACK_ENTRIES, entry]))
    done = fake.rocm_sdk(kpack_site, "init")
    assert done.returncode == 1
    assert words in done.stderr
    assert not (kpack_site / "_rocm_sdk_devel").exists()


def test_overlays_need_their_package(tmp_path: Path, kpack_wheels) -> None:
    entries = [entry for entry in fake.KPACK_ENTRIES if entry[1] != "sibling" or "core" in entry[2]]
    entries = [entry for entry in entries if entry[0] != "lib/librocblas.so.0"]
    devel = fake.devel_wheel(tmp_path, entries=entries)
    site = fake.unpack(tmp_path / "site", kpack_wheels["rocm"], kpack_wheels["core"], devel)
    assert "the development files need the package rocm-sdk-libraries" in fake.rocm_sdk(site, "init").stderr


def test_cmake_entry_point_is_the_tree(with_devel: Path) -> None:
    code = """
import importlib, importlib.resources
module = importlib.import_module("rocm_sdk_devel.cmake")
print(importlib.resources.files(module))
"""
    done = fake.python(with_devel, code)
    assert done.stdout == f"{with_devel}/_rocm_sdk_devel\n"


def test_every_python_there_is_can_use_the_packages(with_devel: Path) -> None:
    """Python 3.8 is the oldest; machines without it check the one that runs the tests again."""
    versions = Path(sys.base_prefix).parent
    pythons = sorted(versions.glob("3.8*/bin/python")) or [Path(sys.executable)]
    code = (
        "import rocm_sdk; rocm_sdk.initialize_process(preload_shortnames=['amdhip64'], check_version='5.*')"
    )
    for command in (["-c", code], ["-m", "rocm_sdk", "init"], ["-m", "rocm_sdk", "targets", "--detect"]):
        done = subprocess.run(
            [str(pythons[0]), *command], env=fake.child_environ(with_devel), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
