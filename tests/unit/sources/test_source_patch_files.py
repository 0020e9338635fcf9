"""Patch files as they are read, before anything is checked out: what is no patch is named."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

import trees
from rocwright.errors import InvalidPatch, UsageError
from rocwright.sources.lock import LockedSource
from rocwright.sources.patch_files import read_patches
from rocwright.sources.prepare import prepare

# A plain mail, as somebody may write it by hand.
README = """\
From: Bob <bob@example.org>
Date: Wed, 15 Nov 2023 12:00:00 +0100
Subject: [PATCH 1/2] [docs] Say two

Because one is not enough.
---
diff --git a/readme b/readme
--- a/readme
+++ b/readme
@@ -1 +1 @@
-one
+two
"""


def write(patches: Path, name: str, text: str | bytes) -> Path:
    return trees.write(patches / "pytorch" / name, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        (README[README.index("diff") :], "lacks From and Date"),
        (README.replace("Date:", "X-Date:"), "lacks Date"),
        (README[: README.index("diff")], "changes nothing"),
        (README + "From 1234 Mon Sep 17 00:00:00 2001\nFrom: B <b@x>\n\nbody\n", "lacks Date"),
    ],
    ids=["empty", "blank", "plain diff", "no date", "no diff", "second of two"],
)
def test_a_file_that_is_no_patch_stops_before_anything(
    published: LockedSource, tmp_path: Path, patches: Path, text: str, said: str
) -> None:
    wrong = write(patches, "wrong.patch", text)
    with pytest.raises(InvalidPatch, match=said) as caught:
        prepare(published, tmp_path / "none", patches=patches)
    assert str(wrong) in str(caught.value)
    assert not (tmp_path / "none").exists()


def test_patches_beside_the_folders_are_refused(patches: Path) -> None:
    write(patches, "../1.patch", README)
    with pytest.raises(UsageError, match="patches outside of any folder"):
        read_patches(patches, "pytorch")
    with pytest.raises(UsageError, match="no directory"):
        read_patches(patches / "none", "pytorch")
    (patches / "1.patch").unlink()
    assert read_patches(patches, "pytorch") == ()


def test_a_patch_that_cannot_be_read_is_named(patches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = write(patches, "closed.patch", README)

    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    # A missing permission would not stop root.
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InvalidPatch, match=r"cannot read closed\.patch: Permission denied") as caught:
        read_patches(patches, "pytorch")
    assert caught.value.where == str(closed)
