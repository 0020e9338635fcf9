"""Release branches of ROCm's fork, and the commits that they pin, one branch after the other at one desk."""

from __future__ import annotations

import re
from typing import Any

from conformance.github import HIPIFY_TAG, UPSTREAM_TAG, go_to_origins, locked, planned_version, seen
from conformance.scenes import checkout_upstream
from conformance.table import Row, row
from conformance.world import Shell, Transcript, World
from git_repos import git
from rocwright.pipeline.tell import reproduce as reports

TORCH = "python pytorch_torch_repo.py checkout --gitrepo-origin"
# In this order: the branch that is printed comes last. Each spelling of the fork's address has its turn.
ORIGINS = {
    "release/2.10": "https://github.com/ROCm/pytorch.git",
    "release/2.8": "https://github.com/ROCm/pytorch",
    "release/2.7": "https://github.com/ROCm/pytorch/",
    "release/2.9": "https://github.com/ROCm/pytorch.git",
}
# Rows of a branch: for the commands of torch, of audio and vision, of triton.
ROWS = {
    "release/2.10": ((), (), ()),
    "release/2.8": (("AU-022", "AU-032"), ("AU-028",), ("AU-027",)),
    "release/2.7": (("AU-024", "AU-031"), ("AU-026",), ("AU-025",)),
    "release/2.9": (("AU-023", "AU-033"), ("AU-030",), ("AU-029",)),
}


def release_branches(world: World) -> Transcript:
    """Pins are asked for before torch is there, then the section's commands for each of its branches."""

    def play(shell: Shell) -> dict[str, object]:
        world.activate(shell)
        facts = go_to_origins(shell)
        shell("cd external-builds/pytorch")
        for name, id_ in (("audio", "CL-39"), ("vision", "CL-40")):
            shell(f"python pytorch_{name}_repo.py checkout --require-related-commit", id_, code=3)
        facts["left"] = sorted(path.name for path in shell.cwd.glob("pytorch*") if path.is_dir())
        facts["family"] = {branch: _family(shell, branch) for branch in ORIGINS}
        # What is typed goes before what is pinned; a tag and a commit do as well as a branch.
        line = "python pytorch_audio_repo.py checkout --repo-hashtag"
        shell(f"{line} main", "CL-32", "FL-04")
        facts["main"] = seen(shell.cwd / "pytorch_audio")
        facts["why"] = locked(shell.cwd)["torchaudio"]["why"]
        shell(f"{line} v2.9.1", "FL-04")
        facts["tag"] = seen(shell.cwd / "pytorch_audio")
        shell(f"{line} {facts['at']['pytorch/audio nightly']}", "FL-04")
        facts["commit"] = seen(shell.cwd / "pytorch_audio")
        return facts

    return world.scene("checkout-releases", play)


def _family(shell: Shell, branch: str) -> dict[str, Any]:
    """The four commands for a branch, and what came of them."""
    torch, related, triton = ROWS[branch]
    ids = ("CL-38", "FL-01", "NM-01", "NM-02", "UR-10", "UR-11", "FD-63")
    shell(f"{TORCH} {ORIGINS[branch]} --repo-hashtag {branch}", *ids, *torch)
    ids = ("FL-05", "FD-09", "UR-12", *related)
    shell("python pytorch_audio_repo.py checkout --require-related-commit", "CL-39", *ids)
    shell("python pytorch_vision_repo.py checkout --require-related-commit", "CL-40", *ids)
    shell("python pytorch_triton_repo.py checkout", "UR-13", *triton)
    version = planned_version(shell, "NM-03") if branch == "release/2.7" else ""
    places = ("pytorch", "pytorch_audio", "pytorch_vision", "triton")
    states = {name: seen(shell.cwd / name) for name in places}
    log = git(shell.cwd / "pytorch", "log", "-2", "--format=%D: %s").splitlines()
    return {**states, "lock": locked(shell.cwd), "log": log, "version": version}


# The branch that a row is about; those without one are about all of them.
BRANCH_OF = {id_: branch for branch, kinds in ROWS.items() for ids in kinds for id_ in ids}


def branches(row: Row) -> list[str]:
    """The branches that a row is about."""
    return [BRANCH_OF[row.id]] if row.id in BRANCH_OF else list(ORIGINS)


@row("CL-38", "FL-01", "UR-10", "UR-11", "AU-022", "AU-023", "AU-024", "AU-031", "AU-032", "AU-033")
def torch_is_at_the_branch_of_the_fork(world: World, row: Row) -> None:
    scene = release_branches(world)
    typed = [one.line for one in scene.all_of(row.id)]
    facts: dict[str, Any] = scene.facts
    for branch in branches(row):
        torch = facts["family"][branch]["pytorch"]
        assert f"{TORCH} {ORIGINS[branch]} --repo-hashtag {branch}" in typed
        # Upstream has no such branch: these commits are the fork's.
        assert torch[UPSTREAM_TAG] == torch["parent"] == facts["at"][f"ROCm/pytorch {branch}"]
        assert torch["head"] == torch[HIPIFY_TAG]
        assert torch["origin"] == ORIGINS[branch]
        assert torch["status"] == ""


@row("NM-01", "FD-63")
def both_tags_move_with_the_branch(world: World, row: Row) -> None:
    scene = release_branches(world)
    scene.of(row.id)
    family: dict[str, Any] = scene.facts["family"]
    for branch in ORIGINS:
        assert family[branch]["log"] == [
            "HEAD, tag: THEROCK_HIPIFY_DIFFBASE: DO NOT SUBMIT: HIPIFY",
            f"tag: THEROCK_UPSTREAM_DIFFBASE, origin/{branch}: Work on {branch} of ROCm/pytorch",
        ]
    for tag in (UPSTREAM_TAG, HIPIFY_TAG):
        assert len({family[branch]["pytorch"][tag] for branch in ORIGINS}) == len(ORIGINS)


@row("CL-39", "CL-40")
def a_pin_that_is_required_and_missing_is_an_error(world: World, row: Row) -> None:
    scene = release_branches(world)
    first, *later = scene.all_of(row.id)
    # Before torch is there: no checkout, and the message says where the pin was looked for.
    assert first.code == 3
    assert str(scene.home / "rocwright/external-builds/pytorch/pytorch/related_commits") in first.err
    assert "--torch-dir" in first.err
    assert scene.facts["left"] == []
    assert [one.code for one in later] == [0, 0, 0, 0]
    _pinned(scene.facts, list(ORIGINS), ["audio" if row.id == "CL-39" else "vision"])


@row("FL-05")
def without_pins_only_the_strict_way_fails(world: World, row: Row) -> None:
    nightly, releases = checkout_upstream.nightly_branches(world), release_branches(world)
    refused = nightly.of(row.id)
    assert refused.code == 3
    assert "no pin for torchaudio" in refused.err
    assert "--torch-dir" in refused.err
    assert {one.code for one in releases.all_of(row.id)} == {0}
    _pinned(releases.facts, list(ORIGINS), ["audio", "vision"])


@row("FD-09", "UR-12", "AU-026", "AU-028", "AU-030")
def related_commits_decides_for_audio_and_vision(world: World, row: Row) -> None:
    scene = release_branches(world)
    scene.of(row.id)
    _pinned(scene.facts, branches(row), ["audio", "vision"])


def _pinned(facts: dict[str, Any], of: list[str], names: list[str]) -> None:
    """Each is at the commit that the torch of that branch pins, which is not the tip of its own branch."""
    line = {"audio": 1, "vision": 3}
    for branch in of:
        family = facts["family"][branch]
        for name in names:
            state = family[f"pytorch_{name}"]
            assert state["head"] == facts["at"][f"pytorch/{name} {branch}"]
            assert state["origin"] == f"https://github.com/pytorch/{name}"
            torch = facts["at"][f"ROCm/pytorch {branch}"]
            assert family["lock"][f"torch{name}"]["pin"] == f"related_commits:{line[name]} @ {torch}"


@row("UR-13", "AU-025", "AU-027", "AU-029")
def the_pin_of_triton_is_one_commit_of_the_branch(world: World, row: Row) -> None:
    scene = release_branches(world)
    scene.of(row.id)
    facts: dict[str, Any] = scene.facts
    scripts = scene.home / "rocwright/external-builds/pytorch"
    for branch in branches(row):
        torch, expected = facts["at"][f"ROCm/pytorch {branch}"], facts["at"][f"ROCm/triton {branch}"]
        text = git(scripts / "pytorch", "show", f"{torch}:.ci/docker/ci_commit_pins/triton.txt")
        assert re.fullmatch("[0-9a-f]{40}", text) and text == expected
        assert facts["family"][branch]["triton"]["head"] == expected
        pin = facts["family"][branch]["lock"]["triton"]["pin"]
        assert pin == f".ci/docker/ci_commit_pins/triton.txt:1 @ {torch}"


@row("CL-32")
def what_is_typed_goes_before_a_pin(world: World, row: Row) -> None:
    scene = release_branches(world)
    scene.of(row.id)
    facts: dict[str, Any] = scene.facts
    # torch's checkout beside it pins another commit.
    assert facts["family"]["release/2.9"]["pytorch_audio"]["head"] == facts["at"]["pytorch/audio release/2.9"]
    assert facts["main"]["head"] == facts["at"]["pytorch/audio main"]
    assert facts["why"] == "flag"
    plain = checkout_upstream.main_branches(world)
    plain.of(row.id)
    checkout_upstream.at_branch(plain.facts, "audio", "main")


@row("FL-04")
def a_ref_is_a_branch_a_tag_or_a_commit(world: World, row: Row) -> None:
    scene = release_branches(world)
    assert [one.line.split()[-1] for one in scene.all_of(row.id)][:2] == ["main", "v2.9.1"]
    facts: dict[str, Any] = scene.facts
    expected = {"main": "main", "tag": "release/2.9", "commit": "nightly"}
    assert {kind: facts[kind]["head"] for kind in expected} == {
        kind: facts["at"][f"pytorch/audio {branch}"] for kind, branch in expected.items()
    }


@row("NM-02")
def every_named_branch_is_accepted(world: World, row: Row) -> None:
    scenes = [
        checkout_upstream.main_branches(world),
        checkout_upstream.nightly_branches(world),
        release_branches(world),
    ]
    refs = {one.line.split()[-1] for scene in scenes for one in scene.all_of(row.id)}
    assert refs == {"main", "nightly", "release/2.7", "release/2.8", "release/2.9", "release/2.10"}
    # Reports of tests find the repository of each, too: release/ is the fork's.
    for ref in refs:
        owner = "ROCm" if ref.startswith("release/") else "pytorch"
        about = reports.tested(torch="2.9.1", python="3.12", ref=ref, index="https://example.org/")
        assert (
            f"* PyTorch source code: <https://github.com/{owner}/pytorch/tree/{ref}>"
            in reports.test_report(about)
        )


@row("NM-03")
def an_alpha_is_upstream_s_and_a_release_has_no_suffix(world: World, row: Row) -> None:
    nightly, releases = checkout_upstream.nightly_branches(world), release_branches(world)
    nightly.of(row.id)
    releases.of(row.id)
    assert nightly.facts["version"] == "2.10.0a0+rocm7.10.0"
    assert releases.facts["family"]["release/2.7"]["version"] == "2.7.1+rocm7.10.0"
