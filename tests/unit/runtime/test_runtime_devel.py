"""Expansion of the devel tree: whole or not at all, once, no copies, no writing into installed files."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import fake_rocm as fake
import pytest

ROOT = "from rocm_sdk import _devel; print(_devel.root())"


def leftovers(site: Path) -> list[str]:
    """Everything in the devel package that its wheel did not bring; the tree is beside it."""
    known = {"__init__.py", "_cli.py", "cmake", "_devel.json", "_devel.tar", "_devel.tar.xz"}
    beside = {path.name for path in site.glob("_rocm_sdk_devel?*")}
    return sorted({path.name for path in (site / "rocm_sdk_devel").iterdir()} - known | beside)


def record(site: Path) -> list[str]:
    return (site / "rocm_sdk_devel-5.2.3.dist-info/RECORD").read_text().splitlines()


def listing(tree: Path) -> list[str]:
    """Paths of files and links, by find(1)."""
    done = subprocess.run(
        ["find", ".", "!", "-type", "d", "-printf", "%P\n"],
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(done.stdout.split())


def refused(in_process, tmp_path: Path, site: Path, **changes) -> str:
    """Put another devel wheel into `site`, expand it, and return why that was refused."""
    (tmp_path / "wheel").mkdir()
    fake.unpack(site, fake.devel_wheel(tmp_path / "wheel", **changes))
    before = record(site)
    with pytest.raises(in_process.DevelError) as caught:
        in_process.root()
    assert leftovers(site) == []
    assert not (site / "_rocm_sdk_devel").exists()
    # All that RECORD gained before the failure is that the whole directory goes.
    added = {line.partition(".partial-")[0].rstrip(",") for line in set(record(site)) - set(before)}
    assert added <= {"_rocm_sdk_devel", "rocm_sdk_devel"}
    return str(caught.value)


def test_links_instead_of_copies(site: Path, in_process) -> None:
    tree = Path(in_process.root())
    assert tree == site / "_rocm_sdk_devel"
    expected = [path for path, _, _ in fake.DEVEL_ENTRIES]
    assert listing(tree) == sorted([*expected, ".rocm-sdk-expanded", "__init__.py"])
    core = site / "_rocm_sdk_core"
    # An executable is a hard link, a library a relative symbolic link into the runtime package.
    assert (tree / "bin/hipcc").samefile(core / "bin/hipcc")
    assert not (tree / "bin/hipcc").is_symlink()
    assert str((tree / "lib/libamdhip64.so.5").readlink()) == "../../_rocm_sdk_core/lib/libamdhip64.so.5"
    assert (tree / "lib/libamdhip64.so").resolve() == core / "lib/libamdhip64.so.5"
    assert str((tree / "lib/librocblas.so.0").readlink()) == f"../../{fake.LIBRARIES}/lib/librocblas.so.0"
    assert not (tree / "lib/rocblas/library/data.dat").is_symlink()
    assert (str((tree / "llvm").readlink()), (tree / "llvm/bin/clang").exists()) == ("lib/llvm", True)
    assert (tree / "include/hip/hip_version.h").read_bytes() == fake.HEADER
    assert os.access(tree / "bin/tool", os.X_OK)
    assert not os.access(tree / "include/hip/hip_version.h", os.X_OK)
    assert leftovers(site) == []


def test_an_executable_finds_its_tree_by_its_own_path(site: Path) -> None:
    tree = fake.python(site, ROOT).stdout.strip()
    done = subprocess.run([f"{tree}/bin/hipcc", "-v"], capture_output=True, text=True, check=True)
    assert done.stdout == f"hipcc from {tree}/bin -v\n"


def test_second_use_changes_nothing(site: Path, in_process) -> None:
    tree = Path(in_process.root())
    inode, lines = tree.stat().st_ino, record(site)
    assert in_process.root() == str(tree)
    assert (tree.stat().st_ino, record(site)) == (inode, lines)


def test_installed_files_are_never_written_and_record_is_replaced(
    site: Path, in_process, tmp_path: Path
) -> None:
    # What uv does: the installed files are hard links of its cache.
    cache = tmp_path / "cache"
    cache.mkdir()
    files = [p for p in site.rglob("*") if p.is_file()]
    content = {}
    for number, file in enumerate(files):
        os.link(file, cache / str(number))
        content[number] = file.read_bytes()
    in_process.root()
    assert {number: (cache / str(number)).read_bytes() for number in content} == content
    assert "_rocm_sdk_devel/lib/libamdhip64.so.5,," in record(site)
    assert "_rocm_sdk_devel,," in record(site)
    assert not any("partial" in line for line in record(site))


def test_xz_archive(site: Path, in_process, tmp_path: Path) -> None:
    (site / "rocm_sdk_devel/_devel.tar").unlink()
    (tmp_path / "xz").mkdir()
    fake.unpack(site, fake.devel_wheel(tmp_path / "xz", name="_devel.tar.xz"))
    assert (Path(in_process.root()) / "include/hip/hip_version.h").read_bytes() == fake.HEADER


def test_eight_processes_at_once(site: Path) -> None:
    code = "import sys; sys.stdin.readline(); " + ROOT
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=fake.child_environ(site),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for worker in workers:  # all are started; now let them go together
        worker.stdin.write("\n")
        worker.stdin.flush()
    results = [worker.communicate(timeout=60) for worker in workers]
    assert results == [(f"{site}/_rocm_sdk_devel\n", "")] * 8
    assert leftovers(site) == []
    assert len(listing(site / "_rocm_sdk_devel")) == len(fake.DEVEL_ENTRIES) + 2
    lines = record(site)
    assert len(lines) == len(set(lines))


STOP = """
import time
from rocm_sdk import _devel, _expand, _unpack
place = {module}
real = place.{point}
def stop(*arguments):
    {call}
    print("stopped", flush=True)
    time.sleep(60)
place.{point} = stop
_devel.root()
"""
POINTS = [
    ("_write", "real(*arguments)"),
    ("_attach", "real(*arguments)"),
    ("verify", ""),
    ("_put_in_place", ""),
]


def kill_at(site: Path, point: str, call: str) -> None:
    module = "_unpack" if point == "_write" else "_expand"
    code = STOP.format(module=module, point=point, call=call or "pass")
    with subprocess.Popen(
        [sys.executable, "-c", code], env=fake.child_environ(site), stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout.readline() == "stopped\n"
        worker.send_signal(signal.SIGKILL)
    assert worker.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("point", "call"), POINTS)
def test_kill_in_the_middle_is_never_taken_for_complete(site: Path, point: str, call: str) -> None:
    kill_at(site, point, call)
    assert not (site / "_rocm_sdk_devel").exists()
    assert len(leftovers(site)) == 1
    # RECORD knows of it, should the package be uninstalled now.
    assert "_rocm_sdk_devel,," in record(site)
    assert fake.python(site, ROOT).stdout == f"{site}/_rocm_sdk_devel\n"
    assert leftovers(site) == []
    assert len(listing(site / "_rocm_sdk_devel")) == len(fake.DEVEL_ENTRIES) + 2


def test_kill_right_after_the_rename_leaves_a_whole_tree(site: Path) -> None:
    kill_at(site, "_put_in_place", "real(*arguments)")
    assert "_rocm_sdk_devel,," in record(site)
    assert fake.python(site, ROOT).stdout == f"{site}/_rocm_sdk_devel\n"


def test_a_reinstalled_core_makes_the_tree_anew(site: Path, in_process) -> None:
    tree = Path(in_process.root())
    hipcc = site / "_rocm_sdk_core/bin/hipcc"
    hipcc.unlink()
    hipcc.write_bytes(b"#!/bin/sh\necho new\n")
    hipcc.chmod(0o755)
    core_record = site / "rocm_sdk_core-5.2.3.dist-info/RECORD"
    core_record.write_text(core_record.read_text().replace("bin/hipcc,sha256=", "bin/hipcc,sha256=x"))
    assert Path(in_process.root()) == tree
    assert (tree / "bin/hipcc").samefile(hipcc)
    assert leftovers(site) == []


def test_moving_the_environment_keeps_the_tree(site: Path) -> None:
    fake.python(site, ROOT)
    inode = (site / "_rocm_sdk_devel").stat().st_ino
    moved = site.rename(site.parent / "moved")
    assert fake.python(moved, ROOT).stdout == f"{moved}/_rocm_sdk_devel\n"
    assert (moved / "_rocm_sdk_devel").stat().st_ino == inode
    assert (moved / "_rocm_sdk_devel/lib/libamdhip64.so").exists()


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM])
def test_without_hard_links_files_are_symbolic_links_never_copies(
    site: Path, in_process, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def no_link(*_arguments) -> None:
        raise OSError(code, "no hard links here")

    monkeypatch.setattr(os, "link", no_link)
    tree = Path(in_process.root())
    assert str((tree / "bin/hipcc").readlink()) == "../../_rocm_sdk_core/bin/hipcc"
    assert (tree / "bin/hipcc").exists()


def test_read_only_site_packages(
    site: Path, in_process, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = os.mkdir

    def mkdir(path, *more, **names) -> None:
        if str(path).startswith(str(site)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        real(path, *more, **names)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(
        in_process.DevelError, match=r"cannot be written to \(Read-only file system\)"
    ) as caught:
        in_process.root()
    assert "ROCM_SDK_DEVEL_DIR" in str(caught.value)
    before = record(site)
    monkeypatch.setenv("ROCM_SDK_DEVEL_DIR", str(tmp_path / "elsewhere"))
    tree = Path(in_process.root())
    assert tree.parent == tmp_path / "elsewhere"
    assert str((tree / "lib/libamdhip64.so.5").readlink()) == f"{site}/_rocm_sdk_core/lib/libamdhip64.so.5"
    assert (tree / "bin/hipcc").samefile(site / "_rocm_sdk_core/bin/hipcc")
    assert (in_process.root(), record(site)) == (str(tree), before)
    assert [*(tmp_path / "elsewhere").iterdir()] == [tree]


def test_directory_elsewhere_must_be_absolute(in_process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_SDK_DEVEL_DIR", "here")
    with pytest.raises(in_process.DevelError, match="must be an absolute path, not 'here'"):
        in_process.root()


def test_a_file_system_without_directory_locks(
    site: Path, in_process, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl
    import stat

    real = fcntl.flock

    def flock(handle: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EBADF, "as NFS answers")
        real(handle, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(site.parent))
    assert Path(in_process.root()).is_dir()
    assert leftovers(site) == []
    assert list(site.parent.glob("*.lock")) == []


def test_damaged_archives_are_refused(site: Path, in_process, tmp_path: Path) -> None:
    changed = {**fake.DEVEL_FILES, "bin/tool": (b"#!/bin/sh\nexit 1\n", 0o755)}
    assert "sha256 differs: bin/tool" in refused(in_process, tmp_path, site, tar=fake.devel_tar(changed))


def test_truncated_archive(site: Path, in_process, tmp_path: Path) -> None:
    message = refused(in_process, tmp_path, site, tar=fake.devel_tar()[:700])
    assert "the installed rocm-sdk-devel is damaged" in message
    assert "pip install --force-reinstall --no-deps rocm-sdk-devel" in message


def test_truncated_xz(site: Path, in_process, tmp_path: Path) -> None:
    (site / "rocm_sdk_devel/_devel.tar").unlink()
    tar = fake.devel_tar(compression="xz")[:120]
    assert "damaged" in refused(in_process, tmp_path, site, tar=tar, name="_devel.tar.xz")


def test_missing_and_extra_members(site: Path, in_process, tmp_path: Path) -> None:
    fewer = {name: value for name, value in fake.DEVEL_FILES.items() if name != "bin/tool"}
    assert "1 files missing, first bin/tool" in refused(in_process, tmp_path, site, tar=fake.devel_tar(fewer))


def test_unexpected_member(site: Path, in_process, tmp_path: Path) -> None:
    more = {**fake.DEVEL_FILES, "bin/more": (b"", 0o644)}
    assert "in the archive: bin/more" in refused(in_process, tmp_path, site, tar=fake.devel_tar(more))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (["../evil", "link", "bin"], "bad path"),
        (["/etc/evil", "link", "bin"], "bad path"),
        (["llvm/evil", "link", "bin"], "bad path"),  # would be written through the link llvm
        (["a//b", "link", "bin"], "bad path"),
        (["evil", "link", "../../rocm_sdk"], "leaves the tree"),
        (["evil", "link", "/etc/passwd"], "leaves the tree"),
        (["evil", "sibling", "../../../etc/passwd"], "bad sibling"),
        (["evil", "sibling", "../alone"], "bad sibling"),
        (["evil", "copy", "bin"], "bad entry"),
        (["bin/tool", "link", "hipcc"], "distinct"),
        (["dangling", "link", "nothing"], "dangling or missing: dangling"),
        (["filelink", "dirlink", "bin/tool"], "dangling or missing: filelink"),
    ],
)
def test_bad_manifests_are_refused(site: Path, in_process, tmp_path: Path, entry, words: str) -> None:
    entries = [*fake.DEVEL_ENTRIES, entry]
    assert words in refused(in_process, tmp_path, site, entries=entries)


def test_wrong_count(site: Path, in_process, tmp_path: Path) -> None:
    assert "11 entries, 11 distinct, and says 12" in refused(in_process, tmp_path, site, count=12)


def test_sibling_package_not_installed(tmp_path: Path, wheels) -> None:
    site = fake.unpack(tmp_path / "site", wheels["rocm"], wheels["core"], wheels["devel"])
    done = fake.rocm_sdk(site, "init")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "rocm-sdk: the development files need the package rocm-sdk-libraries-gfx90X-dcgpu, which is not "
        'installed; install it with: pip install "rocm[libraries,devel]==5.2.3"\n'
    )
    assert leftovers(site) == []


def test_file_of_a_sibling_missing(site: Path, in_process) -> None:
    (site / "_rocm_sdk_core/bin/hipcc").unlink()
    with pytest.raises(in_process.DevelError, match="bin/hipcc is missing from the installed rocm-sdk-core"):
        in_process.root()
    assert leftovers(site) == []
