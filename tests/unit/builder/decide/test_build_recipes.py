"""A user's own recipes: rows of rocwright.toml under the schema of the built-in ones."""

from __future__ import annotations

import pytest
from plans_by_hand import family, tree, trees

from rocwright.builder.decide.recipe import RecipeTable, load_recipes, recipes
from rocwright.data.overlay import parse_overlay
from rocwright.errors import InvalidData, UsageError

VLLM = """
[[recipes.recipe]]
project = "vllm"
import_name = "vllm"
after = ["torch", "triton"]
optional = ["triton"]
pins = ["torch"]
version_file = "version.txt"
version_env = "VLLM_VERSION_OVERRIDE"
requirements = ["setuptools-scm>=8"]
env = { VLLM_TARGET_DEVICE = "rocm" }
env_linux = { MAX_LINKS = "1" }
"""


def table(text: str) -> RecipeTable:
    return load_recipes(parse_overlay(text, where="mine/rocwright.toml"))


def test_a_project_of_ones_own_is_built_like_the_others() -> None:
    known = trees("/b/") | {"vllm": tree("/b/vllm", "0.11.0")}
    plan = family(table=table(VLLM), trees=known).builds[-1]
    assert (plan.project, plan.version) == ("vllm", "0.11.0+rocm7.10.0")
    assert plan.argv == ("python", "-m", "build", "--wheel", "--no-isolation")
    assert plan.pins == ("torch==${TORCH_VERSION}",)
    assert plan.requirements[-1] == "setuptools-scm>=8"
    expected = {"VLLM_VERSION_OVERRIDE": "0.11.0+rocm7.10.0", "VLLM_TARGET_DEVICE": "rocm", "MAX_LINKS": "1"}
    assert {name: plan.env.get(name) for name in expected} == expected


def test_a_build_that_reads_targets_elsewhere_gets_them_there_as_it_writes_them() -> None:
    text = """
    [[recipes.recipe]]
    project = "attention"
    after = ["torch"]
    targets_env = { GPU_ARCHS = ";", HIP_ARCHITECTURES = "," }
    """
    known = trees("/b/") | {"attention": tree("/b/attention", "2.8.3")}
    env = family(table=table(text), trees=known, targets=("gfx942", "gfx90a")).builds[-1].env
    assert (env["GPU_ARCHS"], env["HIP_ARCHITECTURES"]) == ("gfx942;gfx90a", "gfx942,gfx90a")
    assert env["PYTORCH_ROCM_ARCH"] == "gfx942;gfx90a"


def test_a_row_of_a_known_project_takes_its_place_and_order_follows_after() -> None:
    text = """
    [[recipes.recipe]]
    project = "torch"
    version_file = "version.txt"
    version_env = "PYTORCH_BUILD_VERSION"
    after = ["flags"]
    install = true
    [[recipes.recipe]]
    project = "flags"
    """
    changed = table(text)
    order = [row.project for row in changed.recipe]
    assert sorted(order) == sorted(["flags", *(row.project for row in recipes().recipe)])
    assert order.index("flags") < order.index("torch") < order.index("torchaudio")
    assert changed.get("torch").after == ("flags",)
    assert recipes().get("torch").after == ("triton",)


def test_other_values_are_replaced() -> None:
    changed = table(
        '[recipes]\ntools = ["setuptools==75.0"]\n[recipes.flash_attention]\ntargets = ["gfx906"]'
    )
    assert changed.tools == ("setuptools==75.0",)
    assert changed.flash_attention.targets == ("gfx906",)
    assert changed.recipe == recipes().recipe


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[recipes.recipe]]\nproject = "x"\nafer = []', r"`afer` .*\$\.recipes\.recipe\[0\]"),
        ("[[recipes.recipe]]\nafter = []", r"`project` .*\$\.recipes\.recipe\[0\]"),
        ('[[recipes.recipe]]\nproject = "x"\nhow = "make"', r"'make'.*\$\.recipes\.recipe\[0\]\.how"),
        ('[[recipes.recipe]]\nproject = "x"\nplatforms = ["mac"]', r"platforms has 'mac'.*recipe\[0\]"),
        ('[[recipes.recipe]]\nproject = "x"\nopt_in = ["mac"]', r"opt_in has 'mac'"),
        ('[[recipes.recipe]]\nproject = "x"\npins = ["torch"]', r"pins has 'torch', which is not in after"),
        ('[[recipes.recipe]]\nproject = "x"\ntargets_env = { PATH = ";" }', r"the variable 'PATH'"),
        ('[[recipes.recipe]]\nproject = "x;y"', r"'x;y' is not a distribution name"),
        ('[[recipes.recipe]]\nproject = "x"\nrequirements = ["a=="]', r"'a==' is not a requirement"),
        ('[recipes]\ntools = ["a=="]', r"'a==' is not a requirement"),
        ('[recipes]\ntools = ["wheel"]', r"'wheel', which is not pinned: write wheel==1\.2\.3"),
        # What is written or removed lies in the tree.
        ('[[recipes.recipe]]\nproject = "x"\nper_python = ["../b"]', r"per_python has '\.\./b'"),
        ('[[recipes.recipe]]\nproject = "x"\nper_python = ["."]', r"per_python has '\.'"),
        ('[[recipes.recipe]]\nproject = "x"\nper_python = [""]', r"per_python has ''"),
        (
            '[[recipes.recipe]]\nproject = "x"\nrocm_init = "/e/x.py"',
            r"rocm_init has '/e/x\.py', which is no",
        ),
        ('[[recipes.recipe]]\nproject = "x"\ncopied_windows = {"C:/x" = "y"}', r"copied_windows has 'C:/x'"),
        ('[[recipes.recipe]]\nproject = "x"\nnumber_suffix = "{n}"', r"'\{n\}' has a brace"),
        ('[[recipes.recipe]]\nproject = "x"\noptional = ["torch"]', r"optional has 'torch'"),
        ('[[recipes.recipe]]\nproject = "x"\nversion_env = "V"', r"version_file and version_env go together"),
        ('[[recipes.recipe]]\nproject = "x"\nsetup = []', r"setup is empty"),
        ('[[recipes.recipe]]\nproject = ""', r"project '' is not a distribution name"),
        ('[[recipes.recipe]]\nproject = "x"\nenv = { A = 1 }', r"recipe\[0\]\.env"),
        ('[[recipes.recipe]]\nproject = "x"\nafter = ["tourch"]', r"x is built after 'tourch', which has no"),
        (
            '[[recipes.recipe]]\nproject = "x"\nafter = ["y"]\n'
            '[[recipes.recipe]]\nproject = "y"\nafter = ["x"]',
            r"no build order, .*: x, y",
        ),
        ('[[recipe]]\nproject = "x"', r"cannot have a table 'recipe'"),
    ],
)
def test_a_mistake_is_told_with_file_and_field(text: str, words: str) -> None:
    with pytest.raises(InvalidData, match=words) as caught:
        table(text)
    assert caught.value.where == "mine/rocwright.toml"
    assert caught.value.next_step


def test_an_unknown_project_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'tourch'") as caught:
        recipes().get("tourch")
    assert caught.value.next_step == "known projects: triton, torch, torchaudio, torchvision, apex"
