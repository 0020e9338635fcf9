"""rocm_sdk as frameworks call it: find, preload, compare versions."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import fake_rocm as fake
import pytest


def last_line(done) -> str:
    return done.stderr.strip().splitlines()[-1]


def test_every_file_is_valid_for_python_3_8() -> None:
    files = list(fake.RUNTIME.rglob("*.py"))
    assert len(files) > 10
    for file in files:
        tree = ast.parse(file.read_text(), str(file), feature_version=(3, 8))
        # Formatters like to bring these in; Python 3.8 has none of them.
        newer = {"removeprefix", "removesuffix", "is_relative_to", "hardlink_to", "bit_count", "pairwise"}
        assert not newer & {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}, file


def test_importing_rocm_sdk_imports_nothing_else(site: Path) -> None:
    code = "import sys; before = set(sys.modules); import rocm_sdk; print(sorted(set(sys.modules) - before))"
    done = fake.python(site, code)
    assert done.stdout == "['rocm_sdk', 'rocm_sdk._set']\n"


def test_find_gives_absolute_paths_in_the_order_asked_for(site: Path) -> None:
    code = "import rocm_sdk, json; print(json.dumps(rocm_sdk.find_libraries('rocblas', 'amdhip64')))"
    assert json.loads(fake.python(site, code).stdout) == [
        str(site / fake.LIBRARIES / "lib/librocblas.so.0"),
        str(site / "_rocm_sdk_core/lib/libamdhip64.so.5"),
    ]


FIND = "import sys, rocm_sdk; rocm_sdk.find_libraries(sys.argv[1])"


def test_unknown_and_absent_names_are_told_apart(site: Path) -> None:
    assert last_line(fake.python(site, FIND, "rocblass")) == (
        "ModuleNotFoundError: unknown ROCm library 'rocblass'; "
        "known names: amd_comgr amdhip64 hipblas hiprtc rccl rocblas"
    )
    assert last_line(fake.python(site, FIND, "rccl")) == (
        "ModuleNotFoundError: ROCm library 'rccl' is not part of ROCm 5.2.3 as Python packages; "
        "rocm-sdk-libraries-gfx90X-dcgpu has: rocblas"
    )


def test_missing_libraries_package_says_what_to_install(tmp_path: Path, wheels) -> None:
    site = fake.unpack(tmp_path / "site", wheels["rocm"], wheels["core"])
    # What an uninstallation may leave behind is not an installed package.
    (site / fake.LIBRARIES / "lib").mkdir(parents=True)
    assert last_line(fake.python(site, FIND, "rocblas")) == (
        "rocm_sdk._dist.PackageMissing: ROCm library 'rocblas': the package rocm-sdk-libraries-gfx90X-dcgpu "
        'is not installed; install it with: pip install "rocm[libraries]==5.2.3"'
    )
    code = "import rocm_sdk._dist as d; print(issubclass(d.PackageMissing, ModuleNotFoundError))"
    assert fake.python(site, code).stdout == "True\n"
    assert fake.python(site, FIND, "amdhip64").returncode == 0


def test_damaged_package_is_not_called_missing(site: Path) -> None:
    (site / fake.LIBRARIES / "lib/librocblas.so.0").unlink()
    done = fake.python(site, FIND, "rocblas")
    assert last_line(done).startswith("FileNotFoundError")
    assert "--force-reinstall --no-deps rocm-sdk-libraries-gfx90X-dcgpu==5.2.3" in last_line(done)


def test_another_installed_family_is_used_two_others_are_an_error(tmp_path: Path, wheels, libraries) -> None:
    site = fake.unpack(tmp_path / "site", wheels["rocm"], wheels["core"], wheels["other"])
    code = "import rocm_sdk; print(*rocm_sdk.find_libraries('rocblas'))"
    assert "_rocm_sdk_libraries_gfx103x_dgpu/lib/librocblas.so.0" in fake.python(site, code).stdout
    fake.unpack(site, wheels["libraries"])
    assert fake.LIBRARIES in fake.python(site, code).stdout

    third = json.loads(json.dumps(fake.ROCM_SET))
    third["families"]["gfx11"] = ["gfx1100"]
    third["packages"]["libraries"]["gfx11"] = {
        "distribution": "rocm-sdk-libraries-gfx11",
        "module": "_rocm_sdk_libraries_gfx11",
    }
    (tmp_path / "third").mkdir()
    fake.unpack(site, fake.build_rocm(tmp_path / "third", rocm_set=third, family="gfx11"))
    assert "Choose one: ROCM_SDK_TARGET_FAMILY=gfx103X-dgpu" in last_line(fake.python(site, code))


PRELOAD = "import rocm_sdk; rocm_sdk.initialize_process(preload_shortnames={names}{more})"


def preloaded(done) -> list[str]:
    lines = [line.split() for line in done.stderr.splitlines() if line.startswith("rocm_sdk: preloaded")]
    return [words[2] for words in lines]


def test_preload_is_in_order_once_and_takes_names_from_the_environment(site: Path) -> None:
    code = PRELOAD.format(names="['amdhip64', 'amdhip64']", more="")
    code += "; rocm_sdk.preload_libraries('amdhip64', 'rocblas')"
    environ = {"ROCM_SDK_VERBOSE": "1", "ROCM_SDK_PRELOAD_LIBRARIES": " amd_comgr;, amdhip64 "}
    done = fake.python(site, code, **environ)
    assert (done.returncode, preloaded(done)) == (0, ["amdhip64", "amd_comgr", "rocblas"])
    done = fake.python(site, PRELOAD.format(names="[]", more=", env_override=False"), **environ)
    assert (done.returncode, preloaded(done)) == (0, [])


def test_symbols_are_global_by_default_and_private_on_request(site: Path) -> None:
    # librocblas has an undefined symbol that only a global libamdhip64 provides.
    code = PRELOAD.format(names="['amdhip64']", more="")
    code += "; import ctypes; print(ctypes.CDLL(rocm_sdk.find_libraries('rocblas')[0]).blas_answer())"
    assert fake.python(site, code).stdout == "42\n"
    private = code.replace("['amdhip64']", "['amdhip64'], rtld_global=False")
    private = private.replace(").blas_answer", ", mode=2).blas_answer")
    done = fake.python(site, private)
    assert "undefined symbol: hip_answer" in done.stderr
    upgraded = private.replace("; import", "; rocm_sdk.preload_libraries('amdhip64'); import")
    assert fake.python(site, upgraded).stdout == "42\n"


def test_a_library_that_does_not_load_is_named(site: Path) -> None:
    (site / "_rocm_sdk_core/lib/libamdhip64.so.5").write_bytes(b"no library")
    done = fake.python(site, PRELOAD.format(names="['amdhip64']", more=""))
    assert last_line(done).startswith("OSError: cannot load ROCm library 'amdhip64' (")
    assert "file too short" in last_line(done)


def test_unknown_name_in_the_variable_names_the_variable(site: Path) -> None:
    done = fake.python(site, PRELOAD.format(names="[]", more=""), ROCM_SDK_PRELOAD_LIBRARIES="nix")
    assert "ModuleNotFoundError: ROCM_SDK_PRELOAD_LIBRARIES: unknown ROCm library 'nix'" in done.stderr


def test_one_string_is_not_taken_for_a_list_of_letters(site: Path) -> None:
    done = fake.python(site, PRELOAD.format(names="'amdhip64'", more=""))
    assert last_line(done).startswith("TypeError: preload_shortnames is a sequence")


def test_threads_and_forked_children_do_not_block_each_other(site: Path) -> None:
    code = """
import os, threading, rocm_sdk
from rocm_sdk import _libraries
threads = [threading.Thread(target=rocm_sdk.preload_libraries, args=("amdhip64",)) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
held = threading.Event(); done = threading.Event()
def hold():
    with _libraries._lock:
        held.set(); done.wait(20)
holder = threading.Thread(target=hold); holder.start(); held.wait()
pid = os.fork()
if pid == 0:
    import signal; signal.alarm(10)
    rocm_sdk.preload_libraries("amd_comgr"); os._exit(0)
status = os.waitpid(pid, 0)[1]; done.set(); holder.join(); print(status)
"""
    done = fake.python(site, code, ROCM_SDK_VERBOSE="1", PYTHONWARNINGS="ignore::DeprecationWarning")
    assert done.stdout == "0\n"
    assert preloaded(done) == ["amdhip64", "amd_comgr"]


@pytest.mark.parametrize(
    ("pattern", "version", "matches"),
    [
        ("5.2.3", "5.2.3", True),
        ("5.2.3", "5.2.30", False),
        ("5.2.3", "15.2.3", False),
        ("5.2.*", "5.2.3", True),
        ("5.2*", "5.20.1", True),
        ("5.2.*", "5.20.1", False),
        ("*", "7.10.0a20251124", True),
        ("7.10.*", "7.10.0.dev0+abc", True),
        ("7.10.0.dev0+a?c", "7.10.0.dev0+abc", False),
        ("5.2.[0-9]", "5.2.3", False),
        ("5x2x3", "5.2.3", False),
        ("5.2.3", "5.2.3\n", False),
        ("5.2.*", "5.2.3\n", False),
    ],
)
def test_version_patterns(in_process, pattern: str, version: str, matches: bool) -> None:
    from rocm_sdk import _libraries

    assert _libraries.version_matches(pattern, version) is matches


def test_mismatch_warns_at_the_caller_or_raises(in_process) -> None:
    import rocm_sdk

    rocm_sdk.initialize_process(check_version="5.2.*")
    wanted = (
        r"The program was compiled against a ROCm version matching 5\.3\.0, but ROCm 5\.2\.3 is installed"
    )
    with pytest.warns(UserWarning, match=wanted) as seen:
        rocm_sdk.initialize_process(check_version="5.3.0")
    assert seen[0].filename == __file__
    assert 'pip install "rocm[libraries]==5.3.0"' in str(seen[0].message)
    with pytest.raises(RuntimeError, match=r"a ROCm version matching 5\.3\*"):
        rocm_sdk.initialize_process(check_version="5.3*", fail_on_version_mismatch=True)
    rocm_sdk.initialize_process(check_version=re.compile(r"5\.2"), fail_on_version_mismatch=True)
    with pytest.raises(RuntimeError, match=r"matching 5\\.3, but ROCm 5\.2\.3 is \D+$"):
        rocm_sdk.initialize_process(check_version=re.compile(r"5\.3"), fail_on_version_mismatch=True)


def test_what_was_loaded_is_known_by_its_short_name_again_after_it_was_forgotten(in_process) -> None:
    import rocm_sdk

    rocm_sdk.preload_libraries("amdhip64")
    assert rocm_sdk._ALL_CDLLS["amdhip64"].hip_answer() == 42
    rocm_sdk._ALL_CDLLS.clear()
    rocm_sdk.initialize_process(preload_shortnames=["amdhip64", "amd_comgr"])
    assert list(rocm_sdk._ALL_CDLLS) == ["amdhip64", "amd_comgr"]


def test_pure_packages_know_their_version(site: Path) -> None:
    code = "import rocm_sdk_core, rocm_sdk_devel, rocm_sdk_libraries_gfx90x_dcgpu as l; "
    code += "print(rocm_sdk_core.__version__, rocm_sdk_devel.__version__, l.__version__)"
    assert fake.python(site, code).stdout == "5.2.3 5.2.3 5.2.3\n"


def test_gpu_of_another_family_says_how_to_mend_the_cached_choice(site: Path) -> None:
    fake.with_gpus(site, "gfx90a")
    code = "import rocm_sdk; rocm_sdk.initialize_process()"
    assert fake.python(site, code).stderr == ""
    fake.with_gpus(site, "gfx90a", "gfx1031")
    message = fake.python(site, code).stderr.splitlines()[0].partition("RuntimeWarning: ")[2]
    assert message == (
        "the installed ROCm libraries have no device code for GPU 1 (gfx1031). Install it with: "
        "pip cache remove rocm; ROCM_SDK_TARGET_FAMILY=gfx103X-dgpu "
        'pip install --force-reinstall --no-cache-dir "rocm[libraries]==5.2.3" '
        "(ROCM_SDK_NO_GPU_CHECK=1 switches this check off)"
    )


def test_the_gpu_warning_names_the_callers_line(in_process, site: Path) -> None:
    fake.with_gpus(site, "gfx1201")
    import rocm_sdk

    with pytest.warns(RuntimeWarning, match="no device code for GPU 0") as seen:
        rocm_sdk.initialize_process()
    assert seen[0].filename == __file__


def test_windows_skips_what_rocm_has_for_linux_only(in_process, monkeypatch: pytest.MonkeyPatch) -> None:
    from rocm_sdk import _dist, find_libraries

    monkeypatch.setattr(_dist, "WINDOWS", True)
    (only,) = find_libraries("rccl", "amdhip64")
    assert only.endswith("libamdhip64.so.5")
    with pytest.raises(ModuleNotFoundError, match="unknown ROCm library 'rcl'"):
        find_libraries("rcl")
