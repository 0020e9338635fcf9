"""What runtime packages ship: SONAMEs, launchers that are really run, copies, RPATHs read by readelf."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sdk_trees as trees

from rocwright.errors import InvalidInput, InvalidPrefix
from rocwright.sdk.intake.forms import read_prefix
from rocwright.sdk.plan.compiled import launcher
from rocwright.sdk.plan.runtime import RuntimePlan, Shipped, plan_runtime
from rocwright.sdk.table import package_table
from trees import link, script, write

MODULES = {
    "core": "_rocm_sdk_core",
    "libraries": "_rocm_sdk_libraries_gfx110x",
    "devel": "_rocm_sdk_devel",
}


def plan(root: Path) -> RuntimePlan:
    return plan_runtime(read_prefix(root, version="6.4.1"), package_table(), MODULES)


def by_path(runtime: RuntimePlan, package: str = "core") -> dict[str, Shipped]:
    return {file.path: file for file in runtime.of(package)}


def install(runtime: RuntimePlan, site: Path) -> Path:
    """Write the trees as an installer does."""
    for file in runtime.shipped:
        path = site / MODULES[file.package] / file.path
        write(path, file.source.read_at(0, file.source.size))
        path.chmod(0o755 if file.executable else 0o644)
    return site


@pytest.fixture(scope="module")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trees.small_rocm(tmp_path_factory.mktemp("plan") / "rocm")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    root = tmp_path / "rocm"
    write(root / "lib/libamdhip64.so.6", b"\x7fELF")
    return root


def test_what_is_shipped_and_where(rocm: Path) -> None:
    runtime = plan(rocm)
    assert {(file.path, file.executable, file.origin) for file in runtime.of("core")} == {
        (".info/version", False, ".info/version"),
        ("bin/.hipVersion", False, "share/hip/version"),
        ("bin/amdclang++", True, None),
        ("bin/hipcc", True, "bin/hipcc"),
        ("bin/rocminfo", True, "bin/rocminfo"),
        ("include/hip/hip_version.h", False, "include/hip/hip_version.h"),
        ("lib/libamdhip64.so.6", True, "lib/libamdhip64.so.6.4.43484"),
        ("lib/llvm/bin/clang", True, None),
        ("lib/llvm/bin/clang++", True, None),
        ("lib/llvm/bin/clang-19", True, "lib/llvm/bin/clang-19"),
        ("share/hip/version", False, "share/hip/version"),
    }
    assert {(file.path, file.origin) for file in runtime.of("libraries")} == {
        ("lib/librocblas.so.4", "lib/librocblas.so.4.4"),
        ("lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat",) * 2,
    }
    assert runtime.of("devel") == ()
    # The link that is called like the SONAME is the library now.
    assert dict(runtime.dropped) == {
        "lib/libamdhip64.so": "alias of a library that is shipped under its SONAME",
        "lib/librocblas.so": "alias of a library that is shipped under its SONAME",
        "llvm": "directory link",
    }
    assert runtime.home["lib/librocblas.so.4.4"].path == "lib/librocblas.so.4"


# As Debian's hiprtc does; the last argument is what AMD's opens.
HIPRTC = """
#include <dlfcn.h>
int answer(void) {{
    void *hip = dlopen("{opened}", RTLD_NOW);
    int (*found)(void) = hip ? (int (*)(void))dlsym(hip, "libamdhip64") : 0;
    return found ? found() : -1;
}}
"""
ASK = """
import ctypes, sys
lib = sys.argv[1]
ctypes.CDLL(f"{lib}/libamdhip64.so.6", ctypes.RTLD_GLOBAL)
print(ctypes.CDLL(f"{lib}/libhiprtc.so.6").answer())
maps = [line.split() for line in open("/proc/self/maps") if "libamdhip64.so.6" in line]
print(len({line[4] for line in maps}))
"""


@pytest.mark.parametrize("opened", ["libamdhip64.so", "libamdhip64.so.6"])
def test_what_another_opens_without_a_version_is_there_and_in_a_process_once(
    rocm: Path, tmp_path: Path, opened: str
) -> None:
    root = shutil.copytree(rocm, tmp_path / "rocm", symlinks=True)
    (tmp_path / "hiprtc.c").write_text(HIPRTC.format(opened=opened))
    target = root / "lib/libhiprtc.so.6"
    options = ["-shared", "-fPIC", "-Wl,-soname,libhiprtc.so.6", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(["cc", *options, "-o", target, tmp_path / "hiprtc.c"], check=True)
    runtime = plan(root)
    core = by_path(runtime)
    assert ("lib/libamdhip64.so" in core) is (opened == "libamdhip64.so")
    lib = install(runtime, tmp_path / "site") / MODULES["core"] / "lib"
    said = subprocess.check_output([sys.executable, "-c", ASK, lib], text=True)
    assert said.split() == ["42", "1"]
    if opened == "libamdhip64.so":
        again = by_path(plan(root))["lib/libamdhip64.so"]
        assert again.source == core["lib/libamdhip64.so"].source
        dynamic = subprocess.check_output(["readelf", "-d", lib / "libamdhip64.so"], text=True)
        told = [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "[" in line]
        assert told == ["libamdhip64.so.6", "libamdhip64.so", "$ORIGIN"]


@pytest.mark.parametrize(("link", "meant"), [(None, "10"), ("libamdhip64.so.6", "6")])
def test_of_several_the_one_is_opened_that_the_rocm_means(
    rocm: Path, tmp_path: Path, link: str | None, meant: str
) -> None:
    root = shutil.copytree(rocm, tmp_path / "rocm", symlinks=True)
    trees.library(root / "lib/libamdhip64.so.10", soname="libamdhip64.so.10")
    short = root / "lib/libamdhip64.so"
    short.unlink(missing_ok=True)
    if link:
        short.symlink_to(link)
    (tmp_path / "hiprtc.c").write_text(HIPRTC.format(opened="libamdhip64.so"))
    options = ["-shared", "-fPIC", "-Wl,-soname,libhiprtc.so.6"]
    subprocess.run(["cc", *options, "-o", root / "lib/libhiprtc.so.6", tmp_path / "hiprtc.c"], check=True)
    made = by_path(plan(root))["lib/libamdhip64.so"].source
    assert f"libamdhip64.so.{meant}\0".encode() in made.read_at(0, made.size)


def test_the_plan_does_not_depend_on_the_order_of_the_directory(rocm: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(rocm, tmp_path / "copy", symlinks=True)
    one, other = plan(rocm), plan(copy)
    assert [(f.package, f.path, f.executable) for f in one.shipped] == [
        (f.package, f.path, f.executable) for f in other.shipped
    ]


def test_two_files_with_one_soname_are_an_error(bare: Path) -> None:
    trees.library(bare / "lib/liba.so.1.0", soname="liba.so.1")
    trees.library(bare / "lib/liba.so.1.1", soname="liba.so.1")
    with pytest.raises(InvalidPrefix, match=r"lib/liba\.so\.1\.1 and lib/liba\.so\.1\.0") as caught:
        plan(bare)
    assert "SONAME" in (caught.value.next_step or "")


def test_a_file_in_the_way_of_a_soname_is_an_error(bare: Path) -> None:
    trees.library(bare / "lib/liba.so.1.0", soname="liba.so.1")
    write(bare / "lib/liba.so.1", "INPUT(liba.so.1.0)")
    with pytest.raises(InvalidPrefix, match=r"lib/liba\.so\.1"):
        plan(bare)


def test_one_soname_in_two_directories_is_none(bare: Path) -> None:
    trees.library(bare / "lib/liba.so.1.0", soname="liba.so.1")
    trees.library(bare / "lib/llvm/lib/liba.so.1.1", soname="liba.so.1")
    assert {"lib/liba.so.1", "lib/llvm/lib/liba.so.1"} <= set(by_path(plan(bare)))


def test_a_soname_that_is_a_path_is_refused(bare: Path) -> None:
    trees.library(bare / "lib/liba.so", soname="../liba.so.1")
    with pytest.raises(InvalidInput, match=r"SONAME of lib/liba\.so is a path"):
        plan(bare)


def test_a_library_without_a_soname_keeps_its_name(bare: Path) -> None:
    trees.library(bare / "lib/llvm/lib/plugin.so", flags=("-Wl,--hash-style=gnu",))
    assert by_path(plan(bare))["lib/llvm/lib/plugin.so"].origin == "lib/llvm/lib/plugin.so"


def test_a_link_to_a_library_without_a_soname_is_a_library(bare: Path) -> None:
    trees.library(bare / "lib/llvm/lib/plugin.so.19", mode=0o755)
    link(bare / "lib/llvm/lib/plugin.so", "plugin.so.19")
    file = by_path(plan(bare))["lib/llvm/lib/plugin.so"]
    assert file.source.read_at(0, 1 << 20) == (bare / "lib/llvm/lib/plugin.so.19").read_bytes()


def test_a_link_to_data_that_is_marked_executable_is_a_copy(bare: Path) -> None:
    script(bare / "share/hip/version", "HIP_VERSION_MAJOR=6\n")
    link(bare / "bin/.hipVersion", "../share/hip/version")
    assert by_path(plan(bare))["bin/.hipVersion"].source.read_at(0, 99) == b"HIP_VERSION_MAJOR=6\n"


def test_a_link_across_packages_or_into_devel_ships_nothing(bare: Path) -> None:
    write(bare / "include/rocblas/rocblas.h", "x")
    link(bare / "share/hip/header", "../../include/rocblas/rocblas.h")
    script(bare / "lib/rocblas/tool", "#!/bin/sh\n")
    link(bare / "bin/tool", "../lib/rocblas/tool")
    link(bare / "share/hip/gone", "nowhere")
    runtime = plan(bare)
    assert not {"share/hip/header", "bin/tool", "share/hip/gone"} & set(by_path(runtime))
    assert dict(runtime.dropped)["bin/tool"] == "link into package libraries"
    assert dict(runtime.dropped)["share/hip/gone"] == "dangling link"


def test_a_link_into_devel_is_reported(bare: Path) -> None:
    write(bare / "include/rocblas/rocblas.h", "x")
    link(bare / "share/hip/header", "../../include/rocblas/rocblas.h")
    assert "share/hip/header" in dict(plan(bare).dropped)


# Launchers


def run(*words: str | Path, cwd: Path | None = None, argv0: str | None = None, **environment: str):
    return subprocess.run(
        [argv0 or str(words[0]), *map(str, words[1:])],
        executable=words[0],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(rocm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed, then moved: nothing may remember a place."""
    first = install(plan(rocm), tmp_path_factory.mktemp("first") / "site")
    return first.rename(tmp_path_factory.mktemp("sécond place") / "site packages")


def test_a_launcher_passes_everything_on(site: Path) -> None:
    clang = site / "_rocm_sdk_core/lib/llvm/bin/clang++"
    done = run(
        clang, "-x", "a b", "", "é", "--", "-last", argv0="my clang++", GREETING="hello there", CODE="37"
    )
    # The name it was called by stays: clang decides by it what it is.
    assert done.stdout.splitlines() == [
        "<my clang++>", "<-x>", "<a b>", "<>", "<é>", "<-->", "<-last>", "GREETING=hello there",
    ]  # fmt: skip
    assert done.returncode == 37
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["bin/amdclang++", "lib/llvm/bin/clang"])
def test_a_launcher_runs_from_any_directory_and_through_links(site: Path, tmp_path: Path, name: str) -> None:
    program = site / "_rocm_sdk_core" / name
    assert run(Path(os.path.relpath(program, tmp_path)), cwd=tmp_path).returncode == 0
    other = link(tmp_path / "bin/other-name", str(program))
    assert run(other).stdout.splitlines()[0] == f"<{other}>"
    found = subprocess.run(
        ["other-name"], env={"PATH": str(tmp_path / "bin")}, capture_output=True, text=True
    )
    assert found.stdout.splitlines()[0] == "<other-name>"


def test_a_launcher_to_a_script_keeps_what_lies_beside_it(bare: Path, tmp_path: Path) -> None:
    write(bare / "libexec/rocm_smi/rsmi_bind.txt", "beside me\n")
    text = '#!/bin/sh\ncat "$(dirname "$0")/rsmi_bind.txt"\necho "$1|$2"\nexit 5\n'
    script(bare / "libexec/rocm_smi/rocm_smi.sh", text)
    link(bare / "bin/rocm-smi", "../libexec/rocm_smi/rocm_smi.sh")
    installed = install(plan(bare), tmp_path / "site")
    done = run(installed / "_rocm_sdk_core/bin/rocm-smi", "a b", "c")
    assert (done.stdout, done.returncode) == ("beside me\na b|c\n", 5)


def test_a_program_whose_name_looks_like_a_library_is_a_program(bare: Path, tmp_path: Path) -> None:
    trees.program(bare / "libexec/tool.so.1")
    link(bare / "bin/tool", "../libexec/tool.so.1")
    installed = install(plan(bare), tmp_path / "site")
    (installed / "_rocm_sdk_core/libexec/tool.so.1").rename(tmp_path / "gone")
    # Nothing but a launcher fails without the program.
    assert run(installed / "_rocm_sdk_core/bin/tool").returncode == 127


def test_a_launcher_whose_program_is_gone_says_which(site: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "tool", launcher("../lib/gone"))
    path.chmod(0o755)
    done = run(path)
    assert done.returncode == 127
    assert done.stderr == f"launcher: cannot run {tmp_path}/../lib/gone\n"


def test_a_launcher_is_small_static_and_the_same_every_time() -> None:
    first = launcher("../lib/llvm/bin/clang")
    assert len(first) < 16384
    assert first == launcher("../lib/llvm/bin/clang")
    assert len(launcher("x")) == len(first)


def test_a_launcher_needs_no_library_and_no_executable_stack(tmp_path: Path) -> None:
    path = write(tmp_path / "launcher", launcher("x"))
    headers = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in headers
    assert "DYNAMIC" not in headers
    assert "GNU_STACK" in headers
    assert not [line for line in headers.splitlines() if "GNU_STACK" in line and "RWE" in line]


@pytest.mark.parametrize("length", [511, 512])
def test_a_launcher_holds_511_bytes(length: int) -> None:
    target = "é" * (length // 2) + "x" * (length % 2)
    if length == 511:
        assert target.encode() + b"\0" in launcher(target)
    else:
        with pytest.raises(InvalidInput, match="512 bytes"):
            launcher(target)


# RPATHs


def rpath(site: Path, name: str) -> list[str]:
    found = trees.dynamic(site / name)
    assert "RUNPATH" not in found
    return found["RPATH"][0].split(":") if "RPATH" in found else []


def test_a_library_finds_itself_and_core(site: Path) -> None:
    module = "_rocm_sdk_libraries_gfx110x"
    assert rpath(site, "_rocm_sdk_core/lib/libamdhip64.so.6") == ["$ORIGIN"]
    # The absolute entry and the one back to its own directory are gone.
    assert rpath(site, f"{module}/lib/librocblas.so.4") == ["$ORIGIN", "$ORIGIN/../../_rocm_sdk_core/lib"]
    loaded = subprocess.run(
        [sys.executable, "-c", "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).librocblas())"]
        + [str(site / module / "lib/librocblas.so.4")],
        capture_output=True,
        text=True,
    )
    assert loaded.stdout == "42\n", loaded.stderr


def test_core_finds_what_it_needs_in_llvm_and_sysdeps_and_nothing_more(bare: Path, tmp_path: Path) -> None:
    llvm = trees.library(bare / "lib/llvm/lib/libLLVM.so.19", soname="libLLVM.so.19")
    elf = trees.library(
        bare / "lib/rocm_sysdeps/lib/librocm_sysdeps_elf.so.1", soname="librocm_sysdeps_elf.so.1"
    )
    trees.library(bare / "lib/libamd_comgr.so.3", soname="libamd_comgr.so.3", needs=(llvm, elf))
    trees.library(bare / "lib/libroctx64.so.4", soname="libroctx64.so.4")
    trees.program(bare / "bin/tool", flags=("-Wl,--no-as-needed", elf))
    runtime = plan(bare)
    installed = install(runtime, tmp_path / "site") / "_rocm_sdk_core"
    assert rpath(installed, "lib/libamd_comgr.so.3") == [
        "$ORIGIN", "$ORIGIN/llvm/lib", "$ORIGIN/rocm_sysdeps/lib",
    ]  # fmt: skip
    assert rpath(installed, "lib/libroctx64.so.4") == ["$ORIGIN"]
    assert rpath(installed, "bin/tool") == ["$ORIGIN/../lib/rocm_sysdeps/lib"]
    assert run(installed / "bin/tool", "works").stdout.splitlines()[1] == "<works>"


def test_a_math_library_may_open_any_library_of_core(bare: Path, tmp_path: Path) -> None:
    trees.library(bare / "lib/libamdhip64.so.7", soname="libamdhip64.so.7")
    trees.library(bare / "lib/librocrand.so.1", soname="librocrand.so.1")  # opens HIP by name, needs nothing
    installed = install(plan(bare), tmp_path / "site")
    name = "_rocm_sdk_libraries_gfx110x/lib/librocrand.so.1"
    assert rpath(installed, name) == ["$ORIGIN", "$ORIGIN/../../_rocm_sdk_core/lib"]


def test_a_program_that_needs_nothing_of_rocm_loses_its_absolute_entries(bare: Path, tmp_path: Path) -> None:
    trees.program(bare / "bin/new", flags=("-Wl,--enable-new-dtags,-rpath,/opt/rocm/lib",))
    trees.program(bare / "bin/old", flags=("-Wl,--disable-new-dtags,-rpath,/opt/rocm/lib",))
    runtime = plan(bare)
    installed = install(runtime, tmp_path / "site")
    for name in ("new", "old"):
        assert rpath(installed, f"_rocm_sdk_core/bin/{name}") == []
        assert run(installed / "_rocm_sdk_core/bin" / name).returncode == 0
    assert runtime.rpath_edits == 2


def test_a_file_that_is_right_already_is_shipped_byte_for_byte(bare: Path) -> None:
    right = trees.library(
        bare / "lib/liba.so.1", soname="liba.so.1", flags=("-Wl,--disable-new-dtags,-rpath,$ORIGIN",)
    )
    alone = trees.program(bare / "bin/alone")
    runtime = plan(bare)
    assert runtime.rpath_edits == 0
    for path, file in (("lib/liba.so.1", right), ("bin/alone", alone)):
        shipped = by_path(runtime)[path].source
        assert shipped.read_at(0, shipped.size) == file.read_bytes()


def test_a_static_program_is_shipped_as_it_is(bare: Path) -> None:
    source = write(bare.parent / "s.c", "void _start(void) { for (;;) {} }\n")
    (bare / "bin").mkdir()
    trees.gcc("-static", "-nostdlib", "-o", bare / "bin/static", source)
    runtime = plan(bare)
    assert runtime.rpath_edits == 0
    assert by_path(runtime)["bin/static"].source.read_at(0, 1 << 20) == (bare / "bin/static").read_bytes()


def test_the_prefix_is_only_read(rocm: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(f): (f.lstat().st_mtime_ns, f.lstat().st_size) for f in rocm.rglob("*")}

    before = state()
    assert plan(rocm).rpath_edits == 2
    assert state() == before


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("_rocm_sdk_core/bin/roctool", "$ORIGIN/../lib"),
        ("_rocm_sdk_libraries_gfx110x/lib/hipdnn_plugins/engines/libmiopen_plugin.so", "$ORIGIN/../.."),
    ],
)
def test_a_file_also_finds_what_it_needs_from_the_devel_tree(
    bare: Path, tmp_path: Path, name: str, entry: str
) -> None:
    hip = trees.library(bare / "lib/libamdhip64.so.7", soname="libamdhip64.so.7")
    blas = trees.library(bare / "lib/librocblas.so.4", soname="librocblas.so.4")
    trees.program(bare / "bin/roctool", flags=("-Wl,--no-as-needed", blas))
    trees.library(
        bare / "lib/hipdnn_plugins/engines/libmiopen_plugin.so", soname="libmiopen_plugin.so", needs=(hip,)
    )
    assert entry in rpath(install(plan(bare), tmp_path / "site"), name)


def test_a_library_that_shrinks_while_it_is_packaged_is_an_error(tmp_path: Path) -> None:
    root = tmp_path / "rocm"
    hip = trees.library(root / "lib/libamdhip64.so.6", soname="libamdhip64.so.6")
    trees.library(root / "lib/llvm/lib/libLLVM.so.1", soname="libLLVM.so.1", needs=(hip,))
    (library,) = (file for file in plan(root).of("core") if file.path.endswith("libLLVM.so.1"))
    size = library.source.size
    os.truncate(root / "lib/llvm/lib/libLLVM.so.1", 5000)
    with pytest.raises(InvalidInput, match=r"libLLVM\.so\.1 became shorter while it was packaged"):
        library.source.read_at(0, size)
