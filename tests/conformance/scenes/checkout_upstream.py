"""Upstream's main and nightly, each at a desk of its own; and the older document's step 1, with patches."""

from __future__ import annotations

import json
import re
from typing import Any

from conformance.github import HIPIFY_TAG, UPSTREAM_TAG, go_to_origins, locked, planned_version, seen
from conformance.table import Row, row
from conformance.world import Shell, Transcript, World


def main_branches(world: World) -> Transcript:
    """The session of a terminal that is printed, with git's log, then the section of the main branches."""

    def play(shell: Shell) -> dict[str, object]:
        world.activate(shell)
        facts = go_to_origins(shell)
        shell("cd external-builds/pytorch")
        shell("python pytorch_torch_repo.py checkout --repo-hashtag main", "CL-30")
        facts["first"] = seen(shell.cwd / "pytorch")
        shell("cd pytorch", "CL-31")
        shell("git log --oneline", "CL-31")
        shell("cd ..")
        return facts | _section(shell, "main", {"torch": "AU-051", "audio": "AU-044", "vision": "AU-055"})

    return world.scene("checkout-main", play)


def nightly_branches(world: World) -> Transcript:
    """The section of the nightly branches; then a pin is required, which nightly does not have."""

    def play(shell: Shell) -> dict[str, object]:
        world.activate(shell)
        facts = go_to_origins(shell)
        shell("cd external-builds/pytorch")
        facts |= _section(shell, "nightly", {"torch": "AU-052", "audio": "AU-045", "vision": "AU-056"})
        facts["version"] = planned_version(shell, "NM-03")
        shell("python pytorch_audio_repo.py checkout --require-related-commit", "FL-05", code=3)
        return facts

    return world.scene("checkout-nightly", play)


def _section(shell: Shell, branch: str, rows: dict[str, str]) -> dict[str, Any]:
    """The four commands of a section, and what each checkout is at in the end."""
    lines = {"main": ("CL-30", "CL-32", "CL-33"), "nightly": ("CL-35", "CL-36", "CL-37")}[branch]
    torch, audio, vision = (
        f"python pytorch_{name}_repo.py checkout --repo-hashtag {branch}"
        for name in ("torch", "audio", "vision")
    )
    shell(torch, lines[0], "UR-16", "NM-02", rows["torch"])
    shell(audio, lines[1], "UR-17", "NM-02", rows["audio"])
    shell(vision, lines[2], "UR-18", "NM-02", rows["vision"])
    shell("python pytorch_triton_repo.py checkout", "CL-34", "FD-10", "AU-040", "UR-14", "UR-15", "AU-049")
    built = json.loads((shell.cwd / "triton/build_env.json").read_text())
    states = {name: seen(shell.cwd / f"pytorch_{name}") for name in ("audio", "vision")}
    states |= {"torch": seen(shell.cwd / "pytorch"), "triton": seen(shell.cwd / "triton")}
    pins = (shell.cwd / "pytorch/.ci/docker/ci_commit_pins/triton.txt").read_text()
    return {"states": states, "lock": locked(shell.cwd), "build_env": built, "pin": pins}


def at_branch(facts: dict[str, Any], name: str, branch: str) -> dict[str, str]:
    """A checkout of pytorch/NAME, after asserting that the branch of upstream is in it and nothing else."""
    public = "pytorch" if name == "torch" else name
    state: dict[str, str] = facts["states"][name]
    assert state["origin"] == f"https://github.com/pytorch/{public}.git"
    assert state[UPSTREAM_TAG] == facts["at"][f"pytorch/{public} {branch}"]
    assert state["status"] == ""
    return state


@row("CL-30", "CL-35", "AU-051", "AU-052")
def torch_is_at_the_branch_and_hipified(world: World, row: Row) -> None:
    branch = "main" if row.id in ("CL-30", "AU-051") else "nightly"
    scene = main_branches(world) if branch == "main" else nightly_branches(world)
    scene.of(row.id)
    torch = at_branch(scene.facts, "torch", branch)
    assert torch["head"] == torch[HIPIFY_TAG]
    assert torch["parent"] == torch[UPSTREAM_TAG]
    assert scene.facts["lock"]["torch"]["ref"] == f"refs/heads/{branch}"
    if branch == "main":
        # The same command again comes to the same commit, not to another one with another date.
        assert scene.facts["first"] == torch


@row("CL-31")
def the_log_is_as_it_is_printed(world: World, row: Row) -> None:
    scene = main_branches(world)
    lines = scene.of(row.id).out.splitlines()
    ids = [line.partition(" ")[0] for line in lines]
    assert [line.partition(" ")[2] for line in lines[:2]] == [
        "(HEAD, tag: THEROCK_HIPIFY_DIFFBASE) DO NOT SUBMIT: HIPIFY",
        "(tag: THEROCK_UPSTREAM_DIFFBASE, origin/main) Work on main of pytorch/pytorch",
    ]
    assert all(re.fullmatch("[0-9a-f]{7,}", id_) for id_ in ids)
    assert scene.facts["at"]["pytorch/pytorch main"].startswith(ids[1])
    # Upstream's own history goes on below.
    assert [line.partition(" ")[2] for line in lines[2:]] == [
        "Add the miniature pytorch",
        "Say what the miniature pytorch is",
    ]


@row("CL-33", "CL-36", "CL-37", "AU-044", "AU-045", "AU-055", "AU-056")
def audio_and_vision_are_at_the_branch(world: World, row: Row) -> None:
    main = row.id in ("CL-33", "AU-044", "AU-055")
    scene = main_branches(world) if main else nightly_branches(world)
    name = "audio" if row.id in ("CL-36", "AU-044", "AU-045") else "vision"
    scene.of(row.id)
    state = at_branch(scene.facts, name, "main" if main else "nightly")
    # They have no hipify script: both tags are where upstream is.
    assert state["head"] == state[UPSTREAM_TAG] == state[HIPIFY_TAG]
    assert scene.facts["lock"][f"torch{name}"]["why"] == "flag"


@row("UR-16", "UR-17", "UR-18")
def upstream_s_projects_have_both_branches(world: World, row: Row) -> None:
    name = {"UR-16": "torch", "UR-17": "audio", "UR-18": "vision"}[row.id]
    for scene, branch in ((main_branches(world), "main"), (nightly_branches(world), "nightly")):
        assert branch in scene.of(row.id).line
        at_branch(scene.facts, name, branch)


@row("CL-34", "FD-10", "UR-14", "AU-049", "AU-040", "UR-15")
def triton_is_at_the_commit_that_torch_names(world: World, row: Row) -> None:
    scenes = {"main": main_branches(world), "nightly": nightly_branches(world)}
    for branch, scene in scenes.items():
        if row.id in ("UR-14", "AU-049") and branch == "main":
            # These are of the nightly branch alone.
            continue
        scene.of(row.id)
        facts = scene.facts
        triton = facts["states"]["triton"]
        assert facts["pin"] == facts["at"][f"ROCm/triton {branch}"] + "\n"
        assert triton["head"] == triton[UPSTREAM_TAG] == facts["at"][f"ROCm/triton {branch}"]
        assert triton["origin"] == "https://github.com/ROCm/triton.git"
        # It is not hipified, and its wheel shall have no suffix of its own.
        assert HIPIFY_TAG not in triton
        assert facts["build_env"] == {"TRITON_WHEEL_VERSION_SUFFIX": ""}
        torch = facts["at"][f"pytorch/pytorch {branch}"]
        assert facts["lock"]["triton"]["pin"] == f".ci/docker/ci_commit_pins/triton.txt:1 @ {torch}"


@row("FD-08")
def each_project_has_a_script(world: World, row: Row) -> None:
    scene = main_branches(world)
    for name in ("torch", "audio", "vision", "triton"):
        scene.calling(f"pytorch_{name}_repo.py")
    for name in ("audio", "vision"):
        at_branch(scene.facts, name, "main")


def patches(world: World) -> Transcript:
    """Commits in torch and in its submodule become patch files, and go on top of a fresh checkout again."""

    def play(shell: Shell) -> dict[str, object]:
        world.activate(shell)
        facts = go_to_origins(shell)
        shell("cd external-builds/pytorch")
        scripts = shell.cwd
        shell("python pytorch_torch_repo.py checkout", "FD-28")
        facts["patches at first"] = (scripts / "patches").exists()
        facts["before"] = seen(scripts / "pytorch")
        shell('(cd pytorch && echo "Mended." >>README.md && git commit -qam "Mend the readme")')
        shell("(cd pytorch/third_party/minifmt && echo Too. >>README.md && git commit -qam 'Mend fmt, too')")
        facts["mine"] = seen(scripts / "pytorch")
        refused = shell("python pytorch_torch_repo.py checkout", "CL-49", code=None)
        facts["refused"] = {"code": refused.code, "head": seen(scripts / "pytorch")["head"]}
        shell("python pytorch_torch_repo.py save-patches", "CL-49", "FD-28")
        shell("python pytorch_torch_repo.py checkout --discard", "CL-49", "FD-28")
        facts["discarded"] = seen(scripts / "pytorch")
        shell("python pytorch_torch_repo.py checkout --patches patches", "CL-49", "FD-28")
        facts["patched"] = seen(scripts / "pytorch")
        facts["submodule"] = (scripts / "pytorch/third_party/minifmt/README.md").read_text()
        shell("python pytorch_torch_repo.py checkout --repo-name src", "FL-02", "FD-32")
        shell("(cd src && git log --oneline)", "FD-32")
        facts["src"] = seen(scripts / "src")
        shell("python pytorch_audio_repo.py checkout --repo ../old --repo-name audio", "FL-02", "FL-03")
        shell("python pytorch_vision_repo.py checkout --repo ../old", "FL-03")
        old = scripts.parent / "old"
        facts["old"] = {path.name: seen(path) for path in sorted(old.iterdir()) if path.is_dir()}
        return facts

    return world.scene("checkout-patches", play)


@row("CL-49", "FD-28")
def patches_are_saved_and_applied_when_they_are_asked_for(world: World, row: Row) -> None:
    scene = patches(world)
    saved = scene.of(row.id)
    facts: dict[str, Any] = scene.facts
    scripts = scene.home / "rocwright/external-builds/pytorch"
    # None is needed, and commits of one's own stop a checkout; nothing of them is touched.
    assert facts["patches at first"] is False
    assert facts["before"]["head"] == facts["before"][HIPIFY_TAG]
    assert facts["mine"]["parent"] == facts["before"]["head"]
    assert facts["refused"] == {"code": 11, "head": facts["mine"]["head"]}
    # One file for each commit above the tags, by repository.
    (saved,) = scene.calling("save-patches")
    names = ["0001-Mend-the-readme.patch", "third_party/minifmt/0001-Mend-fmt-too.patch"]
    paths = [scripts / "patches/pytorch" / name for name in names]
    assert saved.out.split() == [str(path) for path in paths]
    assert [path.read_text().count("\n+Mended.\n") for path in paths] == [1, 0]
    assert [path.read_text().count("\n+Too.\n") for path in paths] == [0, 1]
    # Saved ones are off: a checkout is what it was. Given, they go on top of what hipify made.
    assert facts["discarded"] == facts["before"]
    assert facts["patched"]["subject"] == "Mend the readme"
    assert facts["patched"]["status"] == ""
    assert {tag: facts["patched"][tag] for tag in (UPSTREAM_TAG, HIPIFY_TAG)} == {
        tag: facts["before"][tag] for tag in (UPSTREAM_TAG, HIPIFY_TAG)
    }
    assert (scripts / "pytorch/README.md").read_text().endswith("\nMended.\n")
    assert facts["submodule"].endswith("\nToo.\n")


@row("FD-32", "FL-02")
def a_checkout_may_have_another_name(world: World, row: Row) -> None:
    scene = patches(world)
    scene.of(row.id)
    facts: dict[str, Any] = scene.facts
    # `src` beside the script, where the older document enters it.
    assert facts["src"] == facts["before"]
    (log,) = scene.calling("cd src")
    assert log.out.startswith(facts["before"]["head"][:7])
    if row.id == "FL-02":
        assert facts["old"]["audio"][UPSTREAM_TAG] == facts["at"]["pytorch/audio nightly"]


@row("FL-03")
def repo_is_the_directory_that_holds_the_checkout(world: World, row: Row) -> None:
    scene = patches(world)
    said = scene.of(row.id)
    facts: dict[str, Any] = scene.facts
    assert sorted(facts["old"]) == ["audio", "pytorch_vision"]
    assert facts["old"]["pytorch_vision"][UPSTREAM_TAG] == facts["at"]["pytorch/vision nightly"]
    # It says how the same is written today.
    assert "--repo is deprecated; give --checkout-dir ../old/pytorch_vision" in said.err
