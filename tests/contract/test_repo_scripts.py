"""`pytorch_*_repo.py` as the build documentation writes them down, word for word, against a local GitHub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contract.github import Desk, Github, commit, shared
from git_repos import git

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Github:
    return shared(lambda: tmp_path_factory.mktemp("github"))


@pytest.fixture
def desk(tmp_path: Path, github: Github) -> Desk:
    return Desk(tmp_path / "home", github)


def history(checkout: Path) -> list[str]:
    """`git log --oneline` with full ids."""
    return git(checkout, "log", "--format=%H %D: %s").splitlines()


def head(checkout: Path) -> str:
    return git(checkout, "rev-parse", "HEAD")


def upstream(checkout: Path) -> str:
    return git(checkout, "rev-parse", "THEROCK_UPSTREAM_DIFFBASE")


def locked(desk: Desk) -> dict[str, dict[str, str]]:
    sources = json.loads((desk.scripts / "sources.lock.json").read_text())["sources"]
    return {source["project"]: source for source in sources}


def test_default_branches_go_beside_the_script(desk: Desk, github: Github) -> None:
    # CL-03, CL-04, CL-05: nightly torch has no related_commits.
    desk.documented("python pytorch_torch_repo.py checkout")
    desk.documented("python pytorch_audio_repo.py checkout")
    desk.documented("python pytorch_vision_repo.py checkout")
    torch = desk.scripts / "pytorch"
    hipified, above, *_, first = history(torch)
    assert hipified.endswith(" HEAD, tag: THEROCK_HIPIFY_DIFFBASE: DO NOT SUBMIT: HIPIFY")
    nightly = github.at["pytorch nightly"]
    tags = "tag: THEROCK_UPSTREAM_DIFFBASE, origin/nightly"
    assert above == f"{nightly} {tags}: Example upstream commit 2"
    assert first.endswith(": Example upstream commit 1")
    assert (torch / "kernel.hip").read_text() == "hip pytorch"
    fmt = torch / "third_party/fmt"
    assert upstream(fmt) == github.at["fmt"]
    assert git(fmt, "rev-parse", "HEAD", "THEROCK_HIPIFY_DIFFBASE").split() == [head(fmt)] * 2
    assert (fmt / "fmt.hip").read_text() == "hip fmt"
    assert git(torch, "status", "--porcelain") == ""
    for name in ("audio", "vision"):
        place = desk.scripts / f"pytorch_{name}"
        assert head(place) == upstream(place) == github.at[f"{name} nightly"]
        assert git(place, "tag").split() == ["THEROCK_HIPIFY_DIFFBASE", "THEROCK_UPSTREAM_DIFFBASE"]
    assert {name: source["why"] for name, source in locked(desk).items()} == {
        "torch": "default",
        "torchaudio": "default",
        "torchvision": "default",
    }


def test_a_release_branch_pins_the_others(desk: Desk, github: Github) -> None:
    # CL-38 (also 2.10), CL-39, CL-40, CL-34, CL-32.
    torch = "python pytorch_torch_repo.py checkout --gitrepo-origin https://github.com/ROCm/pytorch.git"
    desk.documented(f"{torch} --repo-hashtag release/2.10")
    desk.documented(f"{torch} --repo-hashtag release/2.9")
    desk.documented("python pytorch_audio_repo.py checkout --require-related-commit")
    desk.documented("python pytorch_vision_repo.py checkout --require-related-commit")
    desk.documented("python pytorch_triton_repo.py checkout")
    at = github.at
    assert upstream(desk.scripts / "pytorch") == at["ROCm release/2.9"]
    assert head(desk.scripts / "pytorch_audio") == at["audio pinned"]
    assert head(desk.scripts / "pytorch_vision") == at["vision pinned"]
    assert head(desk.scripts / "triton") == at["triton pinned"]
    environment = (desk.scripts / "triton/build_env.json").read_text()
    assert json.loads(environment) == {"TRITON_WHEEL_VERSION_SUFFIX": ""}
    assert locked(desk)["torchaudio"]["pin"] == f"related_commits:1 @ {at['ROCm release/2.9']}"
    # An explicit ref goes before the pin.
    desk.documented("python pytorch_audio_repo.py checkout --repo-hashtag main")
    assert head(desk.scripts / "pytorch_audio") == at["audio main"]
    assert locked(desk)["torchaudio"]["why"] == "flag"
    # triton's other ways: the branch for the version, and no build_env.json.
    desk.documented("python pytorch_triton_repo.py checkout --release")
    assert head(desk.scripts / "triton") == at["triton release"]
    assert not (desk.scripts / "triton/build_env.json").exists()
    desk.documented("python pytorch_triton_repo.py checkout --no-hipify")
    assert head(desk.scripts / "triton") == at["triton pinned"]
    assert not (desk.scripts / "triton/build_env.json").exists()


def test_the_named_branches_of_upstream(desk: Desk, github: Github) -> None:
    # CL-30, CL-33, CL-35 to CL-37, and the fallback of apex.
    desk.documented("python pytorch_torch_repo.py checkout --repo-hashtag main")
    assert upstream(desk.scripts / "pytorch") == github.at["pytorch main"]
    desk.documented("python pytorch_torch_repo.py checkout --repo-hashtag nightly")
    assert upstream(desk.scripts / "pytorch") == github.at["pytorch nightly"]
    desk.documented("python pytorch_audio_repo.py checkout --repo-hashtag nightly")
    desk.documented("python pytorch_vision_repo.py checkout --repo-hashtag nightly")
    assert head(desk.scripts / "pytorch_audio") == github.at["audio nightly"]
    assert head(desk.scripts / "pytorch_vision") == github.at["vision nightly"]
    desk.documented("python pytorch_vision_repo.py checkout --repo-hashtag main")
    assert head(desk.scripts / "pytorch_vision") == github.at["vision main"]
    desk.documented("python pytorch_apex_repo.py checkout")
    assert head(desk.scripts / "apex") == github.at["apex master"]


def test_git_log_as_documented(desk: Desk) -> None:
    # CL-31: the commands as they stand there, one after the other.
    desk.documented("python pytorch_torch_repo.py checkout --repo-hashtag main")
    done = desk.run("git", "log", "--oneline", "--decorate", cwd=desk.scripts / "pytorch")
    first, second, _ = done.stdout.splitlines()
    assert first.split(" ", 1)[1] == "(HEAD, tag: THEROCK_HIPIFY_DIFFBASE) DO NOT SUBMIT: HIPIFY"
    assert (
        second.split(" ", 1)[1] == "(tag: THEROCK_UPSTREAM_DIFFBASE, origin/main) Example upstream commit 2"
    )


def test_a_short_directory_is_used_as_it_is(desk: Desk, github: Github, tmp_path: Path) -> None:
    # CL-06, CL-07, CL-08: no nesting; pins still come from --torch-dir, the lock lies beside the checkouts.
    short = tmp_path / "b"
    desk.documented(f"python pytorch_torch_repo.py checkout --checkout-dir {short}/pytorch")
    desk.documented(f"python pytorch_audio_repo.py checkout --checkout-dir {short}/audio")
    desk.documented(
        f"python pytorch_vision_repo.py checkout --checkout-dir={short}/vision --torch-dir={short}/pytorch"
    )
    assert upstream(short / "pytorch") == github.at["pytorch nightly"]
    assert head(short / "audio") == github.at["audio nightly"]
    assert sorted(path.name for path in short.iterdir()) == [
        "audio",
        "pytorch",
        "sources.lock.json",
        "vision",
    ]
    assert not (desk.scripts / "pytorch").exists()
    # The older spelling means the same, and says what to write; the current directory does not matter.
    script = desk.scripts / "pytorch_audio_repo.py"
    done = desk.documented(f"python {script} checkout --repo {short} --repo-name old", cwd=tmp_path)
    assert head(short / "old") == github.at["audio nightly"]
    assert f"--repo is deprecated; give --checkout-dir {short}/old" in done.stderr


@pytest.mark.parametrize("project", ["audio", "vision"])
def test_a_required_pin_that_is_missing(desk: Desk, project: str) -> None:
    done = desk.run("python", f"pytorch_{project}_repo.py", "checkout", "--require-related-commit")
    assert done.returncode == 3
    assert str(desk.scripts / "pytorch/related_commits") in done.stderr
    assert "--torch-dir" in done.stderr
    assert not (desk.scripts / f"pytorch_{project}").exists()


def test_triton_without_torch_says_what_to_do(desk: Desk) -> None:
    done = desk.run("python", "pytorch_triton_repo.py", "checkout")
    assert done.returncode == 2
    assert str(desk.scripts / "pytorch") in done.stderr
    assert "next: check torch out first" in done.stderr
    assert not (desk.scripts / "triton").exists()


def test_hipify_is_a_step_of_its_own(desk: Desk, github: Github) -> None:
    torch = desk.scripts / "pytorch"
    desk.documented("python pytorch_torch_repo.py checkout --no-hipify --no-submodules --depth 1 --jobs 2")
    assert head(torch) == github.at["pytorch nightly"]
    assert git(torch, "rev-list", "--count", "HEAD") == "1"
    assert not (torch / "third_party/fmt/fmt.cu").exists()
    desk.documented("python pytorch_torch_repo.py hipify --no-commit-hipify")
    assert head(torch) == github.at["pytorch nightly"]
    assert (torch / "kernel.hip").read_text() == "hip pytorch"
    desk.documented("python pytorch_torch_repo.py hipify")
    assert git(torch, "log", "-1", "--format=%s") == "DO NOT SUBMIT: HIPIFY"
    refused = desk.run("python", "pytorch_triton_repo.py", "hipify")
    assert refused.returncode == 2
    assert "triton is not hipified" in refused.stderr


def test_patches_are_saved_and_off_unless_asked_for(desk: Desk) -> None:
    # CL-49.
    torch = desk.scripts / "pytorch"
    desk.documented("python pytorch_torch_repo.py checkout")
    before = head(torch)
    mine = commit(torch, "Mend the readme", {"readme": "mended"}, branch="mine")
    git(torch, "checkout", "-q", "--detach")
    git(torch, "branch", "-q", "-D", "mine")
    refused = desk.run("python", "pytorch_torch_repo.py", "checkout")
    assert refused.returncode == 11
    assert all(way in refused.stderr for way in ("--keep-branch", "--discard"))
    assert head(torch) == mine
    saved = desk.documented("python pytorch_torch_repo.py save-patches")
    patch = desk.scripts / "patches/pytorch/0001-Mend-the-readme.patch"
    assert saved.stdout == f"{patch}\n"
    assert "+mended" in patch.read_text()
    desk.documented("python pytorch_torch_repo.py checkout --keep-branch kept")
    assert git(torch, "rev-parse", "kept") == mine
    assert head(torch) == before
    assert (torch / "readme").read_text() == "pytorch"
    desk.documented("python pytorch_torch_repo.py checkout --patches patches")
    assert (torch / "readme").read_text() == "mended"
    assert git(torch, "rev-parse", "HEAD~1") == before


@pytest.mark.parametrize(
    "words",
    [
        ["checkout", "--no-such-flag"],
        ["checkout", "--release"],
        ["checkout", "--torch-dir", "x"],
        ["develop"],
        ["checkout", "--depth", "some"],
        [],
    ],
    ids=" ".join,
)
def test_words_that_torch_s_script_does_not_know(desk: Desk, words: list[str]) -> None:
    done = desk.run("python", "pytorch_torch_repo.py", *words)
    assert done.returncode == 2
    assert {path.suffix for path in desk.scripts.iterdir()} == {".py"}
