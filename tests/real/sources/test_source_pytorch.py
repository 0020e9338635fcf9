"""A real PyTorch: its own script, run by the command, makes what it makes by hand, everywhere the same."""

from __future__ import annotations

import json
import os
import shutil
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


def test_the_tree_is_the_one_the_script_makes_by_hand(desk, pytorch, tmp_path):
    by_hand = debian.export(pytorch.repository, pytorch.commit, tmp_path / "by-hand")
    debian.run_script(by_hand, debian.hip_path(tmp_path / "hip", clang=False), sys.executable)
    assert debian.tree_of(by_hand, tmp_path / "scratch") == debian.HIPIFIED
    assert desk.git("rev-parse", "HEAD^{tree}") == debian.HIPIFIED, "the committed tree"
    assert debian.tree_of(desk.place / "pytorch", tmp_path / "scratch") == debian.HIPIFIED, "the files"


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


def test_script_run_twice_over_its_outputs_would_be_another_tree(desk, tmp_path):
    """Not idempotent: so `rocwright hipify` has to start from the upstream tree, whatever lies there."""
    twice = tmp_path / "twice"
    shutil.copytree(desk.place / "pytorch", twice, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    debian.run_script(twice, debian.hip_path(tmp_path / "hip", clang=False), sys.executable)
    assert debian.tree_of(twice, tmp_path / "scratch") == debian.HIPIFIED_TWICE
    desk.run("hipify", "pytorch")
    assert desk.git("rev-parse", "HEAD^{tree}") == debian.HIPIFIED


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
    desk.script("torch", "checkout", "--checkout-dir", desk.place / "by-script", *asked, "--no-hipify")
    assert desk.ref("HEAD", at="by-script") == pytorch.commit
    assert desk.ref(HIPIFY, at="by-script") == ""
    desk.script("torch", "hipify", "--checkout-dir", desk.place / "by-script")
    assert desk.ref("HEAD", at="by-script") == desk.ref("HEAD")


def test_head_stays_upstream(desk, pytorch, tmp_path):
    """`torch.version.git_version` is what HEAD says: a commit that somebody else can look up."""
    desk.run("checkout", "torch", "--locked", "--lock-file", desk.place / "sources.lock.json",
             "--directory", desk.place / "upstream", "--head-stays-upstream")  # fmt: skip
    at = "upstream/pytorch"
    assert desk.git("rev-parse", "HEAD", at=at) == pytorch.commit
    assert desk.git("diff", "--stat", at=at) == ""
    assert desk.ref(HIPIFY, at=at) == desk.ref(HIPIFY)
    assert debian.tree_of(desk.place / at, tmp_path / "scratch") == debian.HIPIFIED
    desk.write(f"{at}/setup.py", "edited\n")
    assert desk.git("diff", "--name-only", at=at) == "setup.py", "only the user's own edit shows"
    desk.git("checkout", "-q", "--", "setup.py", at=at)
    desk.run("checkout", "torch", "--locked", "--lock-file", desk.place / "sources.lock.json",
             "--directory", desk.place / "upstream")  # fmt: skip
    assert desk.ref("HEAD", at=at) == desk.ref("HEAD"), "back to the hipify commit"


def test_hip_clang_is_said_by_the_user_not_by_the_machine(desk, pytorch, tmp_path):
    by_hand = debian.export(pytorch.repository, pytorch.commit, tmp_path / "by-hand")
    debian.run_script(by_hand, debian.hip_path(tmp_path / "hip", clang=True), sys.executable)
    assert debian.tree_of(by_hand, tmp_path / "scratch") == debian.HIPIFIED_CLANG
    desk.checkout("--hip-clang", "--directory", desk.place / "clang", ref=debian.BRANCH)
    at = "clang/pytorch"
    assert desk.git("rev-parse", "HEAD^{tree}", at=at) == debian.HIPIFIED_CLANG
    (locked,) = desk.lock("clang")["sources"]
    assert locked["hip_clang"] is True
    # The other tree comes into the same repository by a fetch of its commit from the first checkout.
    desk.git("fetch", "-q", desk.place / "pytorch", HIPIFY, at=at)
    differ = desk.git("diff", "--name-only", debian.HIPIFIED, debian.HIPIFIED_CLANG, at=at)
    assert len(differ.splitlines()) == debian.DIFFER_WITH_CLANG


def test_second_checkout_takes_the_hipified_tree_from_the_cache(desk):
    report = json.loads(
        desk.checkout("--directory", desk.place / "cached", "--json", ref=debian.BRANCH).stdout
    )
    assert said(report, "cached") == [True]
    assert desk.ref("HEAD", at="cached/pytorch") == desk.ref("HEAD")


def test_patches_on_hipified_files_come_back_as_the_same_commits(desk):
    asked = ["--directory", desk.place / "patched"]
    desk.checkout(*asked, ref=debian.BRANCH)
    at = "patched/pytorch"
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


def _pythons() -> list[str]:
    """Interpreters on PATH of other versions than ours that run."""
    mine = sys.version_info[1]
    found = [shutil.which(f"python3.{minor}") for minor in (10, 11, 12, 13, 14) if minor != mine]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = sorted(pyenv.glob("3.1[0-9].*/bin/python")) if pyenv.is_dir() else []
    others = [str(path) for path in installed if not path.parts[-3].startswith(f"3.{mine}.")]
    return others or [path for path in found if path]


@pytest.mark.parametrize("python", _pythons() or [None])
def test_another_python_makes_the_same_commit(desk, pytorch, tmp_path, python):
    """Through the library, which takes the interpreter; the first commit was made by the newcomer's."""
    if python is None:
        pytest.skip("no second Python here")
    table = load_table("projects", ProjectTable)
    request = Request("torch", origin=pytorch.url, ref=debian.BRANCH)
    locked = resolve([request], projects=table).get("torch")
    tree = checkouts.checkout(locked, tmp_path / "pytorch", depth=1)
    hipified = hipifying.hipify(tree, python=Path(python))
    assert hipified.hipify_commit == desk.ref("HEAD")
