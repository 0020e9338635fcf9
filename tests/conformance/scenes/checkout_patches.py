"""Step 1 of the older document, its patches, and its spellings of where a checkout lies."""

from __future__ import annotations

from typing import Any

from conformance.cases import row
from conformance.github import HIPIFY_TAG, UPSTREAM_TAG, go_to_origins, seen
from conformance.table import Row
from conformance.world import Shell, Transcript, World


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
