"""The quickstart's checkouts: default branches, beside the scripts and in short directories."""

from __future__ import annotations

import re
from typing import Any

from conformance.github import HIPIFY_TAG, UPSTREAM_TAG, go_to_origins, seen
from conformance.table import Row, row
from conformance.world import Shell, Transcript, World

SHORT = "C:/b"


def default_branches(world: World) -> Transcript:
    """The lines for Linux, then those for Windows: on Linux their directory is a folder named `C:`."""

    def play(shell: Shell) -> dict[str, object]:
        world.activate(shell)
        facts = go_to_origins(shell)
        # The script decides where sources go, not the current directory.
        shell("python external-builds/pytorch/pytorch_torch_repo.py checkout", "FD-07")
        shell("cd external-builds/pytorch")
        scripts = shell.cwd
        shell("python pytorch_torch_repo.py checkout", "CL-03", "FD-07", "AU-042", "AU-046", "UR-16")
        shell("python pytorch_audio_repo.py checkout", "CL-04", "FD-08", "AU-042", "AU-043", "UR-17")
        shell("python pytorch_vision_repo.py checkout", "CL-05", "FD-08", "AU-042", "AU-053", "UR-18")
        for name in ("pytorch", "pytorch_audio", "pytorch_vision", "pytorch/third_party/minifmt"):
            facts[name] = seen(scripts / name)
        ids = ("FL-07", "FD-12")
        torch = "python pytorch_torch_repo.py checkout --checkout-dir C:/b/pytorch"
        audio = "python pytorch_audio_repo.py checkout --checkout-dir C:/b/audio"
        vision = "python pytorch_vision_repo.py checkout --checkout-dir C:/b/vision"
        for id_, line in (("CL-06", torch), ("CL-07", audio), ("CL-08", vision)):
            shell(line, id_, *ids)
        short = scripts / SHORT
        places = ("pytorch", "audio", "vision")
        facts["short"] = {name: seen(short / name) for name in places}
        facts["in short"] = sorted(path.name for path in short.iterdir())
        # Pins are those of --torch-dir, which is no more the neighbour than the checkout is.
        shell(torch, more="--gitrepo-origin https://github.com/ROCm/pytorch.git --repo-hashtag release/2.9")
        shell(audio, "CL-07")
        facts["neighbour"] = seen(short / "audio")
        shell(audio, "CL-07", more="--torch-dir C:/b/pytorch")
        shell(vision, "CL-08", more="--torch-dir C:/b/pytorch")
        facts["pinned"] = {name: seen(short / name) for name in places}
        return facts

    return world.scene("checkout-defaults", play)


# Where a command of the quickstart puts a project, what it is called on GitHub, and what stands there.
PLACES = {"pytorch": "pytorch/pytorch", "pytorch_audio": "pytorch/audio", "pytorch_vision": "pytorch/vision"}
OF = {"CL-03": "pytorch", "CL-04": "pytorch_audio", "CL-05": "pytorch_vision", "FD-07": "pytorch",
      "AU-046": "pytorch", "AU-043": "pytorch_audio", "AU-053": "pytorch_vision"}  # fmt: skip
SHORT_OF = {"CL-06": "pytorch", "CL-07": "audio", "CL-08": "vision"}


def at_nightly(facts: dict[str, Any], place: str) -> dict[str, str]:
    """A checkout of the quickstart, after asserting that it is the nightly branch of upstream."""
    state: dict[str, str] = facts[place]
    assert state["origin"] == f"https://github.com/{PLACES[place]}.git"
    assert state[UPSTREAM_TAG] == facts["at"][f"{PLACES[place]} nightly"]
    assert state["status"] == ""
    return state


@row("CL-03", "FD-07")
def torch_goes_beside_the_script_and_is_hipified(world: World, row: Row) -> None:
    scene = default_branches(world)
    scene.of(row.id)
    torch = at_nightly(scene.facts, "pytorch")
    assert torch["head"] == torch[HIPIFY_TAG]
    assert torch["parent"] == torch[UPSTREAM_TAG]
    checkout = scene.home / "rocwright/external-builds/pytorch/pytorch"
    # Sources that upstream does not have, in place of those for CUDA.
    assert "hipMalloc(" in (checkout / "c10/hip/HIPFunctions.cpp").read_text()
    assert (checkout / "aten/src/ATen/native/hip/MatMul.hip").is_file()
    assert (checkout / "aten/src/ATen/native/cuda/MatMul.cu").is_file()
    # The submodule is there, hipified too, and has both tags.
    fmt = scene.facts["pytorch/third_party/minifmt"]
    assert fmt["head"] == fmt[HIPIFY_TAG] != fmt[UPSTREAM_TAG]
    platform = checkout / "third_party/minifmt/include/minifmt/platform.h"
    assert "__HIP_PLATFORM_AMD__" in platform.read_text()
    # From the repository's root and from the script's directory it is the same checkout.
    assert not (scene.home / "rocwright/pytorch").exists()


@row("CL-04", "CL-05")
def audio_and_vision_are_nightly_where_torch_pins_none(world: World, row: Row) -> None:
    scene = default_branches(world)
    said = scene.of(row.id)
    state = at_nightly(scene.facts, OF[row.id])
    assert state["head"] == state[UPSTREAM_TAG] == state[HIPIFY_TAG]
    assert "related_commits" not in scene.facts["pytorch"]["files"].split()
    assert re.search(r" nightly +[0-9a-f]{12}  default$", said.err, re.MULTILINE)


@row("AU-042", "AU-043", "AU-046", "AU-053")
def the_default_origins_are_upstream_s(world: World, row: Row) -> None:
    scene = default_branches(world)
    for place in [OF[row.id]] if row.id in OF else PLACES:
        assert "--gitrepo-origin" not in scene.of(row.id).line
        at_nightly(scene.facts, place)


@row("CL-06", "CL-07", "CL-08", "FL-07", "FD-12")
def a_short_directory_is_the_checkout_itself(world: World, row: Row) -> None:
    scene = default_branches(world)
    scene.of(row.id)
    facts: dict[str, Any] = scene.facts
    # Nothing is nested; beside the checkouts lies what they are.
    assert facts["in short"] == ["audio", "pytorch", "sources.lock.json", "vision"]
    for name in [SHORT_OF[row.id]] if row.id in SHORT_OF else SHORT_OF.values():
        assert facts["short"][name]["head"] == facts[name if name == "pytorch" else f"pytorch_{name}"]["head"]
        assert ".git" in facts["short"][name]["files"].split()
    if row.id != "CL-06":
        # torch in C:/b has pins by now, and the one beside the scripts has none.
        assert facts["neighbour"]["head"] == facts["at"]["pytorch/audio nightly"]
        assert "related_commits" in facts["pinned"]["pytorch"]["files"].split()
        for name in ("audio", "vision"):
            assert facts["pinned"][name]["head"] == facts["at"][f"pytorch/{name} release/2.9"]
