"""How files were left: believed by their facts, decided by their content, and by whose code."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from rocwright.engine.changes import leave, room_digest, still_left
from rocwright.system.files import stat_files


def test_a_file_left_alone_is_not_read_again(tmp_path: Path) -> None:
    file = tmp_path / "a.whl"
    file.write_bytes(b"wheel")
    left = leave(file, sha256="known to whoever wrote it")
    assert left.sha256 == "known to whoever wrote it"
    assert still_left(file, left) is left
    assert leave(file).sha256 == hashlib.sha256(b"wheel").hexdigest()


def test_other_facts_with_the_same_content_are_noted(tmp_path: Path) -> None:
    file = tmp_path / "a.whl"
    file.write_bytes(b"wheel")
    left = leave(file)
    os.utime(file, (1, 1))
    again = still_left(file, left)
    assert again is not None
    assert again != left
    assert again.sha256 == left.sha256
    assert still_left(file, again) is again


def test_other_content_or_none_is_not_as_it_was_left(tmp_path: Path) -> None:
    file = tmp_path / "a.whl"
    file.write_bytes(b"wheel")
    left = leave(file)
    time.sleep(0.02)
    file.write_bytes(b"whee1")
    assert still_left(file, left) is None
    file.unlink()
    assert still_left(file, left) is None


def test_a_tree_has_only_its_facts(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").write_text("x")
    left = leave(tmp_path / "tree")
    assert left.sha256 is None
    assert still_left(tmp_path / "tree", left) is left
    os.utime(tmp_path / "tree/file", (1, 1))
    assert still_left(tmp_path / "tree", left) is None


def test_facts_of_every_file_and_link_in_order(tmp_path: Path) -> None:
    for path in ("b/file", "a-file", "a/deep/file"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    (tmp_path / "a/link").symlink_to("nowhere")
    (tmp_path / "directory").symlink_to("b")
    (tmp_path / "empty").mkdir()
    found = stat_files(tmp_path)
    assert [name for name, _ in found] == ["a-file", "a/deep/file", "a/link", "b/file", "directory"]
    assert dict(found)["a/deep/file"].st_size == len("a/deep/file")
    # One file alone goes by its own name.
    assert [name for name, _ in stat_files(tmp_path / "b/file")] == ["file"]


@pytest.mark.parametrize("room", ["wheel", "sdk/intake/fetch.py", "errors"])
def test_a_rooms_digest_is_of_its_sources(room: str) -> None:
    assert len(room_digest(room)) == 64
    assert room_digest(room) != room_digest("model")
