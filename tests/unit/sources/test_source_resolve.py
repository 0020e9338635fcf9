"""Which commit is meant: precedence, names in remote repositories, pins, versions of PyTorch."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from git_repos import PROJECTS, commit, git
from rocwright.errors import InvalidPin, RocwrightError, Unreachable, UsageError
from rocwright.model.project import Line, ProjectTable
from rocwright.sources.lock import LockedSource, SourceLock
from rocwright.sources.resolve import Request, requests_for, resolve
from rocwright.sources.tree import state as states
from rocwright.system.git import Git

A, B = "a" * 40, "b" * 40


class Forge:
    """Repositories of torch, a fork of it, audio, vision, triton and apex below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.table = self._table()

    def add(self, name: str, *branches: str, files: dict[str, str | None] | None = None) -> str:
        """One more commit in a repository, with these branches at it; returns the commit."""
        made = commit(self.root / name, files or {})
        for branch in branches:
            git(self.root / name, "branch", "-f", branch)
        return made

    def url(self, name: str) -> str:
        return (self.root / name).as_uri()

    def _table(self) -> ProjectTable:
        """The built-in table with all origins here."""
        rows = []
        for row in PROJECTS.projects:
            windows = row.windows
            if windows is not None and windows.origin is not None:
                windows = msgspec.structs.replace(windows, origin=self.url(f"{row.name}-windows"))
            rows.append(msgspec.structs.replace(row, origin=self.url(row.alias or row.name), windows=windows))
        lines = [
            msgspec.structs.replace(line, origin=self.url("fork" if line.pinned else "torch"))
            for line in PROJECTS.lines
        ]
        return ProjectTable(tuple(rows), tuple(lines))

    def resolve(self, *requests: Request, **more: Any) -> SourceLock:
        return resolve(requests, projects=more.pop("projects", self.table), **more)

    def one(self, request: Request, **more: Any) -> LockedSource:
        return self.resolve(request, **more).get(request.project)


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    return Forge(tmp_path / "forge")


@pytest.fixture
def torch_tree(tmp_path: Path, forge: Forge) -> Path:
    """A plain directory with all three pin files."""
    tree = tmp_path / "pytorch"
    write_pins(tree, forge)
    return tree


def pins(forge: Forge, at: str = A) -> dict[str, str | None]:
    return {
        "related_commits": f"ubuntu|pytorch|torchaudio|release/2.9|{at}|{forge.url('pinned_audio')}\n"
        f"ubuntu|pytorch|torchvision|release/0.24|{at}|{forge.url('vision')}\n"
        f"ubuntu|pytorch|apex|release/1.9|{at}|{forge.url('apex')}\n",
        ".ci/docker/ci_commit_pins/triton.txt": at + "\n",
        ".ci/docker/triton_version.txt": "3.5.1\n",
    }


def write_pins(tree: Path, forge: Forge) -> None:
    for name, text in pins(forge).items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text or "")


def test_branch_tag_annotated_tag_and_commit_mean_the_same_commit(forge: Forge) -> None:
    made = forge.add("torch")
    git(forge.root / "torch", "tag", "light")
    git(forge.root / "torch", "tag", "-a", "-m", "x", "annotated")
    for ref, complete in [
        ("main", "refs/heads/main"),
        ("light", "refs/tags/light"),
        ("annotated", "refs/tags/annotated"),
        ("refs/heads/main", "refs/heads/main"),
        (made, made),
    ]:
        locked = forge.one(Request("torch", ref=ref))
        assert (locked.commit, locked.ref, locked.why) == (made, complete, "flag")


def test_an_unknown_ref_lists_near_ones_and_an_ambiguous_one_is_refused(forge: Forge) -> None:
    forge.add("torch", "release/2.9")
    with pytest.raises(Unreachable, match=r"no branch or tag 'release/2.90'\n[\s\S]*release/2\.9;"):
        forge.one(Request("torch", ref="release/2.90"))
    git(forge.root / "torch", "tag", "main")
    forge.add("torch")
    with pytest.raises(UsageError, match="both a branch and a tag"):
        forge.one(Request("torch", ref="main"))


def test_an_unreachable_origin_is_named(forge: Forge) -> None:
    with pytest.raises(Unreachable, match=r"repository file:///no/such/repository cannot be read"):
        forge.one(Request("torch", origin="file:///no/such/repository"))


def test_a_pin_names_repository_branch_and_commit(forge: Forge, torch_tree: Path) -> None:
    pinned = forge.one(Request("torchaudio"), torch_dir=torch_tree)
    assert (pinned.origin, pinned.ref, pinned.commit, pinned.why, pinned.pin) == (
        forge.url("pinned_audio"),
        "refs/heads/release/2.9",
        A,
        "pin",
        "related_commits:1",
    )


def test_a_flag_goes_before_the_pin_for_what_it_names(forge: Forge, torch_tree: Path) -> None:
    tip = forge.add("pinned_audio", "topic")
    by_ref = forge.one(Request("torchaudio", ref="topic"), torch_dir=torch_tree)
    assert (by_ref.origin, by_ref.commit, by_ref.why, by_ref.pin) == (
        forge.url("pinned_audio"),
        tip,
        "flag",
        None,
    )
    by_origin = forge.one(Request("torchaudio", origin="https://mine/audio"), torch_dir=torch_tree)
    assert (by_origin.origin, by_origin.commit, by_origin.why) == ("https://mine/audio", A, "pin")


def test_without_a_pin_the_row_decides(forge: Forge, tmp_path: Path) -> None:
    tip = forge.add("vision", "nightly")
    for torch_dir in (None, tmp_path / "nowhere", tmp_path):
        found = forge.one(Request("torchvision"), torch_dir=torch_dir)
        assert (found.ref, found.commit, found.why) == ("refs/heads/nightly", tip, "default")


def test_a_bad_pin_file_stops_who_needs_it_and_nobody_else(forge: Forge, torch_tree: Path) -> None:
    tip = forge.add("pinned_audio")
    (torch_tree / "related_commits").write_text("\nubuntu|pytorch\n")
    with pytest.raises(InvalidPin, match=r"related_commits:2: 2 fields instead of 6"):
        forge.one(Request("torchaudio"), torch_dir=torch_tree)
    # Only the pin says where the repository of a ref is.
    with pytest.raises(InvalidPin, match=r"correct it, or give --gitrepo-origin and --repo-hashtag"):
        forge.one(Request("torchaudio", ref="main"), torch_dir=torch_tree)
    request = Request("torchaudio", origin=forge.url("pinned_audio"), ref="main")
    assert forge.one(request, torch_dir=torch_tree).commit == tip


def test_a_required_pin_that_is_missing(forge: Forge, torch_tree: Path) -> None:
    (torch_tree / "related_commits").write_text("")
    with pytest.raises(
        InvalidPin, match=r"no pin for torchvision was found in .*pytorch/related_commits, but"
    ):
        forge.one(Request("torchvision"), torch_dir=torch_tree, require_related_commit=True)
    (torch_tree / "related_commits").unlink()
    with pytest.raises(InvalidPin, match="no pin for torchvision"):
        forge.one(Request("torchvision"), torch_dir=torch_tree, require_related_commit=True)
    with pytest.raises(
        InvalidPin, match=r"no pin for torchvision was found, but[\s\S]*check torch out first"
    ):
        forge.one(Request("torchvision"), require_related_commit=True)


def test_problems_of_several_projects_are_told_together(forge: Forge, torch_tree: Path) -> None:
    (torch_tree / "related_commits").write_text("oops\n")
    with pytest.raises(InvalidPin) as caught:
        forge.resolve(Request("torchaudio"), Request("torchvision"), torch_dir=torch_tree)
    # The same problem is told once.
    assert caught.value.what.count("1 fields instead of 6") == 1
    (torch_tree / "related_commits").unlink()
    with pytest.raises(RocwrightError) as both:
        forge.resolve(Request("torchvision"), Request("apex", ref="gone"), torch_dir=torch_tree)
    assert "forge/vision cannot be read" in str(both.value)
    assert "forge/apex cannot be read" in str(both.value)


def test_triton_follows_torch(forge: Forge, torch_tree: Path) -> None:
    pinned = forge.one(Request("triton"), torch_dir=torch_tree)
    assert (pinned.commit, pinned.why, pinned.build_env) == (A, "pin", {"TRITON_WHEEL_VERSION_SUFFIX": ""})
    assert (pinned.ref, pinned.pin) == (A, ".ci/docker/ci_commit_pins/triton.txt:1")
    tip = forge.add("triton", "release/3.5.x")
    release = forge.one(Request("triton", release=True), torch_dir=torch_tree)
    assert (release.ref, release.commit, release.build_env) == ("refs/heads/release/3.5.x", tip, {})
    assert (release.why, release.pin) == ("pin", ".ci/docker/triton_version.txt:1")
    for request in (Request("triton"), Request("triton", release=True)):
        with pytest.raises(UsageError, match="check torch out first"):
            forge.one(request)
    (torch_tree / ".ci/docker/triton_version.txt").unlink()
    with pytest.raises(
        InvalidPin, match=r"triton_version\.txt does not exist, so the release branch is unknown"
    ):
        forge.one(Request("triton", release=True), torch_dir=torch_tree)


def test_triton_on_windows_has_its_own_repository_and_one_commit_for_all(
    forge: Forge, torch_tree: Path
) -> None:
    """The pin in ci_commit_pins of ROCm/TheRock, not torch's and not a moving branch."""
    forge.add("triton-windows", "main-windows")
    found = forge.one(Request("triton"), torch_dir=torch_tree, platform="windows")
    commit = "6fe895f6b494b2ffc688e1e552dc2d4a8b5ae3b3"
    assert (found.origin, found.commit, found.why) == (forge.url("triton-windows"), commit, "default")
    assert found.build_env == {}


def test_with_torch_among_the_requests_pins_come_from_the_commit_it_is_locked_at(
    forge: Forge, torch_tree: Path
) -> None:
    tip = forge.add("torch", files=pins(forge, B))
    later = forge.add("torch", files=pins(forge, "c" * 40))
    lock = forge.resolve(
        *(Request(name) for name in ("apex", "triton", "torchaudio")),
        Request("torch", ref=tip),
        # It pins everything at another commit.
        torch_dir=torch_tree,
        require_related_commit=True,
    )
    assert [(each.project, each.commit, each.pin) for each in lock.sources] == [
        ("torch", tip, None),
        ("apex", B, f"related_commits:3 @ {tip}"),
        ("torchaudio", B, f"related_commits:1 @ {tip}"),
        ("triton", B, f".ci/docker/ci_commit_pins/triton.txt:1 @ {tip}"),
    ]
    assert later != tip


def test_a_checkout_of_the_locked_commit_is_asked_before_its_server(forge: Forge, tmp_path: Path) -> None:
    tip = forge.add("torch", files=pins(forge, B))
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", forge.url("torch"), str(clone))
    states.save(Git(clone / ".git", clone), states.State(upstream=tip))
    shutil.rmtree(forge.root / "torch")
    lock = forge.resolve(Request("torch", ref=tip), Request("apex"), torch_dir=clone)
    assert (lock.get("apex").commit, lock.get("apex").pin) == (B, f"related_commits:3 @ {tip}")


def test_a_bad_pin_at_a_commit_is_named_with_repository_and_commit(forge: Forge) -> None:
    tip = forge.add("torch", "nightly", files={"related_commits": "oops\n"})
    with pytest.raises(InvalidPin) as caught:
        forge.resolve(Request("torch"), Request("torchaudio"))
    where = f"related_commits of {forge.url('torch')} @ {tip[:12]}"
    assert caught.value.what == f"{where}:1: 1 fields instead of 6"


def test_a_torch_commit_that_is_nowhere(forge: Forge) -> None:
    forge.add("torch")
    # Nothing pins what is named by flags, so nobody asks for the commit yet.
    forge.add("audio")
    lock = forge.resolve(
        Request("torch", ref=A), Request("torchaudio", origin=forge.url("audio"), ref="main")
    )
    assert lock.get("torch").commit == A
    with pytest.raises(Unreachable, match=f"commit {A} is in no branch or tag of {forge.url('torch')}"):
        forge.resolve(Request("torch", ref=A), Request("torchaudio"))


def test_a_version_of_pytorch_names_torchs_repository_and_branch(forge: Forge) -> None:
    tip = forge.add("fork", "release/2.9", files=pins(forge, B))
    lock = forge.resolve(*requests_for(["all"], forge.table, line="2.9"))
    assert [(each.project, each.ref, each.commit, each.why) for each in lock.sources] == [
        ("torch", "refs/heads/release/2.9", tip, "line"),
        ("apex", "refs/heads/release/1.9", B, "pin"),
        ("torchaudio", "refs/heads/release/2.9", B, "pin"),
        ("torchvision", "refs/heads/release/0.24", B, "pin"),
        ("triton", B, B, "pin"),
    ]


def test_upstreams_branches_of_the_same_name(forge: Forge) -> None:
    triton = ".ci/docker/ci_commit_pins/triton.txt"
    forge.add("torch", "nightly", files={triton: B + "\n"})
    tips = {name: forge.add(name, "nightly") for name in ("audio", "vision")}
    apex = forge.add("apex", "master")
    lock = forge.resolve(*requests_for(["all"], forge.table, line="nightly"))
    assert [(each.project, each.ref, each.commit, each.why) for each in lock.sources[1:]] == [
        ("apex", "refs/heads/master", apex, "line"),
        ("torchaudio", "refs/heads/nightly", tips["audio"], "line"),
        ("torchvision", "refs/heads/nightly", tips["vision"], "line"),
        ("triton", B, B, "pin"),
    ]


def test_a_version_whose_pins_lack_a_project_never_takes_its_default(forge: Forge) -> None:
    forge.add("fork", "release/2.9", files={"related_commits": ""})
    forge.add("vision", "nightly")
    with pytest.raises(InvalidPin, match="no pin for torchvision was found in related_commits of file:"):
        forge.resolve(*requests_for(["torch", "vision"], forge.table, line="2.9"))


def test_without_torch_the_pins_are_those_of_the_version_not_of_a_tree(
    forge: Forge, torch_tree: Path
) -> None:
    tip = forge.add("fork", "release/2.9", files=pins(forge, B))
    found = forge.resolve(*requests_for(["audio"], forge.table, line="2.9"), torch_dir=torch_tree)
    assert [(each.commit, each.pin) for each in found.sources] == [(B, f"related_commits:1 @ {tip}")]


def test_flags_go_before_the_version_for_what_they_name(forge: Forge) -> None:
    mine = forge.add("mine", "release/2.9", files=pins(forge, B))
    by_origin = forge.resolve(
        Request("torch", origin=forge.url("mine"), line="2.9"), Request("apex", line="2.9")
    )
    torch = by_origin.get("torch")
    assert (torch.origin, torch.commit, torch.why) == (forge.url("mine"), mine, "line")
    assert by_origin.get("apex").pin == f"related_commits:3 @ {mine}"
    topic = forge.add("fork", "topic")
    torch = forge.one(Request("torch", ref="topic", line="2.9"))
    assert (torch.origin, torch.commit, torch.why) == (forge.url("fork"), topic, "flag")


def test_the_release_branch_goes_before_what_a_version_names(forge: Forge) -> None:
    forge.add("fork", "release/2.9", files=pins(forge))
    forge.add("triton", "rocm")
    tip = forge.add("triton", "release/3.5.x")
    lines = [msgspec.structs.replace(each, refs={"triton": "rocm"}) for each in forge.table.lines]
    table = ProjectTable(forge.table.project, tuple(lines))
    request = Request("triton", line="2.9", release=True)
    assert forge.one(request, projects=table).commit == tip
    # In a tree that says nothing of the version no other commit is taken for it.
    row = msgspec.structs.replace(forge.table.get("triton"), ref="rocm")
    table = ProjectTable((*forge.table.project, row), ())
    with pytest.raises(UsageError, match="check torch out first"):
        forge.one(Request("triton", release=True), projects=table)


def test_a_bad_commit_file_is_nothing_to_who_names_the_ref(forge: Forge, torch_tree: Path) -> None:
    tip = forge.add("triton")
    (torch_tree / ".ci/docker/ci_commit_pins/triton.txt").write_text("main\n")
    assert forge.one(Request("triton", ref="main"), torch_dir=torch_tree).commit == tip
    with pytest.raises(InvalidPin, match=r"triton\.txt:1: 'main' is not a complete commit id"):
        forge.one(Request("triton"), torch_dir=torch_tree)


@pytest.mark.parametrize(
    ("requests", "more", "said"),
    [
        ([Request("torch"), Request("torch")], {}, "torch is asked for twice"),
        ([Request("audio"), Request("torchaudio")], {}, "torchaudio is asked for twice"),
        ([Request("torchx")], {}, "unknown project 'torchx'"),
        ([Request("torch", ref="--force")], {}, "'--force' is not a name of a branch"),
        ([Request("torch", origin="--upload-pack=x")], {}, "the origin given for torch starts with a dash"),
        (
            [Request("torch", origin="https://u:hunter2@h/x")],
            {},
            "the origin given for torch contains a login",
        ),
        ([Request("torchaudio", release=True)], {}, "torchaudio has no release branch"),
        ([Request("torch", release=True)], {}, "torch has no release branch"),
        ([Request("triton", release=True)], {"platform": "windows"}, "triton has no release branch"),
        ([Request("triton", release=True, ref="main")], {}, "at its release branch and at main"),
        ([Request("torch")], {"require_related_commit": True}, "torch pins no commit of torch"),
        (
            [Request("triton")],
            {"require_related_commit": True, "platform": "windows"},
            "torch pins no commit of triton",
        ),
        ([Request("torch", line="2.9"), Request("apex", line="2.8")], {}, "at different versions of PyTorch"),
        ([Request("torch", line="2.9"), Request("apex")], {}, "at different versions of PyTorch"),
        ([Request("torch", line="2.8")], {"platform": "windows"}, "2.8 is not supported on windows"),
        ([Request("torch")], {"platform": "darwin"}, "unknown platform 'darwin'"),
    ],
)
def test_contradictions_are_refused(
    forge: Forge, requests: list[Request], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        forge.resolve(*requests, **more)
    assert said in caught.value.what
    assert "hunter2" not in str(caught.value)


def test_requests_for_names() -> None:
    def names(*given: str, platform: str = "linux") -> list[str]:
        return [each.project for each in requests_for(given, PROJECTS, platform=platform)]

    assert names("all") == ["torch", "torchaudio", "torchvision", "triton", "apex"]
    assert names("all", platform="windows") == ["torch", "torchaudio", "torchvision"]
    # What a release may lack can still be asked for.
    assert names("all", "triton", platform="windows") == ["torch", "torchaudio", "torchvision", "triton"]
    assert names("vision", "audio", "torchvision") == ["torchvision", "torchaudio"]
    assert requests_for(["torch"], PROJECTS, line="release/2.9") == (Request("torch", line="2.9"),)
    with pytest.raises(UsageError, match="unknown project 'al'"):
        names("al")
    with pytest.raises(
        UsageError, match=r"2\.7 is not supported on windows\n  next: choose one of: main, nightly,"
    ):
        requests_for(["torch"], PROJECTS, line="2.7", platform="windows")
    assert requests_for(["torch"], PROJECTS, line="2.7")[0].line == "2.7"


def test_a_users_own_project_and_line(forge: Forge) -> None:
    row = msgspec.structs.replace(
        forge.table.get("apex"), name="vllm", directory="vllm", alias=None, pin=None, ref="main"
    )
    line = Line(
        name="mine",
        origin=forge.url("torch"),
        ref="mine",
        linux="supported",
        windows="unsupported",
        refs={"vllm": "rocm"},
    )
    table = ProjectTable((*forge.table.project, row), (*forge.table.line, line))
    tip = forge.add("apex", "rocm")
    forge.add("torch", "mine", files=pins(forge))
    lock = forge.resolve(*requests_for(["vllm", "torch"], table, line="mine"), projects=table)
    assert [(each.project, each.commit, each.why) for each in lock.sources[1:]] == [("vllm", tip, "line")]
    with pytest.raises(UsageError, match="torch pins no commit of vllm, so none can be required"):
        forge.resolve(Request("vllm"), Request("torch"), projects=table, require_related_commit=True)


def test_a_local_origin_is_locked_as_an_absolute_path(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    tip = forge.add("torch")
    monkeypatch.chdir(forge.root)
    found = forge.one(Request("torch", origin="./torch", ref="main"))
    assert (found.origin, found.commit) == (str(forge.root / "torch"), tip)
    monkeypatch.setenv("HOME", str(forge.root))
    assert forge.one(Request("torch", origin="~/torch", ref="main")).origin == str(forge.root / "torch")


def test_choices_go_into_the_lock(forge: Forge) -> None:
    forge.add("torch", "nightly")
    found = forge.one(Request("torch"))
    assert (found.hipify, found.hip_clang, found.submodules, found.directory) == (
        True,
        False,
        True,
        "pytorch",
    )
    found = forge.one(Request("torch", hipify=False, hip_clang=True, submodules=False))
    assert (found.hipify, found.hip_clang, found.submodules) == (False, True, False)


def test_someone_who_watches_is_told_of_every_project(forge: Forge) -> None:
    told: list[tuple[str, ...]] = []

    class Told:
        def expect(self, count: int) -> None:
            told.append(("expect", str(count)))

        def start(self, name: str) -> None:
            told.append(("start", name))

        def note(self, name: str, text: str) -> None:
            pass

        def end(self, name: str, state: str, text: str = "") -> None:
            told.append(("end", name, state, text))

    tip = forge.add("torch", "nightly")
    with pytest.raises(Unreachable):
        forge.resolve(Request("torch"), Request("apex", origin=forge.url("gone"), ref="main"), watch=Told())
    assert told == [
        ("expect", "2"),
        ("start", "resolve torch"),
        ("end", "resolve torch", "done", f"{tip[:12]} (default)"),
        ("start", "resolve apex"),
        ("end", "resolve apex", "failed", ""),
    ]
