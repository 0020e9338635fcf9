"""The packages as written: names, bytes, commands, records, owners; zipfile, csv and tarfile judge."""

from __future__ import annotations

import base64
import configparser
import csv
import hashlib
import io
import json
import shutil
import tarfile
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
import sdk_trees as trees

from rocwright.errors import InvalidPrefix, RocwrightError, UsageError
from rocwright.sdk.build import BuiltPackages, build_packages
from rocwright.sdk.intake.forms import read_prefix
from rocwright.sdk.intake.tree import Layer, RocmTree
from rocwright.sdk.plan.release import Packaging, choose_family, plan_packages
from rocwright.sdk.plan.runtime import Shipped, programs_of
from rocwright.sdk.plan.wheels import console_commands
from rocwright.sdk.table import package_table
from rocwright.wheel.source import BytesSource
from trees import link, write


@pytest.fixture(scope="module")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trees.small_rocm(tmp_path_factory.mktemp("build") / "rocm")


@pytest.fixture(scope="module")
def built(rocm: Path, tmp_path_factory: pytest.TempPathFactory) -> BuiltPackages:
    return build_packages(read_prefix(rocm), tmp_path_factory.mktemp("dist"))


def wheels(built: BuiltPackages) -> dict[str, zipfile.ZipFile]:
    return {
        path.name.split("-")[0]: zipfile.ZipFile(path) for path in sorted(Path(built.directory).glob("*.whl"))
    }


def prefix_with(*targets: str) -> RocmTree:
    code = {"lib/liba.so": frozenset(targets)} if targets else {}
    return RocmTree(Path("/opt/rocm"), "6.4.1", Layer({}, {}, {}), {}, split=False, owners=None, code=code)


@pytest.mark.parametrize(
    ("targets", "family"),
    [
        (["gfx1100", "gfx1101", "gfx1102"], "gfx110X-dgpu"),
        (["gfx1100", "gfx1101", "gfx1102", "gfx1103"], "gfx110X-all"),
        (["gfx1103"], "gfx110X-igpu"),
        # Features belong to the code object, not to the family.
        (["gfx90a:xnack+", "gfx90a:xnack-"], "gfx90a-dcgpu"),
    ],
)
def test_a_known_family_has_exactly_the_targets(targets: list[str], family: str) -> None:
    assert choose_family(prefix_with(*targets), None) == family


@pytest.mark.parametrize("targets", [["gfx1100", "gfx1101"], ["gfx803", "gfx906", "gfx90a:xnack-"]])
def test_unknown_targets_ask_for_a_name(targets: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        choose_family(prefix_with(*targets), None)
    assert " ".join(target.partition(":")[0] for target in targets) in caught.value.what
    assert "--family" in (caught.value.next_step or "")
    assert choose_family(prefix_with(*targets), "debian12") == "debian12"


@pytest.mark.parametrize("family", ["", "-a", "a b", "a/b", "é", "a\n", "../a", "a;b", "_a", "a=b"])
def test_a_family_that_is_no_name_is_refused(family: str) -> None:
    with pytest.raises(UsageError, match="package name"):
        choose_family(prefix_with("gfx906"), family)


@pytest.mark.parametrize("family", ["a-", "a.", "a_"])
def test_a_family_that_ends_in_a_separator_is_refused(family: str) -> None:
    with pytest.raises(UsageError, match="package name"):
        choose_family(prefix_with("gfx906"), family)


def test_a_prefix_without_device_code_is_refused() -> None:
    with pytest.raises(InvalidPrefix, match="holds device code"):
        choose_family(prefix_with(), "x")


def test_files_versions_and_families(built: BuiltPackages) -> None:
    assert (built.version, built.family) == ("6.4.1", "gfx110X-dgpu")
    assert built.targets == ("gfx1100", "gfx1101", "gfx1102")
    tail = "6.4.1-py3-none-linux_x86_64.whl"
    assert [file.name for file in built.files] == [
        f"rocm_sdk_core-{tail}",
        f"rocm_sdk_libraries_gfx110x_dgpu-{tail}",
        f"rocm_sdk_devel-{tail}",
        "rocm-6.4.1.tar.gz",
    ]
    for file in built.files:
        data = (Path(built.directory) / file.name).read_bytes()
        assert (file.sha256, file.size) == (hashlib.sha256(data).hexdigest(), len(data))
    for file in built.files[:3]:
        with zipfile.ZipFile(Path(built.directory) / file.name) as archive:
            assert archive.testzip() is None
            assert file.installed == sum(member.file_size for member in archive.infolist())


def test_metadata_ties_the_packages_to_one_version(built: BuiltPackages) -> None:
    found = {}
    for name, archive in wheels(built).items():
        metadata = BytesParser().parsebytes(archive.read(f"{name}-6.4.1.dist-info/METADATA"))
        found[metadata["Name"]] = (metadata["Version"], metadata.get_all("Requires-Dist") or [])
    assert found == {
        "rocm-sdk-core": ("6.4.1", []),
        "rocm-sdk-libraries-gfx110x-dgpu": ("6.4.1", ["rocm-sdk-core==6.4.1"]),
        "rocm-sdk-devel": ("6.4.1", ["rocm-sdk-core==6.4.1"]),
    }


def test_members(built: BuiltPackages) -> None:
    archives = wheels(built)
    libraries = archives["rocm_sdk_libraries_gfx110x_dgpu"]
    assert [n for n in libraries.namelist() if ".dist-info/" not in n] == [
        "_rocm_sdk_libraries_gfx110x_dgpu/__init__.py",
        "_rocm_sdk_libraries_gfx110x_dgpu/lib/librocblas.so.4",
        "_rocm_sdk_libraries_gfx110x_dgpu/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat",
        "rocm_sdk_libraries_gfx110x_dgpu/__init__.py",
    ]
    facts: dict[str, object] = {}
    exec(libraries.read("_rocm_sdk_libraries_gfx110x_dgpu/__init__.py"), facts)
    assert facts["__version__"] == "6.4.1"
    assert facts["TARGETS"] == ("gfx1100", "gfx1101", "gfx1102")
    assert facts["LIBRARIES"] == {"rocblas": "lib/librocblas.so.4"}
    devel = archives["rocm_sdk_devel"]
    assert [n for n in devel.namelist() if "/_dev" in n or n.startswith("_")] == [
        "rocm_sdk_devel/_devel.json",
        "rocm_sdk_devel/_devel.tar",
    ]
    core = archives["rocm_sdk_core"]
    modes = {m.filename: m.external_attr >> 16 for m in core.infolist()}
    assert modes["_rocm_sdk_core/bin/rocminfo"] == modes["_rocm_sdk_core/bin/amdclang++"] == 0o100755
    assert modes["_rocm_sdk_core/share/hip/version"] == 0o100644
    facts = {}
    exec(core.read("_rocm_sdk_core/__init__.py"), facts)
    assert facts["LIBRARIES"] == {"amdhip64": "lib/libamdhip64.so.6"}
    # Nothing to say of these in core.
    assert not {"TARGETS", "NOT_LOADABLE"} & set(facts)
    for archive in archives.values():
        for member in archive.infolist():
            assert not member.flag_bits & 0x8, "uv refuses stored members with a data descriptor"
            assert (member.external_attr >> 28) == 0o10, f"{member.filename} is not a regular file"


def test_no_two_wheels_own_a_path(built: BuiltPackages) -> None:
    owners: dict[str, str] = {}
    for name, archive in wheels(built).items():
        for member in archive.namelist():
            assert member.casefold() not in owners, f"{name} and {owners[member.casefold()]} own {member}"
            owners[member.casefold()] = name
    assert len(owners) > 20


def test_records_are_right(built: BuiltPackages) -> None:
    for name, archive in wheels(built).items():
        record = f"{name}-6.4.1.dist-info/RECORD"
        rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
        assert sorted(row[0] for row in rows) == sorted(archive.namelist())
        assert len({row[0] for row in rows}) == len(rows)
        for path, digest, size in rows:
            if path == record:
                assert (digest, size) == ("", "")
                continue
            data = archive.read(path)
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            assert (digest, size) == (f"sha256={expected}", str(len(data))), path


def test_console_commands_only_where_the_program_is(built: BuiltPackages) -> None:
    core = wheels(built)["rocm_sdk_core"]
    points = configparser.RawConfigParser(delimiters=("=",))
    points.optionxform = str  # type: ignore[assignment, method-assign]
    points.read_string(core.read("rocm_sdk_core-6.4.1.dist-info/entry_points.txt").decode())
    assert {section: dict(points[section]) for section in points.sections()} == {
        "console_scripts": {
            "amdclang++": "rocm_sdk_core._cli:amdclangpp",
            "hipcc": "rocm_sdk_core._cli:hipcc",
            "rocminfo": "rocm_sdk_core._cli:rocminfo",
        }
    }


@pytest.mark.parametrize(
    ("path", "executable", "found"),
    [
        ("bin/rocm-smi", True, {"rocm-smi": "rocm_sdk_core._cli:rocm_smi"}),
        ("lib/llvm/bin/offload-arch", True, {"offload-arch": "rocm_sdk_core._cli:offload_arch"}),
        ("bin/hipify-clang", True, {"hipify-clang": "rocm_sdk_core._cli:hipify_clang"}),
        ("bin/roc-obj-ls", False, {}),
        ("libexec/rocm-smi", True, {}),
        ("bin/clang", True, {}),
    ],
)
def test_a_command_needs_an_executable_program(path: str, executable: bool, found: dict[str, str]) -> None:
    shipped = [Shipped("core", path, BytesSource(b""), executable, path)]
    assert console_commands(programs_of(shipped), package_table(), "rocm_sdk_core") == found


def test_the_selector_carries_the_facts(built: BuiltPackages) -> None:
    path = Path(built.directory) / "rocm-6.4.1.tar.gz"
    # A gzip header without the time of packing and without a file name (RFC 1952: flags, time).
    assert path.read_bytes()[3:8] == bytes(5)
    with tarfile.open(path) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
    assert {name.split("/")[0] for name in files} == {"rocm-6.4.1"}
    assert {
        "PKG-INFO",
        "pyproject.toml",
        "rocm_set.json",
        "rocm_build_backend.py",
        "src/rocm_sdk/_cli.py",
    } <= {name.removeprefix("rocm-6.4.1/") for name in files}
    facts = json.loads(files["rocm-6.4.1/rocm_set.json"])
    known = facts.pop("known_libraries")
    assert (known["rccl"], known["hiprtc"]) == ("libraries", "core")
    name = "rocm-sdk-libraries-gfx110x-dgpu"
    module = "_" + name.replace("-", "_")
    assert facts == {
        "version": "6.4.1",
        "mode": "legacy",
        "families": {"gfx110X-dgpu": ["gfx1100", "gfx1101", "gfx1102"]},
        "default_family": "gfx110X-dgpu",
        "packages": {
            "core": {"distribution": "rocm-sdk-core", "module": "_rocm_sdk_core"},
            "libraries": {"gfx110X-dgpu": {"distribution": name, "module": module, "platforms": ["linux"]}},
            "devel": {"distribution": "rocm-sdk-devel", "module": "_rocm_sdk_devel"},
        },
    }
    info = BytesParser().parsebytes(files["rocm-6.4.1/PKG-INFO"])
    assert (info["Metadata-Version"], info["Name"], info["Version"]) == ("2.2", "rocm", "6.4.1")
    # Without these two, uv installs nothing for an extra.
    assert set(info.get_all("Dynamic") or []) == {"Requires-Dist", "Provides-Extra"}


def test_the_selector_has_no_project_table(built: BuiltPackages) -> None:
    with tarfile.open(Path(built.directory) / "rocm-6.4.1.tar.gz") as tar:
        text = tar.extractfile("rocm-6.4.1/pyproject.toml").read().decode()
    assert "[project]" not in text


def test_another_place_time_and_thread_count_give_the_same_bytes(
    rocm: Path, built: BuiltPackages, tmp_path: Path
) -> None:
    copy = shutil.copytree(rocm, tmp_path / "elsewhere", symlinks=True, copy_function=shutil.copy)
    again = build_packages(read_prefix(copy), tmp_path / "dist", threads=1)
    assert [(file.name, file.sha256) for file in again.files] == [
        (file.name, file.sha256) for file in built.files
    ]


def test_the_directory_holds_no_other_rocm_afterwards_and_keeps_what_is_not_ours(
    rocm: Path, tmp_path: Path
) -> None:
    for name in ("rocm_sdk_core-5.2.3-py3-none-linux_x86_64.whl", "rocm-5.2.3.tar.gz"):
        write(tmp_path / "dist" / name, "old")
    write(tmp_path / "dist/rocm_sdk_core-1-py3-none-linux_x86_64.whl.partial", "left by a killed run")
    kept = {"torch-2.9.0-cp311-cp311-linux_x86_64.whl", "notes.txt"}
    for name in kept:
        write(tmp_path / "dist" / name, "the user's")
    notes: list[str] = []
    built = build_packages(
        read_prefix(rocm), tmp_path / "dist", Packaging(family="My.Fam_ily"), note=notes.append
    )
    assert {path.name for path in (tmp_path / "dist").iterdir()} == {file.name for file in built.files} | kept
    assert built.files[1].name == "rocm_sdk_libraries_my_fam_ily-6.4.1-py3-none-linux_x86_64.whl"
    assert [note for note in notes if "rocm_sdk_core-6.4.1-py3-none-linux_x86_64.whl" in note]


def test_a_wheel_that_cannot_be_written_keeps_the_old_ones(rocm: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(rocm, tmp_path / "rocm", symlinks=True)
    prefix = read_prefix(copy)
    write(tmp_path / "dist/old.whl", "old")
    (copy / "lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat").unlink()
    with pytest.raises((RocwrightError, FileNotFoundError)):
        build_packages(prefix, tmp_path / "dist")
    assert {path.name for path in (tmp_path / "dist").iterdir()} == {"old.whl"}


def test_a_version_that_is_none_is_refused(rocm: Path) -> None:
    with pytest.raises(RocwrightError, match="trunk"):
        plan_packages(read_prefix(rocm, version="trunk"))


def test_a_note_names_what_of_the_prefix_is_left_out(rocm: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(rocm, tmp_path / "rocm", symlinks=True)
    link(copy / "share/gone", "nowhere")
    assert plan_packages(read_prefix(copy)).notes == ("share/gone: leads nowhere: nowhere",)


def test_a_prefix_without_libraries_is_refused(tmp_path: Path) -> None:
    # Device code in the HIP runtime itself: core has everything.
    trees.library(tmp_path / "lib/libamdhip64.so.6", soname="libamdhip64.so.6", targets=["gfx906"])
    with pytest.raises(InvalidPrefix, match="rocm-sdk-libraries-gfx906-dgpu"):
        plan_packages(read_prefix(tmp_path, version="1"))


def test_packages_of_the_other_platform_stay(rocm: Path, tmp_path: Path) -> None:
    """Both platforms of one version belong into one index, and share the selector."""
    other = "rocm_sdk_core-6.4.1-py3-none-win_amd64.whl"
    write(tmp_path / other, "Windows")
    build_packages(read_prefix(rocm), tmp_path)
    assert (tmp_path / other).exists()


def test_sdists_of_others_whose_name_begins_alike_stay(rocm: Path, tmp_path: Path) -> None:
    names = ["rocm-docs-core-1.2.tar.gz", "rocm-cmake-6.4.1.tar.gz"]
    for name in names:
        write(tmp_path / name, "the user's")
    build_packages(read_prefix(rocm), tmp_path)
    assert [name for name in names if (tmp_path / name).exists()] == names


@pytest.mark.parametrize(("compression", "stored"), [("none", True), ("fast", False)])
def test_wheels_are_compressed_as_asked(rocm: Path, tmp_path: Path, compression: str, stored: bool) -> None:
    built = build_packages(read_prefix(rocm), tmp_path, Packaging(compression=compression))
    members = [member for path in built.paths[:3] for member in zipfile.ZipFile(path).infolist()]
    assert all(member.compress_type == zipfile.ZIP_STORED for member in members) == stored


def test_an_unknown_compression_is_named_before_anything_is_written(rocm: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'best' is not a compression of wheels"):
        build_packages(read_prefix(rocm), tmp_path / "dist", Packaging(compression="best"))
    assert not list((tmp_path / "dist").iterdir())
