"""Trees as objects, the same bytes for the same tree; results without directories of one machine."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
import zstandard

from rocwright.errors import InvalidArchive, InvalidInput
from rocwright.pipeline.cells.inputs import local_form, portable
from rocwright.pipeline.cells.outputs import pack_tree, unpack_tree
from unit.pipeline.cells.toy import machine


def make(root: Path, *, time: int) -> Path:
    (root / "bin").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "bin" / "tool").write_text("#!/bin/sh\n")
    (root / "bin" / "tool").chmod(0o750)
    (root / "bin" / "alias").symlink_to("tool")
    (root / "name with spaces, ü").write_text("text")
    for path in root.rglob("*"):
        os.utime(path, (time, time), follow_symlinks=False)
    return root


def test_equal_trees_are_equal_bytes_and_come_back(tmp_path: Path) -> None:
    one, two = tmp_path / "one.tar.zst", tmp_path / "two.tar.zst"
    pack_tree(make(tmp_path / "a", time=1_000_000), one, threads=1)
    pack_tree(make(tmp_path / "b", time=1_700_000_000), two, threads=3)
    assert one.read_bytes() == two.read_bytes()
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "older").write_text("goes")
    unpack_tree(one, tmp_path / "back")
    names = sorted(path.relative_to(tmp_path / "back").as_posix() for path in (tmp_path / "back").rglob("*"))
    assert names == ["bin", "bin/alias", "bin/tool", "empty", "name with spaces, ü"]
    assert (tmp_path / "back/bin/alias").readlink() == Path("tool")
    assert (tmp_path / "back/bin/tool").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "a/../../../x"])
def test_a_link_out_of_the_tree_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "link").symlink_to(target)
    with pytest.raises(InvalidInput, match="out of the tree"):
        pack_tree(tmp_path / "tree", tmp_path / "x.tar.zst", threads=1)
    assert not (tmp_path / "x.tar.zst").exists()


@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [("../x", tarfile.REGTYPE, ""), ("/x", tarfile.REGTYPE, ""), ("x", tarfile.SYMTYPE, "../y")],
)
def test_a_packed_tree_that_would_write_elsewhere_is_refused(
    tmp_path: Path, name: str, kind: bytes, target: str
) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        archive.addfile(info)
    packed = tmp_path / "bad.tar.zst"
    packed.write_bytes(zstandard.ZstdCompressor().compress(buffer.getvalue()))
    with pytest.raises(InvalidArchive):
        unpack_tree(packed, tmp_path / "in" / "root")
    assert [path.name for path in tmp_path.iterdir() if path.name != "in"] == ["bad.tar.zst"]
    assert list((tmp_path / "in").iterdir()) == []


def test_results_name_no_directory_of_a_machine_and_get_those_of_another(tmp_path: Path) -> None:
    here, there = (machine(tmp_path, name, tmp_path / "store") for name in ("here", "there"))
    value = {
        "file": f"{here.work}/a/b",
        "page": f"{here.work.as_uri()}/index.html",
        "option": f"--find-links={here.work}",
        "cache": [str(here.cache)],
        "sibling": f"{here.work}-old/x {here.work}2",
    }
    written = portable(value, here)
    assert written == {
        "file": "${work}/a/b",
        "page": "file://${work}/index.html",
        "option": "--find-links=${work}",
        "cache": ["${cache}"],
        "sibling": f"{here.work}-old/x {here.work}2",
    }
    assert local_form(written, there) == {
        "file": f"{there.work}/a/b",
        "page": f"{there.work.as_uri()}/index.html",
        "option": f"--find-links={there.work}",
        "cache": [str(there.cache)],
        "sibling": value["sibling"],
    }
