from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rocwright.errors import IntegrityError, InvalidInput
from rocwright.store import layout
from rocwright.store.objects import LocalStore

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
        with pytest.raises(InvalidInput, match="no valid key"):
            act()
    assert not (tmp_path / "store").exists()


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
    # Replacing the object must not reach through the hard link into the file that was uploaded.
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
    assert store.list("") == ("a/1", "b/1", "b/2", "bb/3")
    assert store.list("b/") == ("b/1", "b/2")
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
    assert layout.staging_prefix("gfx110X-all") == "v2-staging/gfx110X-all/"
    assert layout.release_prefix("gfx110X-all") == "v2/gfx110X-all/"


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
