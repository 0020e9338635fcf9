"""What moved between two sets, against hand-written manifests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocwright.model.sets import FileEntry, SetManifest, new_set
from rocwright.store.sets.diff import Moved, diff_sets

OLD, NEW = "0123456789abcdef0123456789abcdef01234567", "89abcdef0123456789abcdef0123456789abcdef"


def entry(name: str, digest: str = "a", size: int = 10) -> FileEntry:
    project, version = name.split("-")[:2]
    return FileEntry(name, digest * 64, size, project.replace("_", "-"), version)


def made(
    *files: FileEntry,
    targets: Sequence[str] = ("gfx942",),
    sources: Mapping[str, str] | None = None,
    family: str = "fam",
    platform: str = "linux",
) -> SetManifest:
    return new_set(family=family, targets=targets, platform=platform, files=files, sources=sources or {})


TORCH, VISION = entry("torch-2.9-cp312-x.whl"), entry("torchvision-0.24-cp312-x.whl")


def test_the_same_set_has_not_moved() -> None:
    found = diff_sets(made(TORCH), made(TORCH))
    assert (found.summary, found.projects, found.added, found.rebuilt) == ("the same set", (), (), ())


def test_a_nightly_names_versions_and_short_commits() -> None:
    after = entry("torch-2.10-cp312-x.whl", "b", size=25)
    found = diff_sets(
        made(TORCH, VISION, sources={"torch": OLD, "rocm": "7.1"}),
        made(after, VISION, sources={"torch": NEW, "rocm": "7.1"}),
    )
    assert found.summary == "moved: torch 2.9 to 2.10; sources: torch 0123456789 to 89abcdef01"
    assert found.projects == (Moved("torch", "2.9", "2.10"),)
    # The whole commits, for those who look at them.
    assert found.sources == (Moved("torch", OLD, NEW),)
    assert (found.added, found.removed) == (("torch-2.10-cp312-x.whl",), ("torch-2.9-cp312-x.whl",))
    assert (found.size_before, found.size_after) == (20, 35)


def test_a_rebuild_of_the_same_names_is_told_by_its_names() -> None:
    found = diff_sets(made(TORCH, VISION), made(TORCH, entry("torchvision-0.24-cp312-x.whl", "b")))
    assert found.summary == "same names, other bytes: torchvision-0.24-cp312-x.whl"
    assert found.rebuilt == ("torchvision-0.24-cp312-x.whl",)


def test_only_the_sources_may_have_moved() -> None:
    found = diff_sets(made(TORCH, sources={"torch": OLD}), made(TORCH, sources={"torch": NEW, "apex": "1.9"}))
    assert found.summary == "sources: apex none to 1.9, torch 0123456789 to 89abcdef01"


def test_projects_and_targets_that_come_and_go() -> None:
    device = entry("rocm_sdk_device_gfx90a-7.1-py3-x.whl")
    found = diff_sets(
        made(TORCH, device, targets=["gfx90a", "gfx942"]),
        made(TORCH, VISION, targets=["gfx942", "gfx1100", "gfx1030"]),
    )
    assert found.summary == (
        "new: torchvision 0.24; gone: rocm-sdk-device-gfx90a 7.1; "
        "targets added: gfx1030, gfx1100; targets gone: gfx90a"
    )


def test_a_wheel_for_another_python_is_an_other_file_of_the_same_version() -> None:
    found = diff_sets(made(TORCH), made(TORCH, entry("torch-2.9-cp313-x.whl")))
    assert found.summary == "other files: torch-2.9-cp313-x.whl"


def test_several_versions_of_a_project_are_all_named() -> None:
    found = diff_sets(made(TORCH), made(TORCH, entry("torch-2.10-cp312-x.whl", "b")))
    assert found.projects == (Moved("torch", "2.9", "2.10 2.9"),)


def test_a_long_sentence_counts_what_it_does_not_name() -> None:
    old = [entry(f"p{number}-1.{number}-py3-x.whl") for number in range(7)]
    new = [entry(f"p{number}-2.{number}-py3-x.whl", "b") for number in range(7)]
    summary = diff_sets(made(*old), made(*new)).summary
    assert summary == "moved: p0 1.0 to 2.0, p1 1.1 to 2.1, p2 1.2 to 2.2, p3 1.3 to 2.3 and 3 more"


def test_packages_that_go_with_another_do_not_hide_what_moved() -> None:
    """One nightly after another for three GPU targets: torch is named, its device packages are counted."""

    def nightly(rocm: str) -> list[FileEntry]:
        targets = ("gfx942", "gfx1100", "gfx1201")
        return [
            *(entry(f"amd_torch_device_{one}-2.10+rocm{rocm}-py3-x.whl") for one in targets),
            *(entry(f"rocm_sdk_device_{one}-{rocm}-py3-x.whl") for one in targets),
            entry(f"rocm-{rocm}-py3-x.whl"),
            entry(f"rocm_sdk_core-{rocm}-py3-x.whl"),
            entry(f"torch-2.10+rocm{rocm}-cp312-x.whl"),
            entry(f"torchvision-0.25+rocm{rocm}-cp312-x.whl"),
            entry(f"torchaudio-0.25+rocm{rocm}-cp312-x.whl"),
        ]

    found = diff_sets(made(*nightly("7.1")), made(*nightly("7.2")))
    assert found.summary == (
        "moved: rocm (and 4 with it) 7.1 to 7.2, torch (and 3 with it) 2.10+rocm7.1 to 2.10+rocm7.2, "
        "torchaudio and torchvision 0.25+rocm7.1 to 0.25+rocm7.2"
    )
    # By machine, each of them.
    assert len(found.projects) == 11


def test_another_family_or_platform_is_said_first() -> None:
    found = diff_sets(made(TORCH), made(TORCH, family="other", platform="windows"))
    assert found.summary == "family fam became other; platform linux became windows"
