from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rocwright.errors import IntegrityError, InvalidInput, NoObject, NoSpace
from rocwright.store import layout
from rocwright.store.layout import ObjectHeaders, headers_for
from rocwright.store.objects.address import open_store
from rocwright.store.objects.local import LocalStore
from rocwright.system import files

BAD_KEYS = [
    "",
    "/a",
    "a/",
    "a//b",
    "../a",
    "a/../b",
    "a\\b",
    "a/./b",
    ".hidden",
    "a\0b",
    "a b",
    "a/b.partial",
    "C:/a",
]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_malformed_keys_are_refused_everywhere(tmp_path: Path, key: str) -> None:
    store = LocalStore(tmp_path / "store")
    (tmp_path / "source").write_bytes(b"x")
    for act in (
        lambda: store.put_file(tmp_path / "source", key),
        lambda: store.put_bytes(key, b"x"),
        lambda: store.read(key),
        lambda: store.exists(key),
        lambda: store.digest(key),
    ):
        with pytest.raises(InvalidInput, match="not a valid store key"):
            act()
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("key", BAD_KEYS)
def test_no_malformed_key_reaches_a_bucket(key: str) -> None:
    pytest.importorskip("obstore", reason="the extra `store` is not installed")
    store = open_store("memory://malformed")
    for act in (
        lambda: store.put_bytes(key, b"x"),
        lambda: store.read(key),
        lambda: store.read_range(key, 0, 1),
        lambda: store.exists(key),
        lambda: store.digest(key),
        lambda: store.delete(key),
    ):
        with pytest.raises(InvalidInput, match="not a valid store key"):
            act()
    assert store.list("") == ()


def test_a_key_is_created_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"one")
    two.write_bytes(b"two")
    store.put_file(one, "x/one.whl")
    store.put_file(one, "x/one.whl")
    with pytest.raises(IntegrityError, match="refusing to replace"):
        store.put_file(two, "x/one.whl")
    with pytest.raises(IntegrityError, match="refusing to replace"):
        store.put_bytes("x/one.whl", b"two")
    with pytest.raises(IntegrityError, match="refusing to replace"):
        store.put_bytes("y", b"two")
        store.copy("y", "x/one.whl")
    assert store.read("x/one.whl") == b"one"
    assert store.digest("x/one.whl") == hashlib.sha256(b"one").hexdigest()
    store.put_bytes("x/one.whl", b"three", overwrite=True)
    assert store.read("x/one.whl") == b"three"
    # Replacing the object must not reach the file that was uploaded.
    assert one.read_bytes() == b"one"


def test_a_link_is_stored_as_its_content(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"content")
    (tmp_path / "link").symlink_to("real")
    store = LocalStore(tmp_path / "store")
    store.put_file(tmp_path / "link", "a")
    assert not (tmp_path / "store" / "a").is_symlink()
    assert store.read("a") == b"content"


def test_list_and_absent_objects(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for key in ("b/2", "a/1", "b/1", "bb/3"):
        store.put_bytes(key, b"")
    (tmp_path / "b" / "9.partial").write_bytes(b"half")
    assert [one.key for one in store.list("")] == ["a/1", "b/1", "b/2", "bb/3"]
    assert [one.key for one in store.list("b/")] == ["b/1", "b/2"]
    assert store.list("none/") == ()
    with pytest.raises(InvalidInput, match="no object"):
        store.read("none")
    with pytest.raises(InvalidInput, match="does not exist"):
        store.put_file(tmp_path / "none", "x")


def test_layout_is_the_documented_one() -> None:
    assert layout.run_prefix("1234", "linux", "pytorch", "gfx94X-dcgpu") == "1234-linux/pytorch/gfx94X-dcgpu/"
    assert (
        layout.run_prefix("1", "windows", "python", "gfx94X-dcgpu-asan", external_repo="me-fork/")
        == "me-fork/1-windows/python/gfx94X-dcgpu-asan/"
    )
    assert layout.channel_prefix("v2-staging", "gfx110X-all") == "v2-staging/gfx110X-all/"
    assert layout.channel_prefix("v2", "gfx110X-all") == "v2/gfx110X-all/"


@pytest.mark.parametrize(
    ("run_id", "platform", "group", "repo"),
    [
        ("../1", "linux", "g", ""),
        ("1", "Linux", "g", ""),
        ("1", "linux", "a/b", ""),
        ("1", "linux", "..", ""),
        ("1", "linux", "", ""),
        ("1", "linux", "g", "no-slash"),
        ("1", "linux", "g", "../"),
    ],
)
def test_parts_that_could_leave_their_place_are_refused(
    run_id: str, platform: str, group: str, repo: str
) -> None:
    with pytest.raises(InvalidInput):
        layout.run_prefix(run_id, platform, "python", group, external_repo=repo)


def test_what_is_no_object_is_not_listed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_bytes("b/c/1", b"")
    for name in ("b/.hidden", "b/with space", "x.abc.partial", ".git/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "b" / "circle").symlink_to(tmp_path)
    (tmp_path / "circle").symlink_to(tmp_path / "b")
    (tmp_path / "file").symlink_to(tmp_path / "b" / "c" / "1")
    assert [one.key for one in store.list("")] == ["b/c/1"]
    assert store.folders("") == ("b",)
    # A key of another object is no folder of objects.
    assert store.list("b/c/1/") == () and store.folders("b/c/1/") == ()


def test_a_list_survives_what_others_remove_meanwhile(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    stop = threading.Event()

    def churn() -> None:
        # Not for ever: in memory, Linux before 6.11 goes on listing as long as names come.
        until = time.monotonic() + 20
        while not stop.is_set() and time.monotonic() < until:
            for number in range(20):
                store.put_bytes(f"churn/{number}/a", b"x", overwrite=True)
            for number in range(20):
                store.delete(f"churn/{number}/a")

    store.put_bytes("stays", b"")
    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(churn) for _ in range(2)]
        try:
            for _ in range(200):
                assert "stays" in [one.key for one in store.list("")]
                store.folders("churn/")
        finally:
            stop.set()
        for writer in writers:
            writer.result()
    assert [one.key for one in store.list("")] == ["stays"]
    assert [path.name for path in tmp_path.iterdir()] == ["stays"], "and no partial file stays behind"


def test_what_others_remove_while_it_is_read_is_absent_or_whole(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_bytes("churn/b", b"whole")
    # Another process: threads of this one would take turns, and rarely in the middle.
    link, gone = str(tmp_path / "churn/b"), str(tmp_path / "churn/a")
    churn = f"import os\nwhile True:\n    os.link({link!r}, {gone!r})\n    os.unlink({gone!r})\n"
    reads = (store.read, store.digest, lambda key: store.read_range(key, 0, 5))
    seen = set()
    whole = {b"whole", hashlib.sha256(b"whole").hexdigest()}
    wanted = whole | {"the store has no object churn/a"}
    # At least so often, and for as long as a busy machine needs to show both.
    end, number = time.monotonic() + 120, 0
    with subprocess.Popen([sys.executable, "-c", churn]) as other:
        try:
            while number < 30_000 or (seen != wanted and time.monotonic() < end):
                number += 1
                try:
                    seen.add(reads[number % 3]("churn/a"))
                except NoObject as absent:
                    seen.add(absent.what)
            assert other.poll() is None
        finally:
            other.kill()
    store.delete("churn/a")
    assert seen == wanted
    for act in (
        lambda: store.copy("churn/a", "c"),
        lambda: store.read("churn"),
        lambda: store.read("churn/b/c"),
    ):
        with pytest.raises(NoObject, match="no object churn"):
            act()


def test_an_object_that_others_remove_while_it_is_compared_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "store")
    there = tmp_path / "store/a/b.whl"
    source = tmp_path / "source"
    source.write_bytes(b"bytes")
    left = 0
    read = files.sha256_file

    def removed_just_before(path: Path) -> str:
        nonlocal left
        if path == there and left:
            left -= 1
            path.unlink()
        return read(path)

    def taken(one: Path, other: Path) -> None:
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(files, "sha256_file", removed_just_before)
    for put in (lambda: store.put_bytes("a/b.whl", b"bytes"), lambda: store.put_file(source, "a/b.whl")):
        put()
        left = 1
        put()
        assert (left, store.read("a/b.whl")) == (0, b"bytes")
    # Others always write it first, and have removed it again when we look.
    there.unlink()
    monkeypatch.setattr(
        os, "link", lambda one, other: (_ for _ in ()).throw(FileExistsError(errno.EEXIST, ""))
    )
    for put in (lambda: store.put_bytes("a/b.whl", b"bytes"), lambda: store.put_file(source, "a/b.whl")):
        with pytest.raises(IntegrityError, match="removed again and again"):
            put()
    assert list(there.parent.iterdir()) == [], "no partial file stays behind"


def test_a_source_that_others_remove_while_it_is_copied_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "store")
    source = tmp_path / "source"
    link, copy = os.link, shutil.copyfile

    def removed_just_before(act):
        def late(one: Path, other: Path) -> object:
            if not str(one).endswith(".partial"):
                Path(one).unlink()
            return act(one, other)

        return late

    monkeypatch.setattr(os, "link", removed_just_before(link))
    monkeypatch.setattr(shutil, "copyfile", removed_just_before(copy))
    store.put_bytes("a", b"bytes")
    with pytest.raises(NoObject, match="the store has no object a"):
        store.copy("a", "b")
    source.write_bytes(b"bytes")
    with pytest.raises(InvalidInput, match="source does not exist"):
        store.put_file(source, "b")
    assert [path.name for path in (tmp_path / "store").iterdir()] == []


def test_a_disk_that_fails_leaves_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path / "store")
    store.put_bytes("page", b"old", overwrite=True)
    source = tmp_path / "source"
    source.write_bytes(b"content")

    def no_link(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    def full(_: object, partial: Path) -> None:
        partial.write_bytes(b"con")
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "link", no_link)
    store.put_file(source, "copied")
    assert store.read("copied") == b"content"
    with pytest.raises(IntegrityError, match="refusing to replace"):
        store.put_bytes("copied", b"other")
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(NoSpace, match=r"no space left while writing a\.whl"):
        store.put_file(source, "x/a.whl")
    assert not store.exists("x/a.whl")
    assert [one.key for one in store.list("")] == ["copied", "page"]
    assert not list(tmp_path.rglob("*.partial"))


def test_leftovers_of_a_killed_upload_go_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "store")
    source = tmp_path / "a.whl"
    source.write_bytes(b"content")
    (tmp_path / "store" / "files").mkdir(parents=True)
    left = tmp_path / "store" / "files" / "a.whl.0123456789abcdef.partial"
    left.write_bytes(b"con")
    other = tmp_path / "store" / "files" / "b.whl.0123456789abcdef.partial"
    other.write_bytes(b"con")
    store.put_file(source, "files/a.whl")
    assert left.exists(), "somebody may still be writing it"
    store.delete("files/a.whl")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 25 * 3600)
    store.put_file(source, "files/a.whl")
    assert not left.exists() and other.exists()


def test_urls(tmp_path: Path) -> None:
    key = "files/ab/a-1!2+r.whl"
    assert LocalStore(tmp_path).url(key) == f"file://{tmp_path}/files/ab/a-1%212%2Br.whl"
    assert LocalStore(tmp_path).url("v2/fam/") == f"file://{tmp_path}/v2/fam/"
    served = LocalStore(tmp_path, public="https://wheels.example/rocm")
    assert served.url(key) == "https://wheels.example/rocm/files/ab/a-1%212%2Br.whl"
    assert served.url("v2/fam/") == "https://wheels.example/rocm/v2/fam/"


FOREVER = "public, max-age=31536000, immutable"
PAGE = "public, max-age=60"
HTML = "text/html; charset=utf-8"
SIMPLE = "application/vnd.pypi.simple.v1+json"


@pytest.mark.parametrize(
    ("key", "content_type", "cache_control"),
    [
        ("files/ab/a-1.whl", "application/zip", FOREVER),
        ("files/ab/a-1.whl.metadata", "text/plain; charset=utf-8", FOREVER),
        ("files/ab/a-1.tar.gz", "application/gzip", FOREVER),
        ("1-linux/blas_lib_gfx90a.tar.xz", "application/x-xz", FOREVER),
        ("sets/ab/manifest.json", "application/json", FOREVER),
        ("sets/ab/_statements/x.json", "application/json", FOREVER),
        ("sets/ab/torch/index.html", HTML, FOREVER),
        ("sets/ab/_json/torch/index.html", SIMPLE, FOREVER),
        ("sets/ab/pylock.gfx90a.toml", "application/toml", FOREVER),
        ("v2/fam/_log/7-abcdef.json", "application/json", FOREVER),
        ("v2/fam/torch/index.html", HTML, PAGE),
        ("v2/fam/_json/torch/index.html", SIMPLE, PAGE),
        ("v2/fam/_json/index.html", SIMPLE, PAGE),
        ("v2/fam/_flat/index.html", HTML, PAGE),
        ("v2/index.html", HTML, PAGE),
        ("index.html", HTML, PAGE),
        ("1-linux/python/fam/a-1.whl", "application/zip", FOREVER),
        ("1-linux/python/fam/index.html", HTML, PAGE),
        ("1-linux/blas_lib_gfx90a.tar.zst", "application/zstd", FOREVER),
        ("1-linux/some_file", "application/octet-stream", FOREVER),
        ("pins/weekly.json", "application/json", "no-cache"),
        ("_probe/ab/x", "application/octet-stream", "no-cache"),
        # A project that is named like a place of the store is a project.
        ("v2/fam/files/index.html", HTML, PAGE),
        ("v2/fam/sets/index.html", HTML, PAGE),
    ],
)
def test_what_clients_are_told(key: str, content_type: str, cache_control: str) -> None:
    assert headers_for(key, 60) == ObjectHeaders(content_type, cache_control)
