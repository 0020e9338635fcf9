"""What a folder does so that a power cut loses nothing that was acknowledged, and when it cannot.

That nothing is lost is shown in tests/real/store/test_power_loss.py.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from command_line import Run
from rocwright.errors import IntegrityError, InvalidInput, NoSpace, RocwrightError
from rocwright.store.objects.durable import together
from rocwright.store.objects.local import SYNC, LocalStore
from rocwright.system import durable

real_fsync = os.fsync


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store", sync=True)


def fails(number: int, *, of: Callable[[int], bool]) -> Callable[[int], None]:
    """An fsync that fails for what is open as a file or a folder of a kind."""

    def fsync(handle: int) -> None:
        if of(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        real_fsync(handle)

    return fsync


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [(errno.ENOSPC, NoSpace, "no space left"), (errno.EIO, InvalidInput, "the disk did not take")],
)
@pytest.mark.parametrize("of", [stat.S_ISREG, stat.S_ISDIR], ids=["file", "folder"])
def test_a_sync_that_fails_is_an_error(
    store: LocalStore,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kind: type[RocwrightError],
    said: str,
    of: Callable[[int], bool],
) -> None:
    monkeypatch.setattr(os, "fsync", fails(number, of=of))
    with pytest.raises(kind, match=said):
        store.put_bytes("a/b", b"x")
    with pytest.raises(kind, match=said), together():
        store.put_bytes("c/d", b"x")
    assert not list(store.root.rglob("*.partial"))
    if of is stat.S_ISREG:
        # No name ever stands for content that may not be there.
        assert store.list("") == ()


def test_a_publisher_whose_disk_fails_ends_with_an_error(
    rocwright: Run, make_wheel: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel = make_wheel("demo", "1.0")
    create = ("set", "create", wheel.parent, "--family", "f", "--no-install", "--store", tmp_path / "store")
    monkeypatch.setenv(SYNC, "1")
    monkeypatch.setattr(os, "fsync", fails(errno.EIO, of=stat.S_ISREG))
    failed = rocwright(*create)
    assert failed.code == InvalidInput.exit_code
    assert "the disk did not take demo-1.0-py3-none-any.whl" in failed.err
    monkeypatch.setenv(SYNC, "0")
    assert rocwright(*create).code == 0


def test_a_file_system_that_cannot_sync_folders_will_do(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", fails(errno.EINVAL, of=stat.S_ISDIR))
    store.put_bytes("a/b", b"x")
    assert store.read("a/b") == b"x"


LINUX = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks Linux which file is open")


def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is synced from now on."""
    names: list[str] = []

    def fsync(handle: int) -> None:
        names.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        real_fsync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return names


@LINUX
def test_a_put_syncs_content_and_every_folder_a_delete_the_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "new" / "store", sync=True)
    names = synced(monkeypatch)
    store.put_bytes("a/b/c", b"x")
    assert names[0].startswith("c.")
    assert sorted(names[1:]) == sorted(["b", "a", "store", "new", tmp_path.name])
    names.clear()
    # Whoever put it may have been killed before its folder was synced.
    store.put_bytes("a/b/c", b"x")
    assert {"c", "b", "a", "store"} <= set(names)
    names.clear()
    store.delete("a/b/c")
    assert "store" in names
    names.clear()
    # Nobody misses a lease.
    store.put_bytes("_leases/a.json", b"x")
    store.delete("_leases/a.json")
    assert names == []


@LINUX
@pytest.mark.parametrize(("said", "syncs"), [("0", False), ("1", True), ("no", True), (None, True)])
def test_only_zero_switches_it_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, syncs: bool
) -> None:
    if said is None:
        monkeypatch.delenv(SYNC)
    else:
        monkeypatch.setenv(SYNC, said)
    store = LocalStore(tmp_path / "store")
    names = synced(monkeypatch)
    store.put_bytes("a", b"x")
    assert bool(names) is syncs


def test_a_block_is_done_at_its_end_in_order(store: LocalStore) -> None:
    store.put_bytes("gone", b"x")
    with together():
        store.put_bytes("a", b"1")
        store.put_bytes("a", b"2", overwrite=True)
        store.delete("gone")
        # Others wait for it, or for its end.
        store.put_bytes("_leases/a.json", b"x")
        assert [one.key for one in store.list("")] == ["_leases/a.json", "gone"]
    assert store.read("a") == b"2"
    assert not store.exists("gone")


def test_what_a_block_asked_for_before_it_failed_is_done(store: LocalStore) -> None:
    with pytest.raises(KeyboardInterrupt), together():
        store.put_bytes("a", b"1")
        raise KeyboardInterrupt
    assert store.read("a") == b"1"
    assert not list(store.root.rglob("*.partial"))


def test_other_content_under_a_name_is_told_at_the_end_of_the_block(store: LocalStore) -> None:
    with pytest.raises(IntegrityError, match="refusing to replace"), together():
        store.put_bytes("a", b"1")
        store.put_bytes("a", b"2")
    assert store.read("a") == b"1"


# -- file systems without hard links, such as exFAT


def no_link(source: object, target: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.mark.skipif(os.name == "nt", reason="renames there never replace")
def test_without_links_the_first_of_two_writers_wins(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", no_link)
    put_both = [b"one", b"two"]

    def put(key: str, data: bytes) -> str:
        try:
            store.put_bytes(key, data)
        except IntegrityError:
            return "refused"
        return data.decode()

    with ThreadPoolExecutor(2) as threads:
        for number in range(30):
            key = f"key-{number}"
            ends = list(threads.map(put, [key, key], put_both))
            [winner] = set(ends) - {"refused"}
            assert ends.count("refused") == 1
            assert store.read(key) == winner.encode()
    assert not list(store.root.rglob("*.partial"))


@pytest.mark.skipif(os.name == "nt", reason="renames there never replace")
def test_a_file_system_on_which_writers_replace_each_other_is_refused(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(source: Path, target: Path) -> bool:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "link", no_link)
    monkeypatch.setattr(durable, "rename_new", cannot)
    with pytest.raises(InvalidInput, match="this file system has no hard links"):
        store.put_bytes("a", b"x")
    assert store.list("") == ()
    # Pages are there to be replaced.
    store.put_bytes("a", b"x", overwrite=True)
    assert store.read("a") == b"x"
