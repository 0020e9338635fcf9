"""A new project of the family is rows of the tables: no line of code knows its name.

`torchspark` is invented. Its rows stand once in a user's rocwright.toml, and once in the built-in tables of a
copy of this package, whose code is this one's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from index_server import serving
from wheels import LOCAL, write_torch, write_wheel

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "rocwright"
SCRIPT = "pytorch_spark_repo.py"
TORCH = f"torch==2.9.0+{LOCAL}"
WHEEL = f"torchspark-1.0+{LOCAL}-cp312-cp312-linux_x86_64.whl"
# By table; the overlay's name for a row is [[table.row]], the table's own [[row]].
ROWS = {
    "projects": """
[[project]]
name = "torchspark"
alias = "spark"
directory = "pytorch_spark"
origin = "@ORIGIN@"
ref = "main"
pin = { kind = "related_commits", file = "related_commits", key = "torchspark" }
hipify = false
submodules = false
script = "external-builds/pytorch/pytorch_spark_repo.py"
""",
    "recipes": """
[[recipe]]
project = "torchspark"
option = "pytorch-spark"
version_file = "version.txt"
version_env = "BUILD_VERSION"
number_env = "BUILD_NUMBER"
after = ["torch"]
pins = ["torch"]
env = { SPARK_GPU = "1" }
""",
    "contract": """
[[package]]
names = ["torchspark"]
rules = ["torch-pin", "required-files"]
required = ["torchspark/__init__.py", "torchspark/_C{.,.*.}{so,pyd}"]
""",
}


@dataclass(frozen=True)
class World:
    """Somewhere that knows the project: a directory to work in, and where rocwright is imported from."""

    home: Path
    path: Path
    commit: str
    first_class: bool

    def run(self, *words: str | Path, code: int = 0) -> str:
        """The output of a command."""
        return self._python(["-m", "rocwright", *map(str, words)], code)

    def help(self, *commands: str) -> list[str]:
        """The help of commands as it is after `docs/generate.py`."""
        made = f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r}); from blocks import commands"
        pages = json.loads(self._python(["-c", f"{made}; print(commands.render_help())"], 0))
        return [json.dumps(pages[command], ensure_ascii=False) for command in commands]

    def script(self, name: str, *words: str) -> str:
        """The output of a documented script under this name: a copy of any other."""
        copy = self.home / name
        copy.write_text((ROOT / "external-builds/pytorch/pytorch_apex_repo.py").read_text())
        return self._python([str(copy), *words], 0)

    def json(self, *words: str | Path, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code))

    def _python(self, words: list[str], code: int) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.home,
            env={
                **os.environ,
                "PYTHONPATH": str(self.path),
                "COLUMNS": "200",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(params=["rocwright.toml", "built-in tables"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    home = tmp_path / "home"
    home.mkdir()
    origin, commit = _origin(tmp_path / "torchspark.git")
    rows = {name: text.replace("@ORIGIN@", origin) for name, text in ROWS.items()}
    if request.param == "rocwright.toml":
        text = "".join(row.replace("[[", f"[[{name}.") for name, row in rows.items())
        (home / "rocwright.toml").write_text(text)
        return World(home, ROOT / "src", commit, first_class=False)
    return World(home, _copied(tmp_path / "copy", rows), commit, first_class=True)


def _origin(place: Path) -> tuple[str, str]:
    """A repository of the project with one commit: its address, and the commit."""
    place.mkdir()
    (place / "version.txt").write_text("1.0\n")
    (place / "setup.py").write_text("from setuptools import setup\nsetup()\n")
    who = ("-c", "user.name=Spark", "-c", "user.email=spark@example.invalid")
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-q", "-m", "Sparks"]):
        subprocess.run(["git", *words], cwd=place, check=True)
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=place, check=True, capture_output=True, text=True
    )
    return place.as_uri(), found.stdout.strip()


def _copied(place: Path, rows: dict[str, str]) -> Path:
    """The package with more rows in its tables: everything but `data` is this checkout's own."""
    package = place / "rocwright"
    package.mkdir(parents=True)
    for entry in PACKAGE.iterdir():
        if entry.name not in ("data", "__pycache__"):
            (package / entry.name).symlink_to(entry)
    (package / "data").mkdir()
    for entry in (PACKAGE / "data").iterdir():
        if entry.is_file():
            more = rows.get(entry.stem, "") if entry.suffix == ".toml" else ""
            (package / "data" / entry.name).write_text(entry.read_text(encoding="utf-8") + more)
    return place


def test_it_is_locked_and_checked_out(world: World) -> None:
    [locked] = world.json("sources", "lock", "spark", "--no-mirror")["sources"]
    assert (locked["project"], locked["directory"], locked["commit"]) == (
        "torchspark",
        "pytorch_spark",
        world.commit,
    )
    planned = world.json("checkout", "torchspark", "--locked", "--no-mirror", "--dry-run")
    assert world.commit in json.dumps(planned)
    assert not (world.home / "pytorch_spark").exists()
    world.run("checkout", "torchspark", "--locked", "--no-mirror")
    assert (world.home / "pytorch_spark" / "version.txt").read_text() == "1.0\n"


def test_its_build_is_planned_against_torch(world: World) -> None:
    for folder, version in (("pytorch", "2.9.0"), ("pytorch_spark", "1.0")):
        (world.home / folder).mkdir()
        (world.home / folder / "version.txt").write_text(f"{version}\n")
        (world.home / folder / "setup.py").write_text("")
    (world.home / "pytorch" / "torch").mkdir()
    given = ("--pytorch-spark-dir", "pytorch_spark") if world.first_class else ()
    words = ("--dry-run", "--platform", "linux", "--pytorch-dir", "pytorch", *given)
    target = ("--pytorch-rocm-arch", "gfx90a", "--version-suffix", f"+{LOCAL}")
    plan = world.json("build", "--output-dir", "dist", *words, *target)
    *_, torch, spark = plan["builds"]
    assert (torch["project"], spark["project"]) == ("torch", "torchspark")
    assert spark["env"]["BUILD_VERSION"] == spark["version"] == f"1.0+{LOCAL}"
    assert spark["env"]["SPARK_GPU"] == "1"
    # Of the version that torch is built with before it.
    assert spark["pins"] == ["torch==${TORCH_VERSION}"]


def test_its_wheel_is_checked(world: World) -> None:
    files = {"torchspark/__init__.py": "", "torchspark/_C.so": "compiled"}
    write_wheel(world.home / "good", "torchspark", f"1.0+{LOCAL}", files, requires=[TORCH])
    write_wheel(world.home / "bad", "torchspark", f"1.0+{LOCAL}", {"torchspark/_C.so": "compiled"})
    assert _errors(world.json("check", "good")) == set()
    assert _errors(world.json("check", "bad", code=9)) == {"torch-pin", "required-files"}


def _errors(report: dict[str, Any]) -> set[str]:
    return {one["rule"] for one in report["findings"] if one["severity"] == "error"}


def test_it_belongs_to_the_family_of_an_index(world: World) -> None:
    place = world.home / "index"
    write_torch(place)
    # Its version says nothing of ROCm: that it is of the family only its row tells.
    files = {"torchspark/__init__.py": "", "torchspark/_C.so": "compiled"}
    write_wheel(place, "torchspark", "1.0", files, requires=[TORCH])
    with serving(place) as index:
        [found] = world.json("set", "create", "--from-index", index.url(), "--list-sets")["sets"]
    assert "torchspark" in json.dumps(found)


def test_the_pipeline_builds_it_behind_torch(world: World) -> None:
    words = ("--families", "gfx90a", "--platforms", "linux", "--pytorch-git-refs", "release/2.9")
    plan = world.json("pipeline", "plan", *words, "--sources", "upstream")
    needs = {cell["id"]: cell["needs"] for cell in plan["cells"]}
    [own] = [id_ for id_ in needs if id_.startswith("build-torchspark/")]
    assert any(need.startswith("build-torch/") for need in needs[own])
    assert own in next(needs[id_] for id_ in needs if id_.startswith("check/"))


def test_the_miniature_family_does_without_it(world: World) -> None:
    plan = world.json("pipeline", "plan", "--sources", "miniature")
    assert [cell["id"] for cell in plan["cells"] if "spark" in cell["id"]] == []
    assert "torchspark is left out: the miniature family has none" in plan["notes"]
    assert "torchspark" not in world.run("demo", "--list-steps")


def test_help_and_documented_script_know_it(world: World) -> None:
    assert "Check out and prepare the sources of torchspark" in world.script(SCRIPT, "--help")
    assert "--require-related-commit" in world.script(SCRIPT, "checkout", "--help")
    if not world.first_class:
        assert "--project-dir" in world.run("build", "--help")
        return
    build, checkout, versions = world.help("build", "checkout", "wheel torch-versions")
    assert {"--pytorch-spark-dir", "--build-pytorch-spark", "--no-build-pytorch-spark"} <= set(
        re.findall(r"--[\w-]+", build)
    )
    assert "apex, torchspark, then projects" in build
    assert "torch, audio, vision, triton, apex, spark, projects" in checkout
    assert "torchspark_version=…" in versions


def test_no_code_names_it() -> None:
    named = [path for path in PACKAGE.rglob("*.py") if "spark" in path.read_text(encoding="utf-8")]
    assert named == []
