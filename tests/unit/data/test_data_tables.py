"""The built-in tables load, and a row that does not fit is named by file and field."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

import rocwright.data
from rocwright.builder.decide.recipe import RecipeTable, recipes
from rocwright.data import load_table, parse_table
from rocwright.errors import InvalidData
from rocwright.model.gpu import Families, parse_target
from rocwright.model.project import ProjectTable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(rocwright.data.__file__).parent
TABLES = sorted(path.stem for path in FOLDER.glob("*.toml"))


@pytest.mark.parametrize("name", TABLES)
def test_every_table_says_where_its_facts_come_from_or_what_it_is(name: str) -> None:
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert tomllib.loads(text)


def test_the_tables_load_into_their_types() -> None:
    assert "gfx94X-dcgpu" in load_table("families", Families).families
    names = [project.name for project in load_table("projects", ProjectTable).projects]
    assert names == ["torch", "torchaudio", "torchvision", "triton", "apex"]
    # In this order the family is built.
    assert [row.project for row in recipes().recipe] == [
        "triton",
        "torch",
        "torchaudio",
        "torchvision",
        "apex",
    ]


def test_recipes_are_built_after_what_stands_before_them() -> None:
    seen: set[str] = set()
    for row in recipes().recipe:
        assert set(row.after) <= seen, row.project
        seen.add(row.project)
        # What others are built against must be installed for them.
        assert all(recipes().get(name).install for name in row.after)


def test_every_recipe_has_a_project_to_check_out() -> None:
    known = {project.name for project in load_table("projects", ProjectTable).projects}
    assert {row.project for row in recipes().recipe} == known


def test_the_demo_builds_for_targets_of_the_table() -> None:
    demo = tomllib.loads((FOLDER / "demo.toml").read_text())
    known = {target for members in load_table("families", Families).families.values() for target in members}
    assert {parse_target(text).base for text in demo["targets"]} <= known


@pytest.mark.parametrize(
    ("text", "type_", "words"),
    [
        ("families = {}\nfamlies = {}", Families, "`famlies`"),
        ('[families]\n"gfx90a-dcgpu" = "gfx90a"', Families, r"\$\.families\[\.\.\.\]"),
        ("[families]\nx = [1]", Families, r"\$\.families\[\.\.\.\]\[0\]"),
        ("", Families, "`families`"),
        (
            '[[project]]\nname="x"\ndirectory="x"\norigin="o"\nhipify="yes"\nsubmodules=true',
            ProjectTable,
            r"\$\.project\[0\]\.hipify",
        ),
        (
            '[[project]]\nname="x"\ndirectory="x"\norigin="o"\nhipify=true\nsubmodules=true\nhipfy=true',
            ProjectTable,
            "`hipfy`",
        ),
        (
            '[[project]]\nname="x"\ndirectory="x"\norigin="o"\nhipify=true\nsubmodules=true\n'
            'pin={kind="commits", file="f", key="k"}',
            ProjectTable,
            r"'commits'.*\$\.project\[0\]\.pin\.kind",
        ),
        (
            '[preload]\nlinux=[]\n[flash_attention]\ntargets=[]\n[[recipe]]\nproject="p"\nversion_file="v"\n'
            'version_env="V"\nafer=["x"]',
            RecipeTable,
            r"`afer`.*\$\.recipe\[0\]",
        ),
    ],
)
def test_a_field_that_does_not_fit_is_named(text: str, type_: type[msgspec.Struct], words: str) -> None:
    with pytest.raises(InvalidData, match=words) as caught:
        parse_table(text, type_, where="mine/rocwright.toml")
    assert caught.value.where == "mine/rocwright.toml"
    assert "mine/rocwright.toml" in str(caught.value)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("text", ["families = ", "[families]\n[families]", "a = 1\na = 2"])
def test_text_that_is_no_toml_is_named(text: str) -> None:
    with pytest.raises(InvalidData, match=r"x\.toml is not valid TOML: .*(line|document)"):
        parse_table(text, Families, where="x.toml")


def test_no_gpu_target_is_named_in_code() -> None:
    """Facts are data: what names a target stands in a table."""
    import re

    source = FOLDER.parent
    named = {}
    for path in sorted(source.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        code = re.sub(
            r'""".*?"""|#[^\n]*|(next_step=)?f?"[^"\n]*like [^"\n]*"|e\.g\.[^"\n]*', "", text, flags=re.DOTALL
        )
        if found := re.findall(r'"gfx[0-9]+[0-9a-f]{2}"', code):
            named[path.name] = found
    assert named == {}
