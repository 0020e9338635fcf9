"""Files: nothing half-written, nothing lost, every change noticed."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rocwright.errors import IntegrityError, InvalidInput, NoSpace
from rocwright.system import files


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_atomic_write_shows_the_new_file_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    with files.atomic_write(path) as stream:
        stream.write(b"half")
        stream.flush()
        assert not path.exists()
    assert path.read_bytes() == b"half"
    assert names(path.parent) == ["file"]


@pytest.mark.parametrize("stop", [ValueError("x"), KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_atomic_write_keeps_the_old_file_when_the_writer_stops(tmp_path: Path, stop: BaseException) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(type(stop)), files.atomic_write(path) as stream:
        stream.write(b"new")
        raise stop
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_atomic_write_on_a_full_disk_is_no_space_and_leaves_nothing(tmp_path: Path) -> None:
    # /dev/full answers every write with ENOSPC, as a full disk does; buffering delays it to the end.
    (tmp_path / "file.partial").symlink_to("/dev/full")
    with (
        pytest.raises(NoSpace, match="no space left while writing file") as caught,
        files.atomic_write(tmp_path / "file") as stream,
    ):
        stream.write(b"a few bytes that stay in the buffer until it is flushed")
    assert names(tmp_path) == []
    assert caught.value.where == str(tmp_path / "file")
    assert caught.value.next_step is not None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_atomic_write_on_a_disk_that_fills_up_in_the_middle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "file.partial").symlink_to("/dev/full")
    with pytest.raises(NoSpace), files.atomic_write(tmp_path / "file") as stream:
        for _ in range(100):
            stream.write(bytes(1 << 16))
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "old"


def test_a_leftover_of_a_killed_run_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file.partial").write_bytes(b"leftover that is longer")
    files.write_text(tmp_path / "file", "short\n")
    assert (tmp_path / "file").read_bytes() == b"short\n"
    assert names(tmp_path) == ["file"]


def test_several_write_one_file_at_once_and_readers_see_whole_ones(tmp_path: Path) -> None:
    path = tmp_path / "file"
    whole = {bytes([letter]) * 100_000 for letter in b"abcd"}

    def write(data: bytes) -> None:
        for _ in range(60):
            with files.atomic_write(path) as stream:
                for start in range(0, len(data), 10_000):
                    stream.write(data[start : start + 10_000])
                    stream.flush()
            assert path.read_bytes() in whole

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(write, data) for data in whole]:
            done.result()
    assert names(tmp_path) == ["file"]


def test_who_writes_while_another_one_does_waits_for_nobody(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with files.atomic_write(path) as slow:
        slow.write(b"of the slow one, which takes its time")
        slow.flush()
        files.write_text(path, "of the fast one")
        assert path.read_text() == "of the fast one"
    assert path.read_text() == "of the slow one, which takes its time"
    assert names(tmp_path) == ["file"]


def test_a_parent_that_is_a_file_is_a_named_error(tmp_path: Path) -> None:
    (tmp_path / "parent").write_text("")
    with pytest.raises(InvalidInput, match="cannot write"):
        files.write_text(tmp_path / "parent" / "file", "x")
    with pytest.raises(InvalidInput, match="cannot write"), files.atomic_directory(tmp_path / "parent" / "d"):
        pass


def test_atomic_directory_replaces_the_old_tree_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tree"
    (path / "old").mkdir(parents=True)
    (tmp_path / "tree.partial" / "leftover").mkdir(parents=True)
    with files.atomic_directory(path) as inside:
        (inside / "new").write_text("x")
        assert names(path) == ["old"]
    assert names(path) == ["new"]
    assert names(tmp_path) == ["tree"]


@pytest.mark.parametrize(
    ("stop", "raised"),
    [
        (RuntimeError("x"), RuntimeError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(errno.ENOSPC, "full"), NoSpace),
        (OSError(errno.EDQUOT, "quota"), NoSpace),
        (PermissionError(errno.EACCES, "Permission denied"), InvalidInput),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_atomic_directory_keeps_the_old_tree_on_any_error(
    tmp_path: Path, stop: BaseException, raised: type[BaseException]
) -> None:
    path = tmp_path / "tree"
    (path / "old").mkdir(parents=True)
    with pytest.raises(raised), files.atomic_directory(path) as inside:
        (inside / "new").write_text("x")
        raise stop
    assert names(path) == ["old"]
    assert names(tmp_path) == ["tree"]


def test_atomic_directory_keeps_the_old_tree_when_the_last_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tree"
    (path / "old").mkdir(parents=True)
    rename = os.replace

    def failing(source: os.PathLike[str], target: os.PathLike[str], **options: object) -> None:
        if Path(source).name == "tree.partial":
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "replace", failing)
    monkeypatch.setattr(Path, "replace", lambda self, target: failing(self, target))
    with pytest.raises(InvalidInput, match="Input/output error"), files.atomic_directory(path) as inside:
        (inside / "new").write_text("x")
    assert names(path) == ["old"]
    assert names(tmp_path) == ["tree"]


def test_atomic_directory_over_a_link_replaces_the_link_not_its_target(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "precious").write_text("x")
    (tmp_path / "tree").symlink_to("target")
    with files.atomic_directory(tmp_path / "tree") as inside:
        (inside / "new").write_text("x")
    assert names(tmp_path / "target") == ["precious"]
    assert names(tmp_path / "tree") == ["new"]


def test_remove_tree_removes_links_but_never_what_they_lead_to(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("tree", "dangling", "absent"):
        files.remove_tree(tmp_path / name)
    assert names(tmp_path) == ["kept"]
    assert names(tmp_path / "kept") == ["file"]


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_a_file_that_cannot_be_linked_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    (tmp_path / "source").write_bytes(b"bytes")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    files.link_or_copy(tmp_path / "source", tmp_path / "out" / "target")
    assert (tmp_path / "out" / "target").read_bytes() == b"bytes"
    assert (tmp_path / "out" / "target").stat().st_ino != (tmp_path / "source").stat().st_ino
    assert names(tmp_path / "out") == ["target"]


def test_link_or_copy_links_on_one_file_system(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"bytes")
    (tmp_path / "target").write_bytes(b"older")
    files.link_or_copy(tmp_path / "source", tmp_path / "target")
    assert (tmp_path / "target").stat().st_ino == (tmp_path / "source").stat().st_ino
    assert names(tmp_path) == ["source", "target"]


@pytest.mark.skipif(
    not Path("/dev/shm").is_dir() or not os.access("/dev/shm", os.W_OK), reason="needs a second file system"
)
def test_link_or_copy_across_two_real_file_systems(tmp_path: Path) -> None:
    other = Path("/dev/shm") / f"rocwright-test-{os.getpid()}"
    if Path("/dev/shm").stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("one file system")
    (tmp_path / "source").write_bytes(b"bytes")
    try:
        files.link_or_copy(tmp_path / "source", other / "target")
        assert names(other) == ["target"]
        assert (other / "target").read_bytes() == b"bytes"
    finally:
        shutil.rmtree(other, ignore_errors=True)


def test_linking_again_what_is_linked_already_leaves_no_partial(tmp_path: Path) -> None:
    # rename(2) does nothing at all when both names are links to one file.
    (tmp_path / "source").write_bytes(b"bytes")
    for _ in range(2):
        files.link_or_copy(tmp_path / "source", tmp_path / "target")
    assert names(tmp_path) == ["source", "target"]


def test_a_link_as_source_gives_the_file_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"bytes")
    (tmp_path / "source").symlink_to("real")
    files.link_or_copy(tmp_path / "source", tmp_path / "out" / "target")
    assert not (tmp_path / "out" / "target").is_symlink()
    assert (tmp_path / "out" / "target").read_bytes() == b"bytes"


@pytest.mark.parametrize(
    ("stop", "raised"),
    [
        (OSError(errno.ENOSPC, "full"), NoSpace),
        (OSError(errno.EIO, "Input/output error"), InvalidInput),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=["full", "broken", "interrupted"],
)
def test_a_copy_that_stops_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: BaseException, raised: type[BaseException]
) -> None:
    (tmp_path / "source").write_bytes(b"bytes")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    def half(_: Path, target: Path) -> None:
        Path(target).write_bytes(b"by")
        raise stop

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(shutil, "copyfile", half)
    with pytest.raises(raised):
        files.link_or_copy(tmp_path / "source", tmp_path / "target")
    assert names(tmp_path) == ["source"]


def test_a_target_that_is_a_directory_is_a_named_error_without_leftovers(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"bytes")
    (tmp_path / "target").mkdir()
    with pytest.raises(InvalidInput, match="target"):
        files.link_or_copy(tmp_path / "source", tmp_path / "target")
    assert names(tmp_path) == ["source", "target"]


def test_a_source_that_is_absent_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        files.link_or_copy(tmp_path / "absent", tmp_path / "target")
    assert names(tmp_path) == []


def test_sha256_is_the_published_one_and_a_difference_is_an_integrity_error(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    # FIPS 180-2, appendix B.1
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert files.sha256_file(tmp_path / "abc") == expected
    files.verify_sha256(tmp_path / "abc", expected)
    (tmp_path / "abc").write_bytes(b"abd")
    with pytest.raises(IntegrityError, match=f"expected {expected}") as caught:
        files.verify_sha256(tmp_path / "abc", expected)
    assert str(tmp_path / "abc") in str(caught.value)


def test_sha256_of_more_than_one_piece(tmp_path: Path) -> None:
    data = os.urandom((1 << 20) + 7)
    (tmp_path / "x").write_bytes(data)
    assert files.sha256_file(tmp_path / "x") == hashlib.sha256(data).hexdigest()


def test_walk_is_sorted_and_yields_a_link_to_a_directory_without_entering_it(tmp_path: Path) -> None:
    for path in ("b/2", "b/1", "a/z/deep", "c"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    (tmp_path / "link").symlink_to("b")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "empty").mkdir()
    found = [path.relative_to(tmp_path).as_posix() for path in files.walk_files(tmp_path)]
    assert found == ["link", "loop", "c", "dangling", "a/z/deep", "b/1", "b/2"]


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "tree"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "file").write_bytes(b"12345")
    (root / "link").symlink_to("sub/file")
    yield root


def wait_for_clock(path: Path) -> None:
    """Return when a new file on this file system gets a later time than `path` has."""
    probe = path.parent / "probe"
    while True:
        probe.write_text("")
        later = probe.stat().st_ctime_ns > path.stat().st_ctime_ns
        probe.unlink()
        if later:
            return


def test_a_fingerprint_stays_when_nothing_changes(tree: Path) -> None:
    before = files.fingerprint(tree)
    (tree / "sub" / "file").read_bytes()
    assert files.fingerprint(tree) == before
    assert len(before) == 64


def test_a_fingerprint_notices_new_content_of_equal_size_and_restored_time(tree: Path) -> None:
    file = tree / "sub" / "file"
    facts = file.stat()
    before, alone = files.fingerprint(tree), files.fingerprint(file)
    wait_for_clock(file)
    with file.open("r+b") as stream:
        stream.write(b"54321")
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    after = file.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (
        facts.st_size,
        facts.st_mtime_ns,
        facts.st_ino,
    )
    assert files.fingerprint(tree) != before
    assert files.fingerprint(file) != alone


def test_a_fingerprint_notices_another_file_under_the_name(tree: Path) -> None:
    file = tree / "sub" / "file"
    before, facts = files.fingerprint(tree), file.stat()
    twin = tree.parent / "twin"
    twin.write_bytes(b"12345")
    os.utime(twin, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    twin.replace(file)
    assert files.fingerprint(tree) != before


def test_a_fingerprint_notices_mode_name_and_link(tree: Path) -> None:
    seen = {files.fingerprint(tree)}
    (tree / "sub" / "file").chmod(0o755)
    seen.add(files.fingerprint(tree))
    (tree / "more").write_text("")
    seen.add(files.fingerprint(tree))
    (tree / "more").rename(tree / "less")
    seen.add(files.fingerprint(tree))
    (tree / "less").unlink()
    seen.add(files.fingerprint(tree))
    (tree / "link").unlink()
    (tree / "link").symlink_to("sub/elif")
    seen.add(files.fingerprint(tree))
    # The fifth state has the names of the second, and its very facts.
    assert len(seen) == 5


def test_a_fingerprint_ignores_byte_code_and_says_absent(tree: Path) -> None:
    before = files.fingerprint(tree)
    (tree / "sub" / "__pycache__").mkdir()
    (tree / "sub" / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"x")
    assert files.fingerprint(tree) == before
    assert files.fingerprint(tree / "nowhere") == "absent"
    (tree / "dangling").symlink_to("nowhere")
    assert files.fingerprint(tree / "dangling") != "absent"


def test_digests_do_not_depend_on_where_the_tree_lies(tmp_path: Path) -> None:
    """A cache directory of that name above the tree says nothing about the tree."""
    for parent in ("plain", "__pycache__"):
        (tmp_path / parent / "tree").mkdir(parents=True)
        (tmp_path / parent / "tree" / "file").write_text("x")
    assert files.content_digest(tmp_path / "plain" / "tree") == files.content_digest(
        tmp_path / "__pycache__" / "tree"
    )
    tree = tmp_path / "__pycache__" / "tree"
    before = files.fingerprint(tree)
    (tree / "file").write_text("longer")
    assert files.fingerprint(tree) != before


def test_content_digest_is_about_content_only(tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tree, copy, symlinks=True)
    os.utime(copy / "sub" / "file", (1, 1))
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert files.content_digest(copy) == files.content_digest(tree)
    (copy / "sub" / "file").write_bytes(b"54321")
    assert files.content_digest(copy) != files.content_digest(tree)


def test_content_digest_of_trees_that_differ_in_where_a_link_ends_and_a_name_begins(tmp_path: Path) -> None:
    for name, (link, file) in {"one": ("b", "cd"), "two": ("bc", "d")}.items():
        root = tmp_path / name
        root.mkdir()
        (root / "a").symlink_to(link)
        (root / file).write_text("same")
    assert files.content_digest(tmp_path / "one") != files.content_digest(tmp_path / "two")


def test_content_digest_tells_a_link_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "a").write_text("abc")
    (tmp_path / "two" / "a").symlink_to(hashlib.sha256(b"abc").hexdigest())
    assert files.content_digest(tmp_path / "one") != files.content_digest(tmp_path / "two")


def test_room_is_asked_of_the_nearest_directory_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    class Usage:
        free = 2_500_000_000

    def usage(path: Path) -> type[Usage]:
        asked.append(path)
        return Usage

    monkeypatch.setattr(shutil, "disk_usage", usage)
    files.require_space(tmp_path / "not" / "yet", 2_500_000_000, purpose="the wheels")
    with pytest.raises(NoSpace, match=r"the wheels needs 2\.6 GB, 2\.5 GB are free") as caught:
        files.require_space(tmp_path / "not" / "yet", 2_600_000_000, purpose="the wheels")
    assert asked == [tmp_path, tmp_path]
    assert caught.value.where == str(tmp_path)


def test_a_directory_that_is_not_shipped_is_named() -> None:
    assert (files.shipped_directory("runtime") / "rocm").is_dir()
    with pytest.raises(InvalidInput, match="lacks its nonsense directory"):
        files.shipped_directory("nonsense")
