"""A real PyTorch: its own script, run by the command, makes what it makes by hand, everywhere the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from real.sources import debian
from real.sources.desk import HIPIFY, UPSTREAM, Desk, said
from rocwright.data import load_table
from rocwright.model.project import ProjectTable
from rocwright.sources import checkout as checkouts
from rocwright.sources import hipify as hipifying
from rocwright.sources.resolve import Request, resolve

EDITED = "aten/src/ATen/native/hip/Copy.hip"  # made from aten/src/ATen/native/cuda/Copy.cu


@pytest.fixture(scope="module")
def desk(newcomer, pytorch) -> Iterator[Desk]:
    """A desk with PyTorch checked out and hipified, HEAD at the hipify commit."""
    place = Path(newcomer.home) / "desks" / "pytorch"
    place.mkdir(parents=True)
    desk = Desk(newcomer, place, {"torch": pytorch.url})
    desk.checkout(ref=debian.BRANCH)
    yield desk
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def by_hand(pytorch, tmp_path_factory) -> dict[str, str]:
    """The trees that the script makes, run as its authors run it, in exports of the commit."""
    root = tmp_path_factory.mktemp("by-hand")
    trees = {}
    for compiler in ("other", "clang"):
        export = debian.export(pytorch.repository, pytorch.commit, root / "tree")
        hip = debian.hip_path(root / f"hip-{compiler}", clang=compiler == "clang")
        debian.run_script(export, hip, sys.executable)
        trees[compiler] = debian.tree_of(export, pytorch.repository)
        if compiler == "other":
            debian.run_script(export, hip, sys.executable)
            trees["twice"] = debian.tree_of(export, pytorch.repository)
        shutil.rmtree(export)
    return trees


def test_the_script_by_hand_makes_the_frozen_trees(by_hand):
    """Run over its own outputs it makes another one, so that it always has to start from upstream's tree."""
    assert by_hand == {
        "other": debian.HIPIFIED,
        "twice": debian.HIPIFIED_TWICE,
        "clang": debian.HIPIFIED_CLANG,
    }


def test_the_tree_is_the_one_the_script_makes_by_hand(desk, pytorch, by_hand):
    assert desk.git("rev-parse", "HEAD^{tree}") == by_hand["other"], "the committed tree"
    assert debian.tree_of(desk.place / "pytorch", pytorch.repository) == by_hand["other"], "the files"


def test_the_log_is_the_documented_one(desk, pytorch):
    assert desk.git("log", "--format=%H %s", "-3").splitlines() == [
        f"{desk.ref(HIPIFY)} DO NOT SUBMIT: HIPIFY",
        f"{pytorch.commit} PyTorch as published in Debian's pytorch 2.6.0+dfsg-7",
    ]
    assert desk.ref("HEAD") == desk.ref(HIPIFY)
    assert desk.ref(UPSTREAM) == pytorch.commit
    assert desk.ref(f"refs/remotes/origin/{debian.BRANCH}") == pytorch.commit
    assert desk.git("status", "--porcelain", "--ignored") == ""


def test_the_hipify_commit_holds_what_the_script_made(desk):
    changed = desk.git("diff", "--no-renames", "--name-status", UPSTREAM, HIPIFY).splitlines()
    kinds = [line[0] for line in changed]
    assert (kinds.count("A"), kinds.count("M"), len(kinds)) == (
        debian.ADDED,
        debian.MODIFIED,
        debian.ADDED + debian.MODIFIED,
    )


def test_again_is_nothing_to_do(desk, pytorch):
    before, asked = desk.ref("HEAD"), len(pytorch.server.requests)
    desk.run("checkout", "torch", "--locked")
    assert desk.ref("HEAD") == before
    assert len(pytorch.server.requests) == asked, "a locked checkout that is there asks nobody"
    assert desk.git("status", "--porcelain") == ""


def test_hipifying_what_is_hipified_changes_nothing(desk, by_hand):
    before = desk.ref("HEAD")
    desk.run("hipify", "pytorch")
    assert desk.ref("HEAD") == before
    assert desk.git("rev-parse", "HEAD^{tree}") == by_hand["other"]


def test_another_folder_home_locale_and_rocm_make_the_same_commit(desk, pytorch, newcomer):
    """Nothing is shared with the first one: no mirror, no cache, another current directory."""
    elsewhere = Desk(newcomer, desk.place / "else where")
    rocm = elsewhere.write("rocm/hip/lib/.hipInfo", "HIP_COMPILER=clang\n").parents[1]
    target = elsewhere.place / "törch 2"
    elsewhere.run(
        *("checkout", "torch", "--gitrepo-origin", pytorch.url, "--repo-hashtag", debian.BRANCH),
        *("--checkout-dir", target, "--no-mirror"),
        cwd=Path("/"),
        LC_ALL="C",
        HIP_PATH=str(rocm),
        TZ="Asia/Tokyo",
        PYTHONHASHSEED="7",
    )
    assert elsewhere.ref("HEAD", at=target) == desk.ref("HEAD")


def test_documented_script_makes_the_same_commit(desk, pytorch, newcomer):
    asked = ["--gitrepo-origin", pytorch.url, "--repo-hashtag", debian.BRANCH]
    desk.script("torch", "checkout", "--checkout-dir", desk.place / "scripts/pytorch", *asked, "--no-hipify")
    assert desk.ref("HEAD", at="scripts/pytorch") == pytorch.commit
    assert desk.ref(HIPIFY, at="scripts/pytorch") == ""
    desk.script("torch", "hipify", "--checkout-dir", desk.place / "scripts/pytorch")
    assert desk.ref("HEAD", at="scripts/pytorch") == desk.ref("HEAD")


def replay(desk, directory, *more):
    """The locked checkout in another directory."""
    lock = desk.place / "sources.lock.json"
    desk.run("checkout", "torch", "--locked", "--lock-file", lock, "--directory", directory, *more)


# One more checkout is taken through the modes, by these tests in turn.


def test_second_checkout_takes_the_hipified_tree_from_the_cache(desk):
    report = json.loads(desk.checkout("--directory", "other", "--json", ref=debian.BRANCH).stdout)
    assert said(report, "cached") == [True]
    assert desk.ref("HEAD", at="other/pytorch") == desk.ref("HEAD")


def test_head_stays_upstream(desk, pytorch, by_hand):
    """`torch.version.git_version` is what HEAD says: a commit that somebody else can look up."""
    at = "other/pytorch"
    replay(desk, "other", "--head-stays-upstream")
    assert desk.git("rev-parse", "HEAD", at=at) == pytorch.commit
    assert desk.git("diff", "--stat", at=at) == ""
    assert desk.ref(HIPIFY, at=at) == desk.ref(HIPIFY)
    assert debian.tree_of(desk.place / at, pytorch.repository) == by_hand["other"]
    desk.write(f"{at}/setup.py", "edited\n")
    assert desk.git("diff", "--name-only", at=at) == "setup.py", "only the user's own edit shows"
    desk.git("checkout", "-q", "--", "setup.py", at=at)
    replay(desk, "other")
    assert desk.ref("HEAD", at=at) == desk.ref("HEAD"), "back to the hipify commit"


def test_hip_clang_is_said_by_the_user_not_by_the_machine(desk, by_hand):
    at = "other/pytorch"
    desk.checkout("--hip-clang", "--directory", "other", ref=debian.BRANCH)
    assert desk.git("rev-parse", "HEAD^{tree}", at=at) == by_hand["clang"]
    (locked,) = desk.lock("other")["sources"]
    assert locked["hip_clang"] is True
    # The other tree comes into the same repository by a fetch of its commit from the first checkout.
    desk.git("fetch", "-q", str(desk.place / "pytorch"), HIPIFY, at=at)
    differ = desk.git("diff", "--name-only", "FETCH_HEAD", "HEAD", at=at).splitlines()
    assert len(differ) == debian.DIFFER_WITH_CLANG


def test_patches_on_hipified_files_come_back_as_the_same_commits(desk):
    desk.checkout("--directory", "other", ref=debian.BRANCH)
    at = "other/pytorch"
    assert (desk.place / at / EDITED).is_file()
    desk.write(f"{at}/{EDITED}", (desk.place / at / EDITED).read_bytes() + b"// patched\n")
    desk.git("commit", "-qam", "Patch a hipified file", at=at)
    desk.run("sources", "save-patches", desk.place / at, "--output-dir", desk.place / "patches")
    (saved,) = (desk.place / "patches").rglob("*.patch")
    content = saved.read_bytes()
    fresh = ["--directory", desk.place / "fresh", "--patches", desk.place / "patches"]
    desk.checkout(*fresh, ref=debian.BRANCH)
    again = "fresh/pytorch"
    assert desk.git("log", "--format=%s", "-2", at=again).splitlines() == [
        "Patch a hipified file",
        "DO NOT SUBMIT: HIPIFY",
    ]
    assert desk.git("rev-parse", "HEAD^{tree}", at=again) == desk.git("rev-parse", "HEAD^{tree}", at=at)
    tip = desk.ref("HEAD", at=again)
    desk.run("sources", "save-patches", desk.place / again, "--output-dir", desk.place / "patches-2")
    (second,) = (desk.place / "patches-2").rglob("*.patch")
    assert second.read_bytes() == content
    desk.checkout(*fresh, ref=debian.BRANCH)
    assert desk.ref("HEAD", at=again) == tip


def _minor(python: str) -> str:
    code = "import sys; print(sys.version_info[1])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _pythons() -> list[str]:
    """Interpreters on PATH of other versions than ours that run."""
    mine = sys.version_info[1]
    found = [shutil.which(f"python3.{minor}") for minor in (10, 11, 12, 13, 14) if minor != mine]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = sorted(pyenv.glob("3.1[0-9].*/bin/python")) if pyenv.is_dir() else []
    others = [str(path) for path in installed if not path.parts[-3].startswith(f"3.{mine}.")]
    usable = others or [path for path in found if path]
    # The oldest and the newest: each runs the script, which takes seconds.
    return [usable[0], usable[-1]] if len(usable) > 1 else usable


@pytest.fixture(scope="module")
def library_checkout(pytorch, tmp_path_factory) -> checkouts.Checkout:
    """The same commit through the library, which takes any interpreter."""
    request = Request("torch", origin=pytorch.url, ref=debian.BRANCH)
    locked = resolve([request], projects=load_table("projects", ProjectTable)).get("torch")
    return checkouts.checkout(locked, tmp_path_factory.mktemp("pythons") / "pytorch", depth=1)


@pytest.mark.parametrize("python", _pythons() or [None])
def test_another_python_makes_the_same_commit(desk, library_checkout, python):
    """The first commit was made by the newcomer's interpreter."""
    if python is None:
        pytest.skip("no second Python here")
    hipified = hipifying.hipify(library_checkout, python=Path(python))
    assert hipified.python == f"3.{_minor(python)}"
    assert not hipified.cached
    assert hipified.hipify_commit == desk.ref("HEAD")
