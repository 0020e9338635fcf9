"""Where a fact comes from: built in or a rocwright.toml, its line, its source; and keys that name nothing."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

import rocwright.data
from command_line import status
from rocwright import cli
from rocwright.data.explain import UnknownKey, explain, list_tables
from rocwright.data.overlay import OVERLAID, parse_overlay

FOLDER = Path(rocwright.data.__file__).parent
OVERLAY = parse_overlay(
    """# Ours.
[channels]
# Mirrors are near.
max_age = 60

[[channels.channel]]
name = "stable"
prefix = "stable"
after = "release"
gate = "tested"

[families.families]
"mi300-lab" = ["gfx942"]
"gfx94X-dcgpu" = ["gfx942", "gfx950"]
""",
    where="my/rocwright.toml",
)


def line(table: str, number: int | None) -> str:
    assert number is not None
    return (FOLDER / f"{table}.toml").read_text(encoding="utf-8").splitlines()[number - 1]


@pytest.mark.parametrize(
    ("key", "value", "written"),
    [
        ("channels.max_age", 300, "max_age = 300"),
        ("families.families.gfx110X-all", ["gfx1100", "gfx1101", "gfx1102", "gfx1103"], '"gfx110X-all" = ['),
        ("families.family.gfx1151.tier", "presubmit", 'tier = "presubmit"'),
        ("families.family.2.name", "gfx1151", 'name = "gfx1151"'),
        # Inside an inline table the line of the field counts.
        ("families.family.gfx1151.linux.pools.0.label", "linux-gfx1151-gpu-rocm", "pools = ["),
        ("compat_libraries.release.7.1.1.versions.hipBLAS", "3.1.0", 'hipBLAS = "3.1.0"'),
        (
            "compat_libraries.release.7.1.1.versions.Composable Kernel",
            "1.1.0",
            '"Composable Kernel" = "1.1.0"',
        ),
        ("compat.data_type.torch.uint16.native", False, "native = false"),
    ],
)
def test_a_built_in_fact_is_found_with_its_line(key: str, value: object, written: str) -> None:
    found = explain(key)
    table = key.partition(".")[0]
    assert (found.value, found.origin, found.where) == (value, "built in", f"data/{table}.toml")
    assert line(table, found.line).startswith(written)


def test_the_source_is_that_of_the_row_or_of_the_longest_key_that_fits() -> None:
    row = explain("compat_libraries.release.5.2.3.versions.RCCL")
    assert row.source == "https://rocm.docs.amd.com/en/docs-5.6.0/CHANGELOG.html"
    assert [str(one) for one in row.sources] == [f"{row.source}, as of ROCm 5.6.0, read 2026-11-22"]
    therock = "https://github.com/ROCm/TheRock/blob/main"
    assert explain("families.families.gfx906-dgpu").source == f"{therock}/cmake/therock_amdgpu_targets.cmake"
    # Two files say it, and both are named.
    assert explain("families.family.gfx900.tier").source.split() == [
        f"{therock}/build_tools/github_actions/amdgpu_family_matrix.py",
        f"{therock}/build_tools/github_actions/configure_pytorch_release_matrix.py",
    ]
    # "miniature" is what this field means by sources: no address.
    assert "miniature" not in explain("profiles.profile.ci.sources").source
    # An issue carries its date itself.
    (issue,) = explain("compat_features.statement.flash-gfx1100-0.10b.answer").sources
    assert str(issue) == "https://github.com/ROCm/aotriton/pull/123"
    assert explain("contract.growth").source == ""
    assert [str(one) for one in explain("contract.growth").sources] == ["this project's own"]
    assert explain("channels.max_age").comment.startswith("How long a client may go on with a page")


def test_a_fact_of_the_overlay_is_told_with_what_it_replaces() -> None:
    found = explain("channels.max_age", OVERLAY)
    assert (found.value, found.origin, found.where, found.line) == (60, "overlay", "my/rocwright.toml", 4)
    assert (found.comment, found.replaces) == ("Mirrors are near.", "300")
    family = explain("families.families.gfx94X-dcgpu", OVERLAY)
    assert (family.value, family.line, family.replaces) == (["gfx942", "gfx950"], 14, '["gfx942"]')
    new = explain("families.families.mi300-lab", OVERLAY)
    assert (new.origin, new.line, new.replaces) == ("overlay", 13, "")


def test_rows_of_the_overlay_count_from_its_own_first() -> None:
    found = explain("channels.channel.stable.gate", OVERLAY)
    assert (found.value, found.origin, found.line) == ("tested", "overlay", 10)
    both = explain("channels.channel", OVERLAY)
    assert both.origin == "built in, and rows of my/rocwright.toml"


def test_what_the_overlay_leaves_alone_is_built_in() -> None:
    for key in ("channels.channel.release.gate", "families.families.gfx906-dgpu", "slurm.each", "channels"):
        assert explain(key, OVERLAY).origin == "built in"


@pytest.mark.parametrize(
    ("key", "message", "hint"),
    [
        ("chanels.max_age", "there is no table 'chanels'", "perhaps channels"),
        ("channels.maxage", "nothing is called 'maxage' in channels; there are: max_age", "perhaps max_age"),
        ("families.families.gfx94X", "nothing is called 'gfx94X'", "gfx94X-all"),
        ("compat_libraries.libraries", "nothing is called 'libraries'", "perhaps library"),
        ("channels.max_age.more", "there are: none, this is a value", "leave out 'more'"),
        ("channels.channel.99", "nothing is called '99' in channels.channel", "name one of these"),
        ("channels.", "nothing is called", ""),
        ("", "there is no table ''", "name one of these"),
        (".", "there is no table ''", "name one of these"),
    ],
)
def test_a_key_that_names_nothing_lists_near_ones(key: str, message: str, hint: str) -> None:
    if key == "channels.":
        # A dot at the end names the table.
        assert explain(key).where == "data/channels.toml"
        return
    with pytest.raises(UnknownKey) as caught:
        explain(key)
    assert message in str(caught.value) and hint in str(caught.value.next_step)
    assert caught.value.exit_code == 3


def test_every_table_is_listed_and_can_be_explained() -> None:
    tables = list_tables(date(2026, 11, 24), OVERLAY)
    assert [one.name for one in tables] == sorted(path.stem for path in FOLDER.glob("*.toml"))
    assert {one.name for one in tables if one.overlaid} == set(OVERLAID)
    assert {one.name: one.where for one in tables if one.where} == {
        "channels": "my/rocwright.toml",
        "families": "my/rocwright.toml",
    }
    for one in tables:
        assert one.about and one.facts > 0
        assert explain(one.name).where == f"data/{one.name}.toml"


@pytest.fixture
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    return tmp_path


def test_what_the_documentation_shows_is_what_is_printed(
    _alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/ask-compatibility.md").read_text(encoding="utf-8")
    key = "compat_libraries.release.10.0.0.versions.hipBLAS"
    assert status("data", "explain", key) == 0
    assert f"$ rocwright data explain {key}\n{capsys.readouterr().out}" in page


def test_the_commands(_alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (_alone / "rocwright.toml").write_text("[channels]\nmax_age = 7\n", encoding="utf-8")
    assert status("data", "explain", "channels.max_age") == 0
    assert capsys.readouterr().out.splitlines() == [
        "channels.max_age = 7",
        "from      overlay: rocwright.toml, line 2",
        "replaces  300",
    ]
    assert status("data", "explain", "families.generic") == 0
    assert (
        "source    https://llvm.org/docs/AMDGPUUsage.html, as of 2026-09, read 2026-11-24"
        in capsys.readouterr().out.splitlines()
    )
    assert status("data", "explain", "channels.max_age", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["value"], found["line"], found["origin"]) == (7, 2, "overlay")
    assert status("data", "list") == 0
    assert "rocwright.toml" in capsys.readouterr().out
    assert status("data", "list", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)) > 20
    assert status("data", "explain", "chanels") == 3
    assert "perhaps channels" in capsys.readouterr().err
