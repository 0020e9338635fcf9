"""Rules about the archive, on facts written by hand and, at the door, on real zip files."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from wheel_facts import LINUX, findings, ids, only, sdist, wheel

from rocwright.check.facts import ElfFacts, Fault, Member
from rocwright.check.rules.archive import RULES
from rocwright.check.run import check_paths

FILE = stat.S_IFREG
PURE = "py3-none-any"
WINDOWS = "cp311-cp311-win_amd64"


def test_a_good_wheel() -> None:
    assert ids(wheel(members=["pure/__init__.py", Member("pure/x", mode=FILE | 0o644)]), RULES) == []


# -- names


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("/etc/passwd", "not a relative path"),
        ("C:/x", "not a relative path"),
        ("C:\\x", "not a relative path"),
        ("pure\\x.py", "not a relative path"),
        ("pure/../../x.py", "leaves the folder"),
        ("../x.py", "leaves the folder"),
        ("pure//x.py", "leaves the folder"),
        ("pure/./x.py", "leaves the folder"),
        ("", "leaves the folder"),
    ],
)
def test_names_that_lead_elsewhere(name: str, says: str) -> None:
    finding = only(wheel(members=[name]), RULES)
    assert (finding.rule, finding.severity) == ("member-names", "error")
    assert says in finding.cause
    assert name not in finding.cause or not name


def test_names_that_only_look_strange() -> None:
    assert (
        ids(wheel(members=["pure/...", "pure/a..b", "pure/x:y", "pure/ä\u00a0b", "pure/sub/"]), RULES) == []
    )


def test_members_of_an_sdist_are_looked_at_too() -> None:
    bad = msgspec.structs.replace(
        sdist("pure", "1"), members=(Member("pure-1/../x"), Member("pure-1/y"), Member("pure-1/y"))
    )
    assert ids(bad, RULES) == ["member-names", "member-twice"]


def test_a_name_twice_is_told_once_and_nothing_else_of_it() -> None:
    twice = wheel(
        members=["pure/x.py", "pure/x.py", "pure/x.py"],
        damaged=(Fault("pure/x.py", "its checksum is wrong"),),
        record=(Fault("pure/x.py", "RECORD has another digest"),),
    )
    finding = only(twice, RULES)
    assert (finding.rule, finding.members) == ("member-twice", ("pure/x.py",))


# -- kinds and modes


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (stat.S_IFLNK, "symbolic link"),
        (stat.S_IFIFO, "neither a file nor a folder"),
        (stat.S_IFCHR, "neither a file nor a folder"),
        (stat.S_IFBLK, "neither a file nor a folder"),
        (stat.S_IFSOCK, "neither a file nor a folder"),
    ],
)
def test_members_that_are_no_files(kind: int, says: str) -> None:
    finding = only(wheel(members=[Member("pure/x", mode=kind | 0o777)]), RULES)
    assert (finding.rule, finding.severity, finding.members) == ("member-links", "error", ("pure/x",))
    assert says in finding.cause


def test_folders_are_no_fault_with_any_mode() -> None:
    folders = [Member("pure/", mode=stat.S_IFDIR | 0o777), Member("pure/sub/", mode=0o777)]
    assert ids(wheel(members=folders), RULES) == []


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        (0o4755, "setuid"),
        (0o2755, "setuid or setgid"),
        (0o666, "everybody may write"),
        (0o602, "everybody may write"),
        (0o200, "may not read"),
        (0o044, "may not read"),
    ],
)
def test_modes(mode: int, says: str) -> None:
    for kind in (FILE, 0):
        finding = only(wheel(members=[Member("pure/x", mode=kind | mode)]), RULES)
        assert (finding.rule, finding.severity) == ("member-modes", "warning")
        assert says in finding.cause


@pytest.mark.parametrize("mode", [0, FILE | 0o600, FILE | 0o644, FILE | 0o664, FILE | 0o755, FILE | 0o400])
def test_modes_that_are_fine(mode: int) -> None:
    assert ids(wheel(members=[Member("pure/x", mode=mode)]), RULES) == []


def test_modes_count_as_errors_where_rocm_is_packaged_and_not_at_all_on_windows() -> None:
    member = Member("torch/x", mode=FILE | 0o666)
    for project in ("torch", "rocm-sdk-core", "amd-torch-device-gfx942", "triton"):
        assert only(wheel(project, members=[member]), RULES).severity == "error"
    assert ids(wheel("torch", members=[member], tag=WINDOWS), RULES) == []
    both = frozenset({WINDOWS, LINUX})
    assert ids(wheel("torch", members=[member], tags=both, wheel_tags=both), RULES) == ["member-modes"]


def test_programs_are_executable() -> None:
    def program(mode: int, **fields: Any) -> list[str]:
        elf = ElfFacts("pure/bin/x", **{"kind": "exec", **fields})
        return ids(wheel(members=[Member("pure/bin/x", mode=mode)], elf=(elf,)), RULES)

    assert program(FILE | 0o644) == ["member-modes"]
    assert program(FILE | 0o655) == ["member-modes"]
    assert program(FILE | 0o755) == program(FILE | 0o700) == program(0) == []
    assert program(FILE | 0o644, kind="dyn", interp="/lib64/ld-linux-x86-64.so.2") == ["member-modes"]
    # Such a library can be run, as libc can, but it is one.
    assert program(FILE | 0o644, kind="dyn", interp="/lib64/ld.so", soname="libx.so.1") == []
    assert program(FILE | 0o644, kind="dyn") == program(FILE | 0o644, kind="rel") == []


def test_scripts_are_executable() -> None:
    def script(name: str) -> list[str]:
        return ids(wheel(members=[Member(name, mode=FILE | 0o644)]), RULES)

    assert script("pure-1.0.data/scripts/run") == ["member-modes"]
    assert script("pure-1.0.data/data/run") == script("pure/scripts/run") == []


# -- bytes


@pytest.mark.parametrize(
    ("member", "says"),
    [
        (Member("pure/x", flags=0x1), "encrypted"),
        (Member("pure/x", flags=0x41), "encrypted"),
        (Member("pure/x", method=12), "method 12"),
        (Member("pure/x", method=93), "method 93"),
    ],
)
def test_members_that_installers_cannot_read(member: Member, says: str) -> None:
    broken = wheel(
        members=[member],
        damaged=(Fault("pure/x", "it cannot be inflated"),),
        record=(Fault("pure/x", "RECORD has another digest"),),
    )
    finding = only(broken, RULES)
    assert (finding.rule, finding.severity) == ("member-method", "error")
    assert says in finding.cause


def test_data_descriptors_hurt_stored_members_only() -> None:
    assert ids(wheel(members=[Member("pure/x", method=0, flags=8)]), RULES) == ["stored-descriptor"]
    assert ids(wheel(members=[Member("pure/x", method=8, flags=8)]), RULES) == []
    # UTF-8 names and compression levels are other bits.
    assert ids(wheel(members=[Member("pure/x", method=0, flags=0x806)]), RULES) == []


def test_damage_is_told_once_by_the_rule_meant_for_it() -> None:
    damaged = wheel(
        members=["pure/x", "pure/y"],
        damaged=(Fault("pure/x", "its checksum is wrong"),),
        record=(Fault("pure/x", "RECORD has another digest"), Fault("pure/y", "RECORD has another size")),
    )
    assert [(one.rule, one.members, one.cause) for one in findings(damaged, RULES)] == [
        ("member-damaged", ("pure/x",), "its checksum is wrong"),
        ("record", ("pure/y",), "RECORD has another size"),
    ]


def test_what_record_as_a_whole_is_wrong_about() -> None:
    finding = only(wheel(record=(Fault("", "RECORD is missing"),)), RULES)
    assert (finding.rule, finding.cause, finding.members) == ("record", "RECORD is missing", ())


# -- the .dist-info folder


@pytest.mark.parametrize(
    ("folders", "says"),
    [
        ((), "this one has: none"),
        (("pure-1.0.dist-info", "other-2.dist-info"), "other-2.dist-info, pure-1.0.dist-info"),
        (("pure-1.1.dist-info",), "pure-1.1.dist-info is not that of pure 1.0"),
        (("other-1.0.dist-info",), "other-1.0.dist-info is not that of pure 1.0"),
        (("pure.dist-info",), "pure.dist-info is not that"),
        (("pure-one.dist-info",), "pure-one.dist-info is not that"),
    ],
)
def test_dist_info(folders: tuple[str, ...], says: str) -> None:
    finding = only(wheel(dist_infos=folders), RULES)
    assert (finding.rule, finding.severity) == ("dist-info", "error")
    assert says in finding.cause


def test_spellings_of_one_dist_info() -> None:
    assert ids(wheel("my-pure", dist_infos=("My.Pure-1.dist-info",)), RULES) == []
    assert ids(wheel("my-pure", "1.0+rocm7.1", dist_infos=("my_pure-1.0+ROCm7.1.dist-info",)), RULES) == []


# -- Windows


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["pure/a:b"], "allows no ':'"),
        (["pure/a?"], "allows no '?'"),
        (['pure/"a"'], "allows no '\"'"),
        (["pure/aux.h"], "aux.h names a device"),
        (["NUL/x"], "NUL names a device"),
        (["pure/com1"], "com1 names a device"),
        (["pure/a."], "dot or space at the end"),
        (["pure/a /b"], "dot or space at the end"),
        (["pure/Readme", "pure/README"], "the same file as pure/Readme"),
        (["pure/A/x", "pure/a/X"], "the same file as pure/A/x"),
        (["pure/a.py", "pure-1.data/platlib/pure/A.py"], "the same file as pure/a.py"),
        (["pure-1.data/scripts/aux.exe"], "aux.exe names a device"),
    ],
)
def test_names_that_windows_refuses(names: list[str], says: str) -> None:
    for tag in (PURE, WINDOWS, "py3-none-win32", "py3-none-win_arm64"):
        finding = only(wheel(members=names, tag=tag), RULES)
        assert (finding.rule, finding.severity, finding.members) == ("windows-names", "error", (names[-1],))
        assert says in finding.cause
    assert ids(wheel(members=names), RULES) == []


def test_names_that_windows_takes() -> None:
    good = ["pure/auxiliary.h", "pure/com10", "pure/console", "pure/.x", "pure/a.b.c", "pure/COM0x", "pure/ä"]
    # Where they are installed, these are two.
    good += ["pure-1.data/scripts/tool", "Tool"]
    assert ids(wheel(members=good, tag=PURE), RULES) == []


def test_long_paths() -> None:
    def long(length: int, project: str = "pure", tag: str = PURE) -> list[tuple[str, str]]:
        path = "p/" + "x" * (length - 2)
        return [(one.rule, one.severity) for one in findings(wheel(project, members=[path], tag=tag), RULES)]

    assert long(160) == []
    assert long(161) == [("windows-lengths", "warning")]
    assert long(161, "rocm-sdk-core", "py3-none-win_amd64") == [("windows-lengths", "error")]
    assert long(161, tag=LINUX) == []
    # What is not installed counts for nothing.
    path = "pure-1.data/data/" + "x" * 160
    assert not findings(wheel(members=[path], tag=PURE), RULES)


# -- at the door


def rewritten(source: Path, target: Path, change: Any) -> Path:
    """A copy of a wheel with one entry changed in both headers."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            entry = zipfile.ZipInfo(info.filename)
            entry.external_attr, entry.compress_type = info.external_attr, zipfile.ZIP_DEFLATED
            if info.filename == "torch/version.py":
                change(entry)
            new.writestr(entry, data, entry.compress_type)
    return target


def door(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    report = check_paths([path])
    return [(one.rule, one.members) for one in report.findings if one.rule != "set-closed"]


def test_modes_and_links_of_a_real_zip_file(build: Any, tmp_path: Path) -> None:
    wheel = build.torch()
    copy = tmp_path / wheel.name

    def mode(number: int) -> Any:
        return lambda entry: setattr(entry, "external_attr", number << 16)

    assert door(rewritten(wheel, copy, mode(FILE | 0o644))) == []
    assert door(rewritten(wheel, copy, mode(FILE | 0o4755))) == [("member-modes", ("torch/version.py",))]
    assert door(rewritten(wheel, copy, mode(FILE | 0o666))) == [("member-modes", ("torch/version.py",))]
    assert door(rewritten(wheel, copy, mode(stat.S_IFLNK | 0o777))) == [
        ("member-links", ("torch/version.py",))
    ]


def test_a_method_of_a_real_zip_file(build: Any, tmp_path: Path) -> None:
    wheel = build.torch()
    copy = tmp_path / wheel.name
    bzip2 = rewritten(wheel, copy, lambda entry: setattr(entry, "compress_type", zipfile.ZIP_BZIP2))
    assert door(bzip2) == [("member-method", ("torch/version.py",))]


def test_a_damaged_member_of_a_real_zip_file(build: Any) -> None:
    wheel = build.torch()
    with zipfile.ZipFile(wheel) as archive:
        checksum = archive.getinfo("torch/_rocm_init.py").CRC
    right, wrong = checksum.to_bytes(4, "little"), (checksum ^ 1).to_bytes(4, "little")
    data = wheel.read_bytes()
    # In both headers; the bytes stay what RECORD says.
    assert data.count(right) == 2
    wheel.write_bytes(data.replace(right, wrong))
    assert door(wheel) == [("member-damaged", ("torch/_rocm_init.py",))]


def test_windows_names_of_a_real_zip_file(build: Any) -> None:
    files = {"pure/__init__.py": "", "pure/aux.py": "", "pure/Aux_.py": "", "pure/aux_.py": ""}
    wheel = build("pure", "1", files, tag="py3-none-any")
    assert door(wheel) == [("windows-names", ("pure/aux.py",)), ("windows-names", ("pure/aux_.py",))]
