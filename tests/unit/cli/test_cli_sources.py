"""`rocwright checkout`, `hipify` and `sources` as a user meets them, on repositories of a local GitHub."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from contract.github import ADDRESS, Github, commit, shared
from git_repos import git
from rocwright import cli

# Many processes, or many megabytes: `make slow` and CI run them.
pytestmark = pytest.mark.slow

Call = Callable[..., tuple[int, str, str]]
LOCK = "sources.lock.json"


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Github:
    return shared(lambda: tmp_path_factory.mktemp("github"))


@pytest.fixture
def place(tmp_path: Path, github: Github, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory of a user whose git finds github.com here."""
    home, place = tmp_path / "home", tmp_path / "place with a space"
    home.mkdir()
    place.mkdir()
    (home / ".gitconfig").write_text(f'[url "{github.root.as_uri()}/"]\n\tinsteadOf = {ADDRESS}\n')
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "ROCWRIGHT_MIRRORS", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(place)
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    return place


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    return partial(run, capsys)


def ok(result: tuple[int, str, str]) -> str:
    assert result[0] == 0, result[2]
    return result[1]


def lock(path: Path) -> dict[str, Any]:
    return {source["project"]: source for source in json.loads(path.read_text())["sources"]}


FAMILY = ("torch", "audio", "vision", "triton")
FOLDERS = ("pytorch", "pytorch_audio", "pytorch_vision", "triton")


def ids(base: Path) -> dict[str, str]:
    found = {}
    for name in FOLDERS:
        refs = git(base / name, "for-each-ref", "--format=%(refname) %(objectname)", "refs/tags")
        found[name] = f"{git(base / name, 'rev-parse', 'HEAD')}\n{refs}"
    return found


def test_a_version_is_locked_checked_out_and_replayed_elsewhere(
    place: Path, call: Call, github: Github
) -> None:
    out = ok(call("checkout", *FAMILY, "--pytorch-version", "2.9"))
    held = lock(place / LOCK)
    assert {name: source["commit"] for name, source in held.items()} == {
        "torch": github.at["ROCm release/2.9"],
        "torchaudio": github.at["audio pinned"],
        "torchvision": github.at["vision pinned"],
        "triton": github.at["triton pinned"],
    }
    assert [held[name]["why"] for name in ("torch", "torchaudio", "triton")] == ["line", "pin", "pin"]
    tip = git(place / "pytorch", "rev-parse", "HEAD")
    assert held["torch"]["outcome"]["tip"] == tip
    assert f"hipify    {tip}, 2 files changed" in out
    assert out.count("no hipify script in this project") == 2
    # The branch moves on; the lock does not.
    moved = github.root / "ROCm/pytorch.git"
    at = git(moved, "rev-parse", "release/2.9")
    git(moved, "checkout", "-q", "release/2.9")
    commit(moved, "later", {"readme": "later"}, branch="release/2.9")
    try:
        before = (place / LOCK).read_bytes()
        ok(call("checkout", "all", "--locked", "--lock-file", LOCK, "--directory", "again"))
        assert ids(place / "again") == ids(place)
        assert (place / LOCK).read_bytes() == before
        assert not (place / "again" / LOCK).exists()
    finally:
        git(moved, "reset", "-q", "--hard", at)


def test_tests_get_the_bare_files_of_the_locked_commit(place: Path, call: Call, github: Github) -> None:
    ok(call("checkout", "torch", "--pytorch-version", "2.9"))
    before = (place / LOCK).read_bytes()
    bare = ("--locked", "--no-hipify", "--no-submodules", "--lock-file", LOCK, "--directory", "bare")
    result = json.loads(ok(call("checkout", "torch", *bare, "--json")))
    assert git(place / "bare/pytorch", "rev-parse", "HEAD") == github.at["ROCm release/2.9"]
    assert git(place / "bare/pytorch", "tag") == "THEROCK_UPSTREAM_DIFFBASE"
    assert result["projects"]["torch"]["checkout"]["submodules"] == []
    assert (place / LOCK).read_bytes() == before


def test_json_has_what_the_lock_and_the_checkouts_are(place: Path, call: Call, github: Github) -> None:
    result = json.loads(ok(call("checkout", "audio", "--repo-hashtag", "main", "--json")))
    assert result["lock_file"] == LOCK
    (source,) = result["lock"]["sources"]
    assert (source["project"], source["why"]) == ("torchaudio", "flag")
    assert result["projects"]["torchaudio"]["checkout"]["commit"] == github.at["audio main"]
    again = json.loads(ok(call("checkout", "audio", "--locked", "--json")))
    assert again["projects"]["torchaudio"]["checkout"]["changed"] is False


def test_a_dry_run_writes_nothing_anywhere(place: Path, call: Call, github: Github) -> None:
    out = ok(call("checkout", "torch", "audio", "--dry-run"))
    assert f"torch: nightly is {github.at['pytorch nightly']} (default)" in out
    assert f"check it out, detached, in {place / 'pytorch'}" in out
    assert list(place.iterdir()) == []
    assert [path.name for path in (place.parent / "home").iterdir()] == [".gitconfig"]
    plans = json.loads(ok(call("checkout", "torch", "--dry-run", "--json")))["plans"]
    assert plans["torch"]["action"] == "clone"
    ok(call("checkout", "torch"))
    (place / "pytorch/mine").write_text("mine")
    before = ids_of_everything(place)
    assert "in the way: added: mine" in ok(call("checkout", "torch", "--dry-run"))
    assert ids_of_everything(place) == before


def ids_of_everything(place: Path) -> dict[str, tuple[int, int]]:
    # An index may be written anew with fresher times of the same files.
    files = [path for path in place.rglob("*") if not path.is_dir() and path.name != "index"]
    stats = {str(path): path.lstat() for path in files}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


def test_work_stops_a_checkout_until_somebody_decides(place: Path, call: Call, github: Github) -> None:
    ok(call("checkout", "torch"))
    readme = place / "pytorch/readme"
    readme.write_text("mine")
    code, out, err = call("checkout", "torch")
    assert (code, out) == (11, "")
    assert err.count("error (UnsavedWork)") == 1
    assert "changed: readme" in err
    assert "--keep-branch NAME" in err and "--discard" in err and "another directory" in err
    assert readme.read_text() == "mine"
    assert call("checkout", "torch", "--keep-branch", "a", "--discard")[0] == 2
    out = ok(call("checkout", "torch", "--keep-branch", "kept"))
    assert "work      kept on branch kept: changed: readme" in out
    assert readme.read_text() == "pytorch"
    assert git(place / "pytorch", "show", "kept:readme") == "mine"
    mine = commit(place / "pytorch", "mine", {"readme": "again"}, branch="mine")
    git(place / "pytorch", "checkout", "-q", "--detach")
    git(place / "pytorch", "branch", "-q", "-D", "mine")
    out = ok(call("checkout", "torch", "--discard"))
    # A commit that nothing names any more can only be found by its id.
    assert "work      discarded: " in out
    assert mine in out
    assert readme.read_text() == "pytorch"


def test_head_may_stay_at_the_published_commit(place: Path, call: Call, github: Github) -> None:
    torch = place / "pytorch"
    for word in ("--head-stays-upstream", "--no-commit-hipify"):
        ok(call("checkout", "torch", word))
        assert git(torch, "rev-parse", "HEAD") == github.at["pytorch nightly"]
        assert (torch / "kernel.hip").read_text() == "hip pytorch"
        listed = git(torch, "diff", "--name-only", "THEROCK_UPSTREAM_DIFFBASE", "THEROCK_HIPIFY_DIFFBASE")
        assert listed.splitlines() == ["kernel.hip", "third_party/fmt"]
        assert git(torch, "diff", "--name-only") == ""
    ok(call("checkout", "torch"))
    assert git(torch, "rev-parse", "HEAD") == git(torch, "rev-parse", "THEROCK_HIPIFY_DIFFBASE")


def test_any_clone_can_be_hipified(place: Path, call: Call, github: Github) -> None:
    clone = place / "clone"
    git(place, "clone", "-q", (github.root / "pytorch/pytorch.git").as_uri(), "clone")
    upstream = git(clone, "rev-parse", "HEAD")
    tree = json.loads(ok(call("hipify", "clone", "--json")))
    assert tree["upstream_commit"] == upstream
    # Submodules that nobody populated stay empty.
    assert tree["changed_files"] == ["kernel.hip"]
    assert git(clone, "rev-parse", "HEAD~1", "THEROCK_UPSTREAM_DIFFBASE").split() == [upstream] * 2
    assert "Hipify-Hip-Clang: false" in git(clone, "log", "-1", "--format=%B")
    assert list((clone / "third_party/fmt").iterdir()) == []
    assert ok(call("hipify", "clone")).splitlines()[0] == f"{clone}: {upstream}"
    (clone / "readme").write_text("mine")
    assert call("hipify", "clone")[0] == 11
    out = ok(call("hipify", "clone", "--keep-branch", "mine"))
    assert "work      kept on branch mine: changed: readme" in out
    assert git(clone, "show", "mine:readme") == "mine"
    code, _, err = call("hipify", ".")
    assert code == 2
    assert "is not a git checkout" in err


def test_a_script_that_misses_a_submodule_is_told_of_with_the_command(
    place: Path, call: Call, github: Github
) -> None:
    script = "import os, sys\nos.path.exists('third_party/fmt/fmt.cu') or sys.exit('no fmt.cu')\n"
    commit(place / "mine", "mine", {"tools/amd_build/build_amd.py": script}, branch="main")
    git(
        place / "mine",
        "submodule",
        "add",
        "-q",
        (github.root / "example/fmt.git").as_uri(),
        "third_party/fmt",
    )
    git(place / "mine", "commit", "-q", "-m", "fmt")
    git(place, "clone", "-q", "mine", "clone")
    code, _, err = call("hipify", "clone")
    assert code == 7
    assert "1 of its submodules not populated (third_party/fmt)" in err
    advised = ("submodule", "update", "--init", "--recursive")
    assert f"`git -C '{place / 'clone'}' {' '.join(advised)}`" in err
    git(place / "clone", *advised)
    assert "its script changes nothing" in ok(call("hipify", "clone"))


def test_locks_are_made_shown_and_compared_without_a_checkout(
    place: Path, call: Call, github: Github
) -> None:
    ok(call("sources", "lock", *FAMILY, "--pytorch-version", "2.9", "-o", "old.json"))
    ok(call("sources", "lock", *FAMILY, "--pytorch-version", "main", "--output", "new.json"))
    assert sorted(path.name for path in place.iterdir()) == ["new.json", "old.json"]
    shown = ok(call("sources", "show", "old.json"))
    # Short lines with whole commits, wherever they are read.
    lines = shown.splitlines()
    at = lines.index("torchaudio: https://github.com/pytorch/audio")
    torch = github.at["ROCm release/2.9"][:12]
    assert lines[at + 1 : at + 4] == [
        f"  upstream  {github.at['audio pinned']} main",
        f"  why       pin related_commits:1 @ {torch}",
        "  hipify    yes; not checked out yet",
    ]
    assert (
        lines[lines.index("torch: https://github.com/ROCm/pytorch.git") + 2]
        == "  why       --pytorch-version"
    )
    assert json.loads(ok(call("sources", "show", "old.json", "--json"))) == json.loads(
        (place / "old.json").read_text()
    )
    out = ok(call("sources", "diff", "old.json", "new.json"))
    assert f"torchaudio: {github.at['audio pinned'][:12]} -> {github.at['audio main'][:12]}" in out
    assert "triton: stays at" in out
    moved = "https://github.com/ROCm/pytorch.git -> https://github.com/pytorch/pytorch.git"
    assert out.splitlines()[1:3] == [f"  {moved}", "  release/2.9 -> main"]
    assert call("sources", "diff", "old.json", "new.json", "--exit-code")[0] == 1
    assert call("sources", "diff", "old.json", "old.json", "--exit-code")[:2] == (0, "the same commits\n")
    changes = json.loads(ok(call("sources", "diff", "old.json", "new.json", "--json")))["changes"]
    assert [row["change"]["project"] for row in changes][:2] == ["torch", "torchaudio"]
    # A checkout that has both commits tells what lies between them.
    ok(call("checkout", "vision", "--repo-hashtag", "main"))
    (between,) = [
        line
        for line in ok(call("sources", "diff", "old.json", "new.json")).splitlines()
        if "vision 2" in line
    ]
    assert between.strip() == "vision 2"


def test_locking_one_project_again_leaves_the_others(place: Path, call: Call, github: Github) -> None:
    ok(call("checkout", "torch", "audio", "--pytorch-version", "2.9"))
    before = lock(place / LOCK)
    ok(call("sources", "lock", "audio", "--repo-hashtag", "main"))
    after = lock(place / LOCK)
    assert after["torch"] == before["torch"]
    assert after["torch"]["outcome"] is not None
    assert after["torchaudio"]["commit"] == github.at["audio main"]
    assert after["torchaudio"]["outcome"] is None


def test_projects_of_ones_own_are_like_the_others(place: Path, call: Call, github: Github) -> None:
    at = commit(github.root / "example/vllm.git", "vllm", {"setup.py": "1"}, branch="main")
    row = (
        '[[projects.project]]\nname = "vllm"\ndirectory = "my_vllm"\nref = "main"\nhipify = false\n'
        'submodules = false\norigin = "https://github.com/example/vllm.git"\n'
    )
    (place / "rocwright.toml").write_text(row)
    ok(call("checkout", "vllm"))
    assert git(place / "my_vllm", "rev-parse", "HEAD") == at
    assert lock(place / LOCK)["vllm"]["commit"] == at
    (place / "rocwright.toml").unlink()
    (place / "other.toml").write_text(row.replace('"main"', '"gone"'))
    code, _, err = call("checkout", "vllm", "--config", "other.toml")
    assert code == 5
    assert "gone" in err
    code, _, err = call("checkout", "vllm")
    assert code == 2
    assert "unknown project 'vllm'" in err


def test_what_failed_is_told_and_what_succeeded_is_kept(place: Path, call: Call, github: Github) -> None:
    (place / "pytorch_vision").mkdir()
    (place / "pytorch_vision/mine").write_text("mine")
    code, _, err = call("checkout", "audio", "vision", "--pytorch-version", "main")
    assert code == 2
    assert "pytorch_vision exists and is not a checkout" in err
    held = lock(place / LOCK)
    assert held["torchaudio"]["outcome"]["tip"] == github.at["audio main"]
    assert held["torchvision"]["outcome"] is None
    assert (place / "pytorch_vision/mine").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["checkout", "torch", "--locked"], 3, "sources.lock.json does not exist"),
        (
            ["checkout", "torch", "--locked", "--repo-hashtag", "main"],
            2,
            "--repo-hashtag would override",
        ),
        (["checkout", "torch", "audio", "--repo-hashtag", "main"], 2, "to several projects"),
        (["checkout", "torch", "audio", "--checkout-dir", "x"], 2, "--checkout-dir is for one project"),
        (["checkout", "all", "torch"], 2, "`all` stands for every project"),
        (["checkout", "torch", "torch"], 2, "torch is given twice"),
        (["checkout", "audio", "torchaudio"], 2, "torchaudio is given twice"),
        (["checkout", "torch", "--depth", "0"], 2, "--depth 0"),
        (["checkout", "torch", "--pytorch-version", "1.13"], 3, "unknown version of PyTorch"),
        (["checkout", "--pytorch-version", "2.7", "--platform", "windows"], 2, "not supported on windows"),
        (["checkout", "torch", "--no-mirror", "--mirror-dir", "m"], 2, "contradict each other"),
        (["checkout", "torch", "--patches", "nowhere"], 2, "no directory nowhere"),
        (["checkout", "torch", "--release"], 2, "torch"),
        (["checkout", "torch", "--repo-hashtag="], 2, "--repo-hashtag is empty"),
        (["checkout", "torch", "--repo-hashtag", "no/such"], 5, "no/such"),
        (["checkout", "triton"], 2, ".ci/docker/ci_commit_pins/triton.txt"),
        (["checkout", "torch", "--config", "nowhere.toml"], 3, "nowhere.toml"),
        (["sources", "show"], 3, "sources.lock.json does not exist"),
        (["sources", "save-patches", "."], 2, "is not a git checkout"),
        (["hipify", "nowhere"], 2, "nowhere is not a git checkout"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_is_named_and_leaves_nothing(
    place: Path, call: Call, words: list[str], code: int, named: str
) -> None:
    found, out, err = call(*words)
    assert (found, out) == (code, "")
    assert named in err
    assert list(place.iterdir()) == []


def test_a_lock_of_another_platform_or_a_damaged_one_is_not_replayed(place: Path, call: Call) -> None:
    ok(call("sources", "lock", "audio", "--platform", "windows", "--repo-hashtag", "main"))
    code, _, err = call("checkout", "audio", "--locked", "--platform", "linux")
    assert code == 2
    assert "made for windows" in err
    code, _, err = call("checkout", "torch", "--platform", "linux")
    assert code == 2
    assert "made for windows" in err
    ok(call("checkout", "audio", "--locked", "--platform", "windows"))
    # Where nothing else stands in it, another platform's lock makes room.
    ok(call("checkout", "audio", "--repo-hashtag", "main", "--platform", "linux"))
    assert json.loads((place / LOCK).read_text())["platform"] == "linux"
    (place / LOCK).write_text("{}")
    code, _, err = call("checkout", "audio", "--repo-hashtag", "main")
    assert code == 3
    assert LOCK in err


def test_build_takes_only_what_the_lock_says(place: Path, call: Call) -> None:
    ok(call("checkout", "audio", "--repo-hashtag", "main"))
    build = ("build", "--lock", LOCK, "--find-links", ".", "--pytorch-rocm-arch", "gfx90a")
    git(place / "pytorch_audio", "tag", "-f", "THEROCK_UPSTREAM_DIFFBASE", "HEAD~1")
    git(place / "pytorch_audio", "checkout", "-q", "HEAD~1")
    code, _, err = call(*build, "--output-dir", "wheels")
    assert code == 6
    assert "torchaudio" in err
    (place / "pytorch_audio").rename(place / "elsewhere")
    code, _, err = call(*build, "--output-dir", "wheels")
    assert code == 2
    assert "pytorch_audio" in err
    assert not (place / "wheels").exists()


def test_a_lock_shows_what_a_checkout_became(place: Path, call: Call, github: Github) -> None:
    ok(call("sources", "lock", "torch", "--pytorch-version", "2.9", "-o", "before.json"))
    ok(call("checkout", "torch", "--pytorch-version", "2.9"))
    tip = git(place / "pytorch", "rev-parse", "HEAD")
    assert f"  hipify    yes, {tip}\n" in ok(call("sources", "show"))
    at = github.at["ROCm release/2.9"][:12]
    assert ok(call("sources", "diff", "before.json", LOCK)) == (
        f"torch: stays at {at}; only one of the locks was checked out\n"
    )


def test_a_run_that_fails_forgets_no_result(place: Path, call: Call, github: Github) -> None:
    ok(call("checkout", "torch"))
    before = (place / LOCK).read_bytes()
    (place / "pytorch/readme").write_text("mine")
    assert call("checkout", "torch")[0] == 11
    assert (place / LOCK).read_bytes() == before


def test_nothing_is_checked_out_inside_a_checkout(
    place: Path, call: Call, github: Github, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok(call("checkout", "torch"))
    monkeypatch.chdir(place / "pytorch" / "tools")
    for words in ((), ("--checkout-dir", "torch"), ("--directory", "amd_build"), ("--dry-run",)):
        code, _, err = call("checkout", "torch", *words)
        assert code == 2
        assert f"inside the checkout {place / 'pytorch'}" in err
        assert f"change to {place}, " in err
    assert git(place / "pytorch", "status", "--short") == ""
    # From inside, the place where the checkouts lie can be named; so can this one.
    ok(call("checkout", "torch", "--directory", "../.."))
    ok(call("checkout", "torch", "--checkout-dir", place / "pytorch"))


def test_a_place_for_pins_that_is_not_there_is_no_default(place: Path, call: Call, github: Github) -> None:
    code, out, err = call("checkout", "audio", "--torch-dir", "pytroch")
    assert (code, out) == (2, "")
    assert "there is no directory pytroch to read torch's pins from" in err
    assert list(place.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_named(place: Path, call: Call, github: Github) -> None:
    (place / "file").write_text("")
    for words in (("checkout", "audio"), ("sources", "lock", "audio")):
        code, _, err = call(*words, "--directory", "file/below")
        assert code == 3
        assert "error (InvalidInput)" in err
        assert "file/below" in err
