"""Patches: the same on the same tree give the same commits, one that does not fit changes nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from test_source_patch_files import README, write

from git_repos import Family, commit, git
from rocwright.errors import InvalidPatch, RocwrightError, UnsavedWork, UsageError
from rocwright.sources.aside import Work
from rocwright.sources.lock import LockedSource
from rocwright.sources.patch_files import save_patches
from rocwright.sources.prepare import Prepared, prepare

# Every test has a hipified checkout at `place`.
# Many processes of git: seconds each.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("hipified")]
FMT, NEST, INNER = "third_party/fmt lib", "third_party/nest", "third_party/nest/deep/inner"

# A plain mail, as somebody may write it by hand.
HIPIFIED = """\
From: Bob <bob@example.org>
Date: Wed, 15 Nov 2023 12:01:00 +0100
Subject: [PATCH] Launch differently

---
diff --git a/hip/a.hip b/hip/a.hip
--- a/hip/a.hip
+++ b/hip/a.hip
@@ -1 +1 @@
-hip a hipLaunch(1
+hip a launch(1
"""


def state(place: Path) -> tuple[str, ...]:
    words = (
        ("rev-parse", "HEAD"),
        ("status", "--porcelain", "--untracked-files=all"),
        ("tag",),
        ("diff", "HEAD"),
    )
    return tuple(git(place / path, *each) for path in ("", FMT, NEST, INNER) for each in words)


def bare(locked: LockedSource) -> LockedSource:
    """The same without hipify."""
    return msgspec.structs.replace(locked, hipify=False)


def by_hand(place: Path, files: dict[str, str | None], message: str) -> str:
    """A local commit of the user's."""
    return commit(place, files, message)


# --- applying ---


def test_patches_lie_on_top_of_hipify_with_their_authors(
    published: LockedSource, place: Path, patches: Path
) -> None:
    write(patches, "0001-two.patch", README)
    write(patches, "0002-launch.patch", HIPIFIED)
    write(patches, "README.md", "not a patch\n")
    done = prepare(published, place, patches=patches)
    assert done.patched is not None and done.hipified is not None
    assert git(place, "log", "--format=%s|%an|%ai|%cn|%ci").splitlines()[:3] == [
        "Launch differently|Bob|2023-11-15 12:01:00 +0100|rocwright|2023-11-15 12:01:00 +0100",
        "[docs] Say two|Bob|2023-11-15 12:00:00 +0100|rocwright|2023-11-15 12:00:00 +0100",
        "DO NOT SUBMIT: HIPIFY|rocwright|2023-11-14 22:13:20 +0000|rocwright|2023-11-14 22:13:20 +0000",
    ]
    assert git(place, "rev-parse", "HEAD") == done.patched.commit == done.outcome.tip
    assert git(place, "rev-parse", "HEAD~2") == git(place, "rev-parse", "THEROCK_HIPIFY_DIFFBASE")
    assert (place / "readme").read_text() == "two\n"
    assert (place / "hip/a.hip").read_text() == "hip a launch(1\n"
    assert git(place, "status", "--porcelain") == ""
    assert [patch.subject for patch in done.patched.patches] == ["[docs] Say two", "Launch differently"]


def test_again_touches_nothing_and_elsewhere_gives_the_same_ids(
    published: LockedSource, place: Path, patches: Path, tmp_path: Path
) -> None:
    write(patches, "1.patch", README)
    first = prepare(published, place, patches=patches)
    before = (place / "readme").stat()
    again = prepare(published, place, patches=patches)
    assert again.patched is not None and not again.patched.changed
    assert ((place / "readme").stat().st_mtime_ns, (place / "readme").stat().st_ino) == (
        before.st_mtime_ns,
        before.st_ino,
    )
    assert prepare(published, tmp_path / "other/pytorch", patches=patches).outcome == first.outcome


def test_without_patches_ours_are_taken_away_but_not_a_users_commit(
    published: LockedSource, place: Path, patches: Path
) -> None:
    write(patches, "1.patch", README)
    prepare(published, place, patches=patches)
    done = prepare(published, place)
    assert done.patched is None
    assert git(place, "rev-parse", "HEAD") == git(place, "rev-parse", "THEROCK_HIPIFY_DIFFBASE")
    assert (place / "readme").read_text() == "one\n"
    prepare(published, place, patches=patches)
    by_hand(place, {"readme": "three\n"}, "mine, on top of a patch")
    with pytest.raises(UnsavedWork, match="1 commit"):
        prepare(published, place)
    assert (place / "readme").read_text() == "three\n"


def test_another_list_replaces_the_one_before(published: LockedSource, place: Path, patches: Path) -> None:
    first = write(patches, "1.patch", README)
    prepare(published, place, patches=patches)
    first.unlink()
    write(patches, "2.patch", HIPIFIED)
    prepare(published, place, patches=patches)
    assert git(place, "log", "--format=%s").splitlines()[:2] == [
        "Launch differently",
        "DO NOT SUBMIT: HIPIFY",
    ]
    assert (place / "readme").read_text() == "one\n"


def test_head_can_stay_upstream_under_patches(published: LockedSource, place: Path, patches: Path) -> None:
    write(patches, "1.patch", README)
    write(patches, f"{NEST}/1.patch", README.replace("readme", "nest.txt").replace("one", "nest"))
    patched = prepare(published, place, patches=patches, head="upstream")
    assert git(place, "rev-parse", "HEAD") == published.commit
    assert (place / "readme").read_text() == "two\n"
    assert git(place / NEST, "rev-parse", "HEAD") == git(place, "ls-tree", published.commit, NEST).split()[2]
    assert (place / NEST / "nest.txt").read_text() == "two\n"
    assert [git(place / path, "diff", "--name-only") for path in ("", NEST)] == ["", ""]
    assert prepare(published, place, patches=patches).outcome == patched.outcome
    assert git(place, "rev-parse", "HEAD") == patched.outcome.tip


def test_patches_on_a_project_that_is_not_hipified(
    published: LockedSource, place: Path, patches: Path
) -> None:
    write(patches, "1.patch", README)
    prepare(bare(published), place, patches=patches)
    assert git(place, "log", "--format=%s").splitlines()[:2] == ["[docs] Say two", "v1"]
    assert git(place, "rev-parse", "HEAD~1") == published.commit


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (README.replace("-one", "-zero"), ["readme, hunk at line 1"]),
        (README.replace("readme", "no/such/file"), ["no/such/file: does not exist in index"]),
        (README.replace("one\n", "two\n").replace("+two", "+one"), ["is in the sources already"]),
        (README.replace("-one\n+two\n", "-one\n"), ["corrupt patch"]),
        (README.replace("a/readme", "a/.git/config").replace("b/readme", "b/.git/config"), [".git/config"]),
        (README.replace("a/readme", "a/../out").replace("b/readme", "b/../out"), ["../out"]),
    ],
    ids=["conflict", "absent", "applied", "cut off", "git directory", "outside"],
)
def test_a_patch_that_does_not_fit_changes_nothing(
    published: LockedSource, place: Path, patches: Path, text: str, said: list[str]
) -> None:
    prepare(published, place)
    before = state(place)
    write(patches, "1.patch", HIPIFIED)
    wrong = write(patches, "2-wrong.patch", text)
    with pytest.raises(InvalidPatch) as caught:
        prepare(published, place, patches=patches)
    for part in [*said, "2-wrong.patch", str(wrong), "the checkout is as it was"]:
        assert part in str(caught.value)
    assert state(place) == before
    assert not (place / ".git/rebase-apply").exists()


def test_a_patch_for_a_submodule_that_is_not_there(
    published: LockedSource, place: Path, patches: Path
) -> None:
    write(patches, "third_party/none/1.patch", README)
    with pytest.raises(InvalidPatch, match=r"for third_party/none, but .* no such submodule") as caught:
        prepare(published, place, patches=patches)
    assert FMT in str(caught.value)


# --- saving, and the way back ---


def user_commits(place: Path) -> None:
    """Two commits of everything a patch may carry, and one in a submodule."""
    (place / "blob.bin").write_bytes(bytes(range(256)) * 4)
    (place / "dos.txt").write_bytes(b"a\r\nb\r\nc\r\n")
    (place / "latin1.txt").write_bytes(b"caf\xe9\n")
    by_hand(
        place,
        {"notes/deep name.txt": "new\n", "hip/secret.hip.in": "x\n"},
        "[wip] add: many / kinds\n\nAnd say why.",
    )
    (place / "dos.txt").write_bytes(b"a\r\nB\r\nc\r\n")
    (place / "latin1.txt").write_bytes(b"th\xe9\n")
    (place / "blob.bin").write_bytes(bytes(reversed(range(256))) * 4)
    (place / "build").mkdir()
    (place / "build/ignored.txt").write_text("kept though ignored\n")
    git(place, "add", "--force", "build/ignored.txt")
    (place / "tools/amd_build/build_amd.py").chmod(0o755)
    git(place, "mv", "notes/deep name.txt", "moved.txt")
    (place / "link").symlink_to("readme")
    by_hand(place, {"readme": "two\n", "hip/a.hip": "hip a other(1\n"}, "Änder es")
    by_hand(place / INNER, {"inner.cu": "patched\n"}, "inside")


def saved(patches: Path) -> dict[str, bytes]:
    return {
        path.relative_to(patches).as_posix(): path.read_bytes()
        for path in patches.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("wanted", [True, False], ids=["hipified", "not hipified"])
@pytest.mark.slow
def test_round_trip(
    published: LockedSource, place: Path, patches: Path, tmp_path: Path, wanted: bool
) -> None:
    locked = published if wanted else bare(published)
    prepare(locked, place)
    user_commits(place)
    written = save_patches(place, patches)
    assert [path.relative_to(patches).as_posix() for path in written] == [
        "pytorch/0001-wip-add-many-kinds.patch",
        "pytorch/0002-nder-es.patch",
        f"pytorch/{INNER}/0001-inside.patch",
    ]
    first = saved(patches)
    fresh = tmp_path / "fresh/pytorch"
    done = prepare(locked, fresh, patches=patches)
    assert done.patched is not None
    assert git(fresh, "log", "--format=%s").splitlines()[:3] == [
        "Änder es",
        "[wip] add: many / kinds",
        "DO NOT SUBMIT: PATCHED SUBMODULES",
    ]
    for name in (
        "blob.bin",
        "dos.txt",
        "latin1.txt",
        "moved.txt",
        "readme",
        "build/ignored.txt",
        "hip/a.hip",
    ):
        assert (fresh / name).read_bytes() == (place / name).read_bytes()
    assert (fresh / "link").is_symlink()
    assert (fresh / INNER / "inner.cu").read_text() == "patched\n"
    # Every entry names what lies there, so plain git changes nothing.
    git(fresh, "submodule", "update", "-q", "--recursive", "--no-fetch")
    assert git(fresh, "status", "--porcelain") == ""
    assert (fresh / INNER / "inner.cu").read_text() == "patched\n"
    # Saved again, the same bytes; applied in a third place, the same ids.
    save_patches(fresh, tmp_path / "again")
    assert saved(tmp_path / "again") == first
    third = prepare(locked, tmp_path / "third/pytorch", patches=tmp_path / "again")
    assert third.outcome == done.outcome


def test_commits_made_while_head_stays_upstream_are_saved_alone(
    published: LockedSource, place: Path, patches: Path, tmp_path: Path
) -> None:
    prepare(published, place, head="upstream")
    by_hand(place, {"readme": "two\n"}, "mine")
    (written,) = save_patches(place, patches)
    assert [line for line in written.read_text().splitlines() if line.startswith("diff ")] == [
        "diff --git a/readme b/readme"
    ]
    done = prepare(published, tmp_path / "fresh/pytorch", patches=patches, head="upstream")
    assert (tmp_path / "fresh/pytorch/readme").read_text() == "two\n"
    assert [path.name for path in save_patches(tmp_path / "fresh/pytorch", patches)] == [written.name]
    assert done.patched is not None


def test_saving_replaces_its_own_patches_and_nobody_elses(
    published: LockedSource, place: Path, patches: Path
) -> None:
    assert isinstance(prepare(published, place), Prepared)
    assert save_patches(place, patches) == ()
    assert not patches.exists()
    by_hand(place, {"readme": "two\n"}, "first")
    by_hand(place / FMT, {"plain.txt": "y\n"}, "in a submodule")
    save_patches(place, patches)
    (patches / "pytorch/README.md").write_text("notes\n")
    git(place, "reset", "-q", "--hard", "THEROCK_HIPIFY_DIFFBASE")
    git(place / FMT, "reset", "-q", "--hard", "THEROCK_HIPIFY_DIFFBASE")
    by_hand(place, {"readme": "three\n"}, "second")
    save_patches(place, patches)
    assert set(saved(patches)) == {"pytorch/0001-second.patch", "pytorch/README.md"}
    write(patches, "0002-by-hand.patch", README)
    before = saved(patches)
    with pytest.raises(UsageError, match=r"0002-by-hand\.patch was not written by save-patches"):
        save_patches(place, patches)
    assert saved(patches) == before


def test_a_merge_is_refused_by_name(published: LockedSource, place: Path, patches: Path) -> None:
    prepare(published, place)
    git(place, "checkout", "-qb", "side")
    by_hand(place, {"readme": "two\n"}, "side")
    git(place, "checkout", "-q", "THEROCK_HIPIFY_DIFFBASE")
    by_hand(place, {"other": "x\n"}, "main")
    git(place, "merge", "-q", "-m", "both together", "side")
    with pytest.raises(RocwrightError, match="both together"):
        save_patches(place, patches)
    assert not patches.exists()


def test_a_submodule_moved_elsewhere_cannot_be_a_patch(
    family: Family, published: LockedSource, place: Path, patches: Path
) -> None:
    prepare(published, place)
    elsewhere = commit(family.fmt, {"fmt.h": "cuda other\n"})
    git(place / FMT, "fetch", "-q", family.fmt.as_uri(), "main")
    git(place, "update-index", "--cacheinfo", f"160000,{elsewhere},{FMT}")
    git(place, "commit", "-qm", "another fmt")
    with pytest.raises(RocwrightError, match="moves submodule third_party/fmt lib"):
        save_patches(place, patches)


def test_a_message_that_would_swallow_the_patch_is_noticed(
    published: LockedSource, place: Path, patches: Path
) -> None:
    prepare(published, place)
    body = (
        "subject\n\n---\ndiff --git a/readme b/readme\n--- a/readme\n+++ b/readme\n@@ -1 +1 @@\n-one\n+evil\n"
    )
    by_hand(place, {"other": "x\n"}, body)
    with pytest.raises(RocwrightError, match="would not give the same files"):
        save_patches(place, patches)
    assert not patches.exists()


def test_saving_needs_a_checkout_with_tags(family: Family, patches: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a checkout"):
        save_patches(tmp_path / "none", patches)
    with pytest.raises(UsageError, match="THEROCK_UPSTREAM_DIFFBASE"):
        save_patches(family.torch, patches)


def test_an_ignored_file_where_a_patch_puts_its_own(
    published: LockedSource, place: Path, patches: Path
) -> None:
    (place / "build").mkdir()
    (place / "build/notes").write_text("mine\n")
    write(
        patches,
        "1.patch",
        README[: README.index("diff")]
        + "diff --git a/build/notes b/build/notes\nnew file mode 100644\n--- /dev/null\n+++ b/build/notes\n"
        "@@ -0,0 +1 @@\n+theirs\n",
    )
    with pytest.raises(UnsavedWork, match="in the way: build/notes"):
        prepare(published, place, patches=patches)
    assert (place / "build/notes").read_text() == "mine\n"
    done = prepare(published, place, patches=patches, work=Work(keep_branch="mine"))
    assert [each.branch for each in done.kept] == ["mine"]
    assert git(place, "show", "mine:build/notes") == "mine"
    assert (place / "build/notes").read_text() == "theirs\n"
