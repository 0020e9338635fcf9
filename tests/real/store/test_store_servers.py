"""The promises of `ObjectStore`, on every kind of store: the same tests on all, real servers among them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from real.store.servers import MIB, WHEEL, S3Server, filled, keys, sha
from rocwright.errors import IntegrityError, InvalidInput
from rocwright.store.objects.address import open_store
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.objects.remote import RemoteStore
from rocwright.store.objects.serve import serving


def test_an_object_goes_in_and_comes_out(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"0123456789")
    store.put_file(tmp_path / "a.whl", WHEEL)
    assert store.read(WHEEL) == b"0123456789"
    assert store.digest(WHEEL) == sha(b"0123456789")
    assert store.exists(WHEEL)
    stored = store.stat(WHEEL)
    assert stored is not None and (stored.key, stored.size) == (WHEEL, 10)
    assert abs(datetime.now(timezone.utc) - stored.modified) < timedelta(minutes=5)
    assert store.list("") == store.list("files/") == store.list("files/ab/")
    assert [(one.key, one.size) for one in store.list("")] == [(WHEEL, 10)]


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, 3, b"012"),
        (3, 4, b"3456"),
        (8, 50, b"89"),
        (10, 1, b""),
        (99, 5, b""),
        (2, 0, b""),
        (0, 10, b"0123456789"),
    ],
)
def test_parts_of_an_object(store: ObjectStore, start: int, length: int, expected: bytes) -> None:
    store.put_bytes("a", b"0123456789")
    assert store.read_range("a", start, length) == expected


def test_an_empty_object_is_one(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    store.put_file(tmp_path / "empty", "e")
    store.put_bytes("f", b"")
    assert store.read("e") == b"" and store.digest("f") == sha(b"")
    assert store.read_range("e", 0, 10) == b""
    assert [one.size for one in store.list("")] == [0, 0]


def test_what_is_absent(store: ObjectStore, tmp_path: Path) -> None:
    store.put_bytes("folder/a", b"")
    for act in (
        lambda: store.read("none"),
        lambda: store.read_range("none", 0, 1),
        lambda: store.digest("none"),
        lambda: store.copy("none", "b"),
        # A prefix is no object.
        lambda: store.read("folder"),
    ):
        with pytest.raises(InvalidInput, match=r"the store has no object (none|folder)"):
            act()
    assert store.stat("none") is None and not store.exists("none") and not store.exists("folder")
    assert store.list("none/") == () and store.folders("none/") == ()
    store.delete("none")
    with pytest.raises(InvalidInput, match="does not exist"):
        store.put_file(tmp_path / "none", "b")
    assert keys(store) == ["folder/a"]


def test_a_key_is_created_once_whatever_the_server_honours(store: ObjectStore, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"one")
    two.write_bytes(b"two")
    store.put_file(one, "x")
    store.put_bytes("y", b"two")
    # The same again is fine.
    store.put_file(one, "x")
    store.put_bytes("x", b"one")
    store.copy("x", "x")
    store.copy("y", "z")
    store.copy("y", "z")
    for act in (
        lambda: store.put_file(two, "x"),
        lambda: store.put_bytes("x", b"two"),
        lambda: store.put_bytes("x", b"longer"),
        lambda: store.copy("y", "x"),
    ):
        with pytest.raises(
            IntegrityError, match=r"x is in the store with sha256 [0-9a-f]{64}; refusing to replace"
        ):
            act()
    assert (store.read("x"), store.read("z")) == (b"one", b"two")


def test_a_page_is_replaced_at_once(store: ObjectStore) -> None:
    store.put_bytes("v2/f/index.html", b"old", overwrite=True)
    store.put_bytes("v2/f/index.html", b"the new one", overwrite=True)
    assert store.read("v2/f/index.html") == b"the new one"
    assert store.digest("v2/f/index.html") == sha(b"the new one")


def test_the_source_of_an_object_is_not_reached_through_it(store: ObjectStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"mine")
    store.put_file(source, "x")
    store.put_bytes("x", b"other", overwrite=True)
    store.delete("x")
    assert source.read_bytes() == b"mine"


def test_lists_are_in_order_of_whole_keys(store: ObjectStore) -> None:
    # By whole keys: "-" and "." sort before "/", letters behind it.
    put = ["b/2", "a/1", "b-c/1", "b/1", "bb/3", "b", "b/sub/deep/4", "b.d", "_log/7"]
    for key in put:
        if key == "b":
            # A folder cannot hold a file and a folder of one name, so no key may need it.
            continue
        store.put_bytes(key, key.encode())
    assert keys(store) == ["_log/7", "a/1", "b-c/1", "b.d", "b/1", "b/2", "b/sub/deep/4", "bb/3"]
    assert keys(store, "b/") == ["b/1", "b/2", "b/sub/deep/4"]
    assert keys(store, "b/sub/") == ["b/sub/deep/4"]
    assert store.folders("") == ("_log", "a", "b", "b-c", "bb")
    assert store.folders("b/") == ("sub",)
    assert store.folders("b/sub/deep/") == ()


def test_300_objects_and_their_removal(store: ObjectStore) -> None:
    names = [f"many/{number:03d}+x/page" for number in range(300)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put_bytes(key, key.encode()), reversed(names)))
    assert keys(store, "many/") == names
    assert len(store.folders("many/")) == 300
    for key in names[:150]:
        store.delete(key)
    assert keys(store) == names[150:]
    for key in names[150:]:
        store.delete(key)
        store.delete(key)
    assert store.list("") == () and store.folders("") == ()


def test_names_that_only_look_alike(store: ObjectStore) -> None:
    # A plus sign, %2B, a space and an exclamation mark are four different things.
    names = ["a+b.whl", "a!b.whl", "a-b.whl", "A+b.whl", "a+b.whl.metadata"]
    for name in names:
        store.put_bytes(f"files/{name}", name.encode())
    assert keys(store, "files/") == sorted(f"files/{name}" for name in names)
    assert [store.read(f"files/{name}").decode() for name in names] == names
    assert "a%2Bb.whl" in store.url("files/a+b.whl")


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "../a", "a/../b", "a\\b", ".a", "a b", "é", "a.partial", "a?b"]
)
def test_malformed_keys_are_refused_before_anything_is_asked(
    store: ObjectStore, tmp_path: Path, key: str
) -> None:
    (tmp_path / "source").write_bytes(b"x")
    for act in (
        lambda: store.put_file(tmp_path / "source", key),
        lambda: store.put_bytes(key, b"x", overwrite=True),
        lambda: store.copy(key, "b"),
        lambda: store.read(key),
        lambda: store.read_range(key, 0, 1),
        lambda: store.stat(key),
        lambda: store.exists(key),
        lambda: store.delete(key),
        lambda: store.digest(key),
    ):
        with pytest.raises(InvalidInput, match="not a valid store key"):
            act()
    assert store.list("") == ()


def test_two_writers_of_one_key_and_one_of_them_wins(
    store: ObjectStore, request: pytest.FixtureRequest
) -> None:
    """Equal bytes are fine for all; of different ones one stays, whole."""
    for number in range(10):
        start = threading.Barrier(4)

        def same(_: int, key: str = f"same/{number}", start: threading.Barrier = start) -> None:
            start.wait()
            store.put_bytes(key, b"same" * 5000)

        def other(
            writer: int, key: str = f"other/{number}", start: threading.Barrier = start
        ) -> bytes | None:
            start.wait()
            data = str(writer).encode() * (4000 + writer)
            try:
                store.put_bytes(key, data)
            except IntegrityError:
                return None
            return data

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(same, range(4)))
            won = [data for data in pool.map(other, range(4)) if data is not None]
        assert store.read(f"same/{number}") == b"same" * 5000
        kept = store.read(f"other/{number}")
        assert kept in {str(writer).encode() * (4000 + writer) for writer in range(4)}
        if request.node.callspec.params["store"] != "juicefs":
            # Where creation is conditional, exactly one is told that it wrote; a log rests on that nowhere.
            assert won == [kept]


def test_readers_see_an_old_page_or_the_new_one_while_it_is_replaced(store: ObjectStore) -> None:
    pages = [str(number).encode() * 50_000 for number in range(10)]
    store.put_bytes("page", pages[0], overwrite=True)
    done = threading.Event()

    def write() -> None:
        for page in pages:
            store.put_bytes("page", page, overwrite=True)
        done.set()

    with ThreadPoolExecutor(2) as pool:
        writer = pool.submit(write)
        seen = 0
        while not done.is_set() or seen == 0:
            if writer.done():
                writer.result()
            assert store.read("page") in pages
            seen += 1


def test_64_mib_in_parts_in_bounded_memory(store: ObjectStore, tmp_path: Path) -> None:
    digest = filled(tmp_path / "large.whl", 64)
    store.put_file(tmp_path / "large.whl", "files/large.whl")
    assert store.digest("files/large.whl") == digest
    store.copy("files/large.whl", "files/copy.whl")
    assert store.digest("files/copy.whl") == digest
    assert store.read_range("files/copy.whl", 64 * MIB - 7, 100) == store.read("files/large.whl")[-7:]
    with (tmp_path / "large.whl").open("rb+") as stream:
        changed = tmp_path / "changed.whl"
        changed.write_bytes(stream.read())
    with changed.open("rb+") as stream:
        stream.seek(63 * MIB)
        stream.write(b"x")
    with pytest.raises(IntegrityError, match="refusing to replace"):
        store.put_file(changed, "files/large.whl")
    assert store.digest("files/large.whl") == digest


@pytest.mark.parametrize("kind", ["memory", "juicefs", "moto"])
def test_headers_are_kept_on_put_in_parts_and_on_copy(
    kind: str, addresses: Callable[[str], str], tmp_path: Path
) -> None:
    store = open_store(addresses(kind), max_age=77)
    assert isinstance(store, RemoteStore)
    digest = filled(tmp_path / "large.whl", 20)
    store.put_file(tmp_path / "large.whl", "files/l.whl")
    store.put_bytes("files/s.whl.metadata", b"m")
    store.copy("files/l.whl", "run/l.whl")
    store.copy("files/s.whl.metadata", "run/s.whl.metadata")
    store.put_bytes("v2/f/_json/torch/index.html", b"{}", overwrite=True)
    store.put_bytes("v2/f/torch/index.html", b"<>", overwrite=True)
    forever = "public, max-age=31536000, immutable"
    wheel = {"Content-Type": "application/zip", "Cache-Control": forever, "sha256": digest}
    text = {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": forever, "sha256": sha(b"m")}
    page = {"Cache-Control": "public, max-age=77"}
    assert store.headers("files/l.whl") == store.headers("run/l.whl") == wheel
    assert store.headers("files/s.whl.metadata") == store.headers("run/s.whl.metadata") == text
    assert store.headers("v2/f/_json/torch/index.html") == {
        **page,
        "Content-Type": "application/vnd.pypi.simple.v1+json",
        "sha256": sha(b"{}"),
    }
    assert store.headers("v2/f/torch/index.html") == {
        **page,
        "Content-Type": "text/html; charset=utf-8",
        "sha256": sha(b"<>"),
    }


def test_every_store_can_be_served(store: ObjectStore, tmp_path: Path) -> None:
    digest = filled(tmp_path / "large.whl", 9)
    store.put_file(tmp_path / "large.whl", "files/ab/a-1+r.whl")
    with serving(store) as base:
        with urllib.request.urlopen(f"{base}files/ab/a-1%2Br.whl", timeout=30) as answer:
            assert sha(answer.read()) == digest
            assert answer.headers["Content-Type"] == "application/zip"
        asked = urllib.request.Request(f"{base}files/ab/a-1%2Br.whl", headers={"Range": f"bytes={5 * MIB}-"})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            assert answer.status == 206
            assert answer.read() == (tmp_path / "large.whl").read_bytes()[5 * MIB :]


def test_5_gib_in_a_folder_are_served_beyond_4_gib(tmp_path: Path) -> None:
    large = tmp_path / "large.whl"
    size = 5 << 30
    with large.open("wb") as stream:
        stream.truncate(size - 4)
        stream.seek(size - 4)
        stream.write(b"tail")
    store = LocalStore(tmp_path / "store")
    store.put_file(large, "files/large.whl")
    store.copy("files/large.whl", "files/again.whl")
    # What comes in is copied, so nobody can change it behind the store's back; what is inside is linked.
    assert (tmp_path / "store/files/large.whl").stat().st_nlink == 2 and large.stat().st_nlink == 1
    assert store.read_range("files/large.whl", size - 4, 100) == b"tail"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serving(store) as base:
        for header, expected, where in [
            (f"bytes={size - 4}-", b"tail", f"bytes {size - 4}-{size - 1}/{size}"),
            ("bytes=-6", b"\0\0tail", f"bytes {size - 6}-{size - 1}/{size}"),
            (
                f"bytes={(4 << 30) + 1}-{(4 << 30) + 3}",
                b"\0\0\0",
                f"bytes {(4 << 30) + 1}-{(4 << 30) + 3}/{size}",
            ),
        ]:
            asked = urllib.request.Request(f"{base}files/large.whl", headers={"Range": header})
            with urllib.request.urlopen(asked, timeout=30) as answer:
                assert (answer.status, answer.headers["Content-Range"]) == (206, where)
                assert answer.read() == expected
        whole = 0
        with urllib.request.urlopen(f"{base}files/large.whl", timeout=60) as answer:
            assert answer.headers["Content-Length"] == str(size)
            while piece := answer.read(8 * MIB):
                whole += len(piece)
        assert whole == size
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024, "KiB"


def test_5_gib_on_a_real_server_hold_a_few_parts_in_memory(juicefs: S3Server, tmp_path: Path) -> None:
    large, size, place = tmp_path / "large.whl", 5 << 30, (9 << 29) + 12345
    island = os.urandom(3 * MIB)
    with large.open("wb") as stream:
        stream.truncate(size)
        stream.seek(place)
        stream.write(island)
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from rocwright.store.objects.address import open_store\n"
        "store = open_store(sys.argv[1])\n"
        "store.put_bytes('warm', b'')\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "store.put_file(Path(sys.argv[2]), 'files/large.whl')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    bucket = juicefs.new_bucket()
    done = subprocess.run(
        [sys.executable, "-c", code, f"s3://{bucket}", str(large)],
        env={**os.environ, **juicefs.environment()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 100 * 1024, "KiB"
    head = juicefs.client().head_object(Bucket=bucket, Key="files/large.whl")
    assert (head["ContentLength"], head["ContentType"]) == (size, "application/zip")
    asked = f"bytes={place - 1}-{place + len(island)}"
    part = juicefs.client().get_object(Bucket=bucket, Key="files/large.whl", Range=asked)["Body"].read()
    assert part == b"\0" + island + b"\0"
