"""Bad input of the package builder: a named error for each, nothing written, earlier packages kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import artifact_trees as artifacts
import pytest

from rocwright import cli
from rocwright.errors import (
    InvalidArchive,
    InvalidData,
    InvalidElf,
    InvalidInput,
    InvalidPrefix,
    RocwrightError,
)
from rocwright.model.gpu import InvalidTarget
from rocwright.sdk.build import BuiltPackages, build_packages
from rocwright.sdk.intake.artifacts import read_artifacts
from rocwright.sdk.intake.forms import read_prefix
from rocwright.sdk.plan.release import Packaging
from rocwright.sdk.table import package_table
from trees import link, script, write

# Many processes, or many megabytes: `make slow` and CI run them.
pytestmark = pytest.mark.slow

CLR, BLAS = "core/clr/stage", "math-libs/BLAS/rocBLAS/stage"
HIP = f"core-hip_lib_generic/{CLR}"


@pytest.fixture
def fat(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    return artifacts.copy(artifacts.artifacts(tmp_path_factory, split=False), tmp_path / "artifacts")


@pytest.fixture
def split(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    return artifacts.copy(artifacts.artifacts(tmp_path_factory, split=True), tmp_path / "artifacts")


def add(root: Path, artifact: str, path: str, data: bytes, *, stage: str = BLAS) -> Path:
    """Add a file; the artifact's manifest lists its stage afterwards."""
    place = write(root / artifact / stage / path, data)
    listed = root / artifact / "artifact_manifest.txt"
    lines = listed.read_text().splitlines() if listed.exists() else []
    listed.write_text("".join(f"{line}\n" for line in dict.fromkeys([*lines, stage])))
    return place


def build(root: Path, packaging: Packaging | None = None) -> BuiltPackages:
    return build_packages(artifacts.read(root), root.parent / "dist", packaging)


def refused(root: Path, error: type[RocwrightError], match: str, *, exit_code: int = 3) -> RocwrightError:
    """Packaging must fail so, leaving an earlier run's packages and nothing else."""
    dist = root.parent / "dist"
    before = {"rocm_sdk_core-1.0-py3-none-linux_x86_64.whl", "rocm-1.0.tar.gz"}
    for name in before:
        write(dist / name, "an earlier run's")
    with pytest.raises(error, match=match) as caught:
        build(root)
    assert caught.value.exit_code == exit_code
    assert {path.name for path in dist.iterdir()} == before
    return caught.value


# Manifests


@pytest.mark.parametrize(
    "text",
    [
        "",
        "core/clr/sta",
        "core/clr/stage-2\n",
        "compiler/amd-llvm/stage\n",
        "\n\n",
        "\x00\x01\x02\n",
        "core/clr/stage/lib/libamdhip64.so.7.1.1\n",
    ],
    ids=["empty", "cut", "other", "of-another", "blank", "binary", "a-file"],
)
def test_a_manifest_that_does_not_list_what_is_there(fat: Path, text: str) -> None:
    (fat / "core-hip_lib_generic/artifact_manifest.txt").write_text(text)
    error = refused(fat, InvalidInput, "artifact_manifest")
    assert "core-hip_lib_generic" in f"{error.what} {error.where}"


@pytest.mark.parametrize("text", ["core/clr", "core", "core/"])
def test_a_manifest_that_is_cut_between_directories(fat: Path, text: str) -> None:
    """Its files would be packaged below stage/. A whole manifest ends in a line break."""
    (fat / "core-hip_lib_generic/artifact_manifest.txt").write_text(text)
    refused(fat, InvalidInput, "artifact_manifest")


def test_a_manifest_that_lacks_its_last_line(fat: Path) -> None:
    manifest = fat / "blas_lib_gfx94X-dcgpu/artifact_manifest.txt"
    first, _, rest = manifest.read_text().partition("\n")
    assert rest
    manifest.write_text(first + "\n")
    refused(fat, InvalidInput, "hipBLAS/stage/lib/libhipblas")


@pytest.mark.parametrize("line", ["/etc", "../core-ocl_dev_generic", "core/../../x", "core//clr/stage", "."])
def test_a_manifest_that_leads_elsewhere(fat: Path, line: str) -> None:
    with (fat / "core-hip_lib_generic/artifact_manifest.txt").open("a") as stream:
        stream.write(line + "\n")
    refused(fat, InvalidInput, "not a plain relative directory")


def test_a_manifest_may_list_directories_that_hold_nothing(fat: Path) -> None:
    with (fat / "core-hip_lib_generic/artifact_manifest.txt").open("a") as stream:
        stream.write("core/nothing/stage\n")
    assert build(fat).version == "7.11.0"


def test_an_artifact_without_a_manifest_is_reported(fat: Path) -> None:
    (fat / "prim_dev_generic/artifact_manifest.txt").unlink()
    done = build(fat)
    assert [note for note in done.notes if note.startswith("prim_dev_generic: ")]
    assert "include/rocprim/rocprim.hpp" not in artifacts.devel_entries(done)


def test_a_name_that_is_no_artifacts(fat: Path) -> None:
    write(fat / "blas/artifact_manifest.txt", ".")
    refused(fat, InvalidInput, "blas is not an artifact name")


def test_a_directory_without_artifacts(tmp_path: Path) -> None:
    write(tmp_path / "artifacts/lib/libamdhip64.so.7", b"\x7fELF")
    refused(tmp_path / "artifacts", InvalidPrefix, "holds no artifacts")
    refused(tmp_path / "none", InvalidPrefix, "not a directory")


# Targets


@pytest.mark.parametrize("word", ["gfx110X-all", "gfx90a:fast+", "everything", "gfx90A"])
def test_a_split_artifact_for_no_target(split: Path, word: str) -> None:
    add(split, f"blas_lib_{word}", "lib/rocblas/library/x.dat", b"x")
    refused(split, InvalidTarget, word.replace("+", r"\+"))


def test_a_split_artifact_for_an_unknown_target(split: Path) -> None:
    add(split, "blas_lib_gfx999", "lib/rocblas/library/x_gfx999.dat", b"x")
    refused(split, InvalidTarget, "gfx999")


def test_a_family_that_nobody_knows(fat: Path) -> None:
    add(fat, "blas_lib_gfx77X-all", "lib/rocblas/library/x.dat", b"x")
    error = refused(fat, InvalidTarget, "gfx77X-all")
    assert "gfx94X-dcgpu" in (error.next_step or "")


# Two files at one place


@pytest.mark.parametrize(
    "other",
    ["hipify_lib_generic", "prim_dev_generic", "blas_dev_gfx94X-dcgpu", "rocprofiler-compute_run_generic"],
)
def test_the_same_path_of_two_artifacts(fat: Path, other: str) -> None:
    path = "libexec/rocprofiler-compute/thing.txt"
    add(fat, "core-hip_lib_generic", path, b"one", stage=CLR)
    add(fat, other, path, b"two")
    error = refused(fat, InvalidPrefix, "libexec/rocprofiler-compute/thing.txt is there twice")
    assert other in error.what
    assert "core-hip_lib_generic" in error.what


@pytest.mark.parametrize(
    "other",
    ["core-hip_lib_generic", "blas_dev_generic"],
)
def test_the_same_path_in_the_libraries_of_a_family(fat: Path, other: str) -> None:
    add(fat, other, "lib/librocblas.so.5.1", b"two", stage=CLR)
    refused(fat, InvalidPrefix, r"lib/librocblas\.so\.5")


def test_a_link_where_another_artifact_has_a_file(fat: Path) -> None:
    add(fat, "core-hip_lib_generic", "share/thing", b"one", stage=CLR)
    link(add(fat, "hipify_lib_generic", "share/x", b"").parent / "thing", "x")
    refused(fat, InvalidPrefix, "share/thing is there twice")


def test_links_that_lead_to_different_places(fat: Path) -> None:
    link(fat / HIP / "share/thing", "x")
    link(add(fat, "hipify_lib_generic", "share/x", b"").parent / "thing", "y")
    refused(fat, InvalidPrefix, "share/thing is there twice")


@pytest.mark.parametrize(
    "other",
    [
        "hipify_lib_generic",
        "prim_dev_generic",
        "blas_lib_gfx94X-dcgpu",
    ],
)
def test_a_directory_where_another_artifact_has_a_file(fat: Path, other: str) -> None:
    add(fat, "core-hip_lib_generic", "share/thing", b"one", stage=CLR)
    add(fat, other, "share/thing/inside", b"two")
    refused(fat, InvalidInput, "share/thing")


def test_two_libraries_of_one_soname_in_a_family(fat: Path) -> None:
    source = fat / f"blas_lib_gfx94X-dcgpu/{BLAS}/lib/librocblas.so.5.1"
    add(fat, "blas_lib_gfx94X-dcgpu", "lib/librocblas.so.5.2", source.read_bytes() + b"\0")
    refused(fat, InvalidPrefix, r"lib/librocblas\.so\.5\.2 and lib/librocblas\.so\.5\.1")


# Libraries that are none

NO_LIBRARY = {
    "an-unpacked-link": b"librocfft.so.0.1",
    "empty": b"",
    "a-page-of-an-error": b"<html>404</html>",
    "zeros": bytes(4096),
}
PLACES = ["core-hip_lib_generic", "hipdnn_lib_generic", "fft_lib_gfx94X-dcgpu"]


@pytest.mark.parametrize("artifact", PLACES)
@pytest.mark.parametrize("data", NO_LIBRARY.values(), ids=NO_LIBRARY)
def test_a_library_that_is_none(
    fat: Path, artifact: str, data: bytes, request: pytest.FixtureRequest
) -> None:
    add(fat, artifact, "lib/librocfft.so.0", data)
    refused(fat, InvalidPrefix, r"lib/librocfft\.so\.0 is named like a shared library")


def test_a_library_of_a_target_that_is_none(split: Path) -> None:
    add(split, "fft_lib_gfx942", "lib/librocfft-device-gfx942.so", b"not even ELF")
    refused(split, InvalidPrefix, r"lib/librocfft-device-gfx942\.so is named like a shared library")


LINKER_SCRIPTS = [
    b"/* GNU ld script */\nGROUP ( libthing.so.1 )\n",
    b"INPUT(libthing.so.1)\n",
    b"OUTPUT_FORMAT(elf64-x86-64)\nGROUP ( libthing.so.1 )\n",
]


@pytest.mark.parametrize("artifact", PLACES)
@pytest.mark.parametrize("text", LINKER_SCRIPTS, ids=["comment", "input", "format"])
def test_a_linker_script_belongs_to_devel(
    fat: Path, artifact: str, text: bytes, request: pytest.FixtureRequest
) -> None:
    add(fat, artifact, "lib/libthing.so", text)
    done = build(fat)
    assert artifacts.devel_entries(done)["lib/libthing.so"][0] == "file"
    for name, package in artifacts.packages(done).items():
        assert "lib/libthing.so" not in package.tree, name


def without_sections(data: bytes) -> bytes:
    """A library whose section headers were cut off; a loader needs none."""
    start = int.from_bytes(data[40:48], "little")
    # e_shoff, e_shnum and e_shstrndx say that there are none.
    return data[:40] + bytes(8) + data[48:60] + bytes(4) + data[64:start]


def test_a_library_without_section_headers(fat: Path, tmp_path: Path) -> None:
    place = fat / HIP / "lib/libhiprtc.so.7.1.1"
    data = place.read_bytes()
    place.unlink()
    place.write_bytes(without_sections(data))
    done = build(fat)
    assert "lib/libhiprtc.so.7" in artifacts.packages(done)["rocm-sdk-core"].tree
    site = artifacts.install(done, tmp_path / "site")
    text = f"import ctypes; ctypes.CDLL({str(site / '_rocm_sdk_core/lib/libhiprtc.so.7')!r}, mode=2)"
    loaded = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env={})
    assert loaded.returncode == 0, loaded.stderr


@pytest.mark.parametrize("artifact", ["core-hip_lib_generic", "fft_lib_gfx94X-dcgpu"])
@pytest.mark.parametrize("size", [64, 600, 4000])
def test_a_library_that_is_cut_off(fat: Path, artifact: str, size: int) -> None:
    add(fat, artifact, "lib/libthing.so.1", artifacts.images()["hip"][:size])
    error = refused(fat, InvalidElf, ".")
    assert "libthing" in f"{error.what} {error.where}"


def test_an_archive_of_device_code_that_is_damaged(split: Path) -> None:
    (archive, *_) = sorted(split.glob("blas_lib_gfx942/*/*/*/*/.kpack/*.kpack"))
    data = archive.read_bytes()
    archive.unlink()
    archive.write_bytes(data[:100])
    error = refused(split, InvalidArchive, ".")
    assert archive.name in f"{error.what} {error.where}"


# Links


def test_links_in_a_circle_are_reported_and_in_no_package(fat: Path) -> None:
    for path, text in {
        "share/self": "self",
        "share/ping": "pong",
        "share/pong": "ping",
        "share/loop": ".",
        "share/up": "..",
        "share/deep/down": "../../share/deep/down/down",
    }.items():
        link(fat / HIP / path, text)
    done = build(fat)
    for path in ("share/self", "share/ping", "share/pong", "share/deep/down"):
        assert [note for note in done.notes if note.startswith(f"{path}: leads nowhere")], path
    for package in artifacts.packages(done).values():
        assert not [path for path in package.tree if path.startswith(("share/self", "share/p", "share/loop"))]
    entries = artifacts.devel_entries(done)
    assert "share/self" not in entries


@pytest.mark.parametrize("text", ["/etc/hostname", "../../../../../../../../etc/hostname", "../../../etc"])
def test_a_link_out_of_the_tree_takes_nothing_along(fat: Path, text: str) -> None:
    link(fat / HIP / "share/host", text)
    done = build(fat)
    assert [note for note in done.notes if note.startswith("share/host: leads nowhere")]
    for package in artifacts.packages(done).values():
        assert "share/host" not in package.tree


@pytest.mark.parametrize("artifact", ["blas_lib_gfx94X-dcgpu", "blas_lib_gfx90a-dcgpu"])
def test_a_link_from_a_family_into_what_all_share_is_there_or_reported(fat: Path, artifact: str) -> None:
    add(fat, "hipdnn_lib_generic", "share/hipdnn/data.txt", b"data", stage="ml-libs/hipDNN/stage")
    link(add(fat, artifact, "share/hipdnn/x", b"").parent / "alias.txt", "data.txt")
    done = build(fat)
    family = artifact.rpartition("_")[2].lower()
    shipped = "share/hipdnn/alias.txt" in artifacts.packages(done)[f"rocm-sdk-libraries-{family}"].tree
    assert shipped or [note for note in done.notes if "share/hipdnn/alias.txt" in note]


# Names


def test_spaces_and_letters_of_any_language(fat: Path, tmp_path: Path) -> None:
    root = fat.rename(tmp_path / "Lösung mit Leerzeichen 日本")
    names = [
        "share/with space/a  b.txt",
        "share/日本語/ファイル.txt",
        'share/it\'s "quoted" $HOME `x` %d;&.txt',
    ]
    for name in names:
        add(root, "core-hip_lib_generic", name, name.encode(), stage=CLR)
        add(root, "prim_dev_generic", "include/" + name, name.encode(), stage="math-libs/rocPRIM/stage")
    script(root / HIP / "libexec/über/tool mit ü", '#!/bin/sh\necho "$@"\n')
    link(root / HIP / "bin/tool ü", "../libexec/über/tool mit ü")
    done = build(root)
    core = artifacts.packages(done)["rocm-sdk-core"]
    for name in names:
        assert core.file(name) == name.encode()
    entries = artifacts.devel_entries(done)
    assert all(entries["include/" + name][0] == "file" for name in names)
    site = artifacts.install(done, tmp_path / "sité packages")
    said = subprocess.run([site / "_rocm_sdk_core/bin/tool ü", "ü ß"], capture_output=True, text=True, env={})
    assert said.stdout == "ü ß\n", said.stderr


@pytest.mark.parametrize("name", [b"share/latin-\xe9.txt", b"share/new\nline.txt", b"share/esc\x1b[31m.txt"])
def test_a_name_that_is_no_text(fat: Path, name: bytes) -> None:
    place = Path(os.fsdecode(os.fsencode(fat / HIP) + b"/" + name))
    write(place, "x")
    error = refused(fat, InvalidInput, ".")
    assert str(error.what).isprintable()
    assert str(error.where).isprintable()


def test_a_pipe(fat: Path) -> None:
    (fat / HIP / "share").mkdir(exist_ok=True)
    os.mkfifo(fat / HIP / "share/pipe")
    refused(fat, InvalidPrefix, "share/pipe is neither")


# Permissions


@contextmanager
def as_nobody(root: Path, *changes: Callable[[Path], object]) -> Iterator[Path]:
    """A copy of `root` that nobody may read, after some changes; nobody is who runs the rest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        copy = shutil.copytree(root, Path(name) / "artifacts", symlinks=True)
        for path in copy.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
            elif not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        for change in changes:
            change(copy)
        root_again = os.geteuid() == 0
        try:
            if root_again:
                os.setresuid(65534, 65534, 0)
            yield copy
        finally:
            if root_again:
                os.setresuid(0, 0, 0)
            copy.parent.chmod(0o777)
            for path in copy.rglob("*"):
                if path.is_dir() and not path.is_symlink():
                    path.chmod(0o755)


@pytest.mark.parametrize(
    "path",
    [
        f"{HIP}/lib/libamdhip64.so.7.1.1",
        f"blas_lib_gfx94X-dcgpu/{BLAS}/lib/librocblas.so.5.1",
        "prim_dev_generic/math-libs/rocPRIM/stage/include/rocprim/rocprim.hpp",
        "core-hip_lib_generic/artifact_manifest.txt",
        "base_lib_generic/base/aux-overlay/stage/share/therock/therock_manifest.json",
        "core-hip_lib_generic/core",
        "core-hip_lib_generic",
        ".",
    ],
)
def test_what_cannot_be_read_is_named(fat: Path, path: str) -> None:
    with as_nobody(fat, lambda copy: (copy / path).chmod(0)) as copy:
        with pytest.raises(InvalidInput) as caught:
            build_packages(artifacts.read(copy), copy.parent / "dist")
        said = f"{caught.value.what} {caught.value.where}"
        assert Path(path).name in said or path == "."
        assert not (copy.parent / "dist").exists()


def make_read_only(root: Path) -> None:
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o555)


def test_the_artifacts_may_be_read_only(fat: Path) -> None:
    def state(root: Path) -> dict[str, tuple[int, int, int]]:
        found = {path.relative_to(root).as_posix(): path.lstat() for path in root.rglob("*")}
        return {path: (facts.st_mode, facts.st_size, facts.st_mtime_ns) for path, facts in found.items()}

    with as_nobody(fat, make_read_only) as copy:
        before = state(copy)
        done = build_packages(artifacts.read(copy), copy.parent / "dist")
        assert state(copy) == before
        # Installed files can be written to again, or uninstalling would need more rights than installing.
        for package in artifacts.packages(done).values():
            if package.path.suffix == ".whl":
                assert {mode & 0o777 for mode in package.modes.values()} <= {0o644, 0o755}


def test_a_directory_that_cannot_be_written(fat: Path) -> None:
    with (
        as_nobody(fat, lambda copy: copy.parent.chmod(0o555)) as copy,
        pytest.raises(RocwrightError) as caught,
    ):
        build_packages(artifacts.read(copy), copy.parent / "dist")
    assert "dist" in f"{caught.value.what} {caught.value.where}"


# The mode


FLAGS = "base_lib_generic/base/aux-overlay/stage/share/therock/therock_manifest.json"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b'{"flags": {"KPACK_SPLIT_ARTIFACTS": tr',
        b"[]",
        b"null",
        b'{"flags": []}',
        b'{"flags": null}',
        b'{"flags": {"KPACK_SPLIT_ARTIFACTS": "ON"}}',
        b'{"flags": {"KPACK_SPLIT_ARTIFACTS": 1}}',
        b'{"flags": {"KPACK_SPLIT_ARTIFACTS": null}}',
        b'{"flags": {"\xff": true}}',
        b"\xff\xfe{}",
    ],
)
def test_a_manifest_of_rocm_that_is_malformed(fat: Path, text: bytes) -> None:
    (fat / FLAGS).write_bytes(text)
    error = refused(fat, InvalidData, ".")
    assert "therock_manifest.json" in f"{error.what} {error.where}"


@pytest.mark.parametrize(
    "text", [b"{}", b'{"flags": {}}', b'{"flags": {"KPACK_SPLIT_ARTIFACTS": false}}', None]
)
def test_without_the_flag_nothing_is_split(fat: Path, text: bytes | None) -> None:
    (fat / FLAGS).unlink()
    if text is not None:
        (fat / FLAGS).write_bytes(text)
    assert artifacts.read(fat).split is False


def set_flag(root: Path, value: bool) -> None:
    (root / FLAGS).write_text(json.dumps({"flags": {"KPACK_SPLIT_ARTIFACTS": value}}))


def test_families_though_the_flag_says_split(fat: Path) -> None:
    set_flag(fat, True)
    refused(fat, InvalidInput, "split")


def test_code_inside_though_the_flag_says_split(fat: Path) -> None:
    set_flag(fat, True)
    for family in ("gfx94X-dcgpu", "gfx110X-dgpu"):
        for path in fat.glob(f"*_{family}"):
            shutil.rmtree(path)
    for path in fat.glob("*_gfx90a-dcgpu"):
        path.rename(fat / path.name.replace("gfx90a-dcgpu", "generic"))
    error = refused(fat, InvalidPrefix, "split")
    assert "kpack split" in (error.next_step or "")


def test_no_target_though_the_flag_says_split(split: Path) -> None:
    for path in split.glob("*_gfx*"):
        shutil.rmtree(path)
    refused(split, InvalidPrefix, "no target has device files")


def test_archives_though_the_flag_says_whole(split: Path) -> None:
    set_flag(split, False)
    error = refused(split, InvalidPrefix, "split")
    assert "KPACK_SPLIT_ARTIFACTS" in (error.next_step or "")


def test_a_split_library_though_the_flag_says_whole(
    fat: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It would find its code on no machine."""
    source = artifacts.artifacts(tmp_path_factory, split=True)
    for path in fat.glob("rand_lib_*"):
        shutil.rmtree(path)
    shutil.copytree(source / "rand_lib_generic", fat / "rand_lib_generic", symlinks=True)
    refused(fat, InvalidPrefix, r"librocrand\.so\.1")


def test_archives_for_all_gpus_though_the_flag_says_whole(
    fat: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = artifacts.artifacts(tmp_path_factory, split=True)
    (archive, *_) = sorted(source.glob("rand_lib_gfx942/*/*/*/.kpack/*.kpack"))
    add(fat, "rccl_lib_generic", ".kpack/rand_lib_gfx942.kpack", archive.read_bytes())
    refused(fat, InvalidPrefix, "kpack")


# At the command line


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda root: shutil.rmtree(root / "base_lib_generic"), ["base (of core)"]),
        (lambda root: (root / FLAGS).write_text("{"), ["therock_manifest.json"]),
        (lambda root: add(root, "core-hip_lib_generic", "lib/libx.so", b"", stage=CLR), ["lib/libx.so"]),
    ],
    ids=["missing", "malformed", "no-library"],
)
def test_the_command_ends_with_3_and_says_what(
    fat: Path,
    change: Callable[[Path], object],
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change(fat)
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    dest = fat.parent / "dest"
    with pytest.raises(SystemExit) as ended:
        cli.main(["sdk", "build", "--artifact-dir", str(fat), "--dest-dir", str(dest)])
    assert ended.value.code == 3
    said = " ".join(capsys.readouterr().err.split())
    for word in words:
        assert word in said
    assert "Traceback" not in said
    assert not [path for path in dest.rglob("*") if path.is_file() and path.suffix in (".whl", ".gz")]


# A prefix


def test_a_prefix_is_refused_as_artifacts_are(tmp_path: Path) -> None:
    root = tmp_path / "rocm"
    write(root / ".info/version", "7.11.0")
    write(root / "lib/libamdhip64.so.7", artifacts.images()["hip"])
    write(root / "lib/librocblas.so.5", artifacts.fat("librocblas.so.5", ("hip",), ("gfx942",)))
    write(root / "lib/librocfft.so.0", "librocfft.so.0.1")
    with pytest.raises(InvalidPrefix, match=r"lib/librocfft\.so\.0 is named like a shared library"):
        build_packages(read_prefix(root), tmp_path / "dist", Packaging(family="x"))
    assert not (tmp_path / "dist").exists()


@pytest.mark.parametrize("suffix", ["-", "+a b", "/x", "..", "x1"])
def test_a_suffix_that_makes_no_version(fat: Path, suffix: str) -> None:
    with pytest.raises(RocwrightError):
        build(fat, Packaging(version_suffix=suffix))
    assert not (fat.parent / "dist").exists()


def test_a_file_that_is_gone_meanwhile_is_named(fat: Path) -> None:
    tree = read_artifacts(fat, package_table())
    (fat / HIP / "lib/libhiprtc.so.7.1.1").unlink()
    with pytest.raises(RocwrightError, match="libhiprtc"):
        build_packages(tree, fat.parent / "dist")
    assert not list((fat.parent / "dist").glob("*"))
