"""Families of two small projects that need nothing but Python: order, resumption, isolation, proof."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from rocwright.builder.decide.family import FamilyPlan
from rocwright.builder.decide.plan import BuildPlan
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.family import FamilyResult, run_family
from rocwright.builder.units.report import Uncompiled
from rocwright.errors import CommandFailed, InvalidWheel, UsageError
from rocwright.system.interpreters import running_interpreter
from rocwright.system.locks import turn
from rocwright.system.venv import Environment, create, installed

# Writes a wheel by hand, and tells in `log.json` what it saw; `behave` in the tree makes it misbehave.
SETUP = """
import json, os, sys, time, zipfile
from pathlib import Path
name, version = os.environ["TOY_NAME"], os.environ["TOY_VERSION"]
behave = Path("behave").read_text() if Path("behave").exists() else ""
Path("build").mkdir(exist_ok=True)
Path("build/object").write_text("compiled")
Path("build/.ninja_log").write_text("# ninja log v5\\n0\\t2000\\t0\\tkernel.o\\tabc\\n")
try:
    import base
    seen = base.__version__
except ImportError:
    seen = None
with open(os.environ["TOY_LOG"], "a") as log:
    log.write(json.dumps({"name": name, "base": seen, "env": dict(os.environ),
        "generated": Path("generated.py").exists()}) + "\\n")
if behave == "hang":
    time.sleep(600)
if behave == "fail":
    print("the password is", os.environ.get("MY_PASSWORD"))
    sys.exit("kernel.hip:7: error: no such thing")
dist = Path(sys.argv[-1])
dist.mkdir(parents=True)
info = f"{name}-{version}.dist-info"
with zipfile.ZipFile(dist / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
    text = "import nowhere" if behave == "no-import" else f"__version__ = {version!r}"
    wheel.writestr(f"{name}/__init__.py", text + "\\n" + Path("code.txt").read_text())
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    names = [*wheel.namelist(), f"{info}/RECORD"]
    wheel.writestr(f"{info}/RECORD", "".join(f"{each},,\\n" for each in names))
"""


@dataclass
class Toys:
    """`base`, which is installed, and `top`, which pins it."""

    root: Path
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("base", "top"):
            tree = self.root / name
            tree.mkdir(parents=True)
            (tree / "setup.py").write_text(SETUP)
            (tree / "code.txt").write_text("# one\n")
        (self.root / "rocm" / "lib").mkdir(parents=True)

    def plan(self, *, base: str = "1.0", **changes: object) -> FamilyPlan:
        root = str(self.root / "rocm")
        rocm = Rocm(version="7.1", root=root, bin=f"{root}/bin", cmake=f"{root}/lib/cmake", origin="prefix")
        return FamilyPlan(
            "linux",
            "nightly",
            ("gfx942",),
            rocm,
            (
                self.build("base", base, install=True, generated={"generated.py": "made = 1\n"}),
                self.build("top", "2.0+${BASE_VERSION}", pins=("base==${BASE_VERSION}",), **changes),
            ),
        )

    def build(self, name: str, version: str, **changes: object) -> BuildPlan:
        env = {"TOY_NAME": name, "TOY_VERSION": version, "TOY_LOG": str(self.root / "log.json")}
        values: dict[str, object] = {
            "project": name,
            "directory": str(self.root / name),
            "version": "" if "$" in version else version,
            "argv": ("python", "setup.py", "bdist_wheel"),
            "env": {**env, "PATH": os.environ["PATH"]},
            "python": running_interpreter().name,
            **changes,
        }
        return BuildPlan(**values)

    def run(self, plan: FamilyPlan | None = None, **options: object) -> FamilyResult:
        interpreter = running_interpreter()
        values: dict[str, object] = {
            "interpreters": {interpreter.name: interpreter},
            "resume": True,
            "note": self.said.append,
            **options,
        }
        return run_family(
            plan or self.plan(),
            output_dir=self.root / "out",
            work_dir=self.root / "work",
            **values,
        )

    @property
    def wheels(self) -> list[str]:
        out = self.root / "out"
        return sorted(path.name for path in out.iterdir()) if out.exists() else []

    @property
    def builds(self) -> list[dict[str, object]]:
        """What each build saw, in order; forgotten after being asked."""
        log = self.root / "log.json"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    @property
    def built(self) -> list[object]:
        return [each["name"] for each in self.builds]


@pytest.fixture
def toys(tmp_path: Path) -> Toys:
    return Toys(tmp_path / "toys")


def told(build: dict[str, object]) -> dict[str, str]:
    """The environment of a build without what every shell sets itself, and the mark of the run."""
    env = msgspec.convert(build["env"], dict[str, str])
    own = {"_", "OLDPWD", "PWD", "SHLVL", "COLUMNS", "LINES", "ROCWRIGHT_RUN"}
    return {name: value for name, value in env.items() if name not in own}


def slow_units(result: FamilyResult) -> list[str]:
    """The projects of the units in a report."""
    assert result.report is not None
    return sorted(unit.project for unit in result.report.slowest)


TAG = running_interpreter().tag


def test_device_sources_that_no_compiler_saw_are_told(toys: Toys) -> None:
    kernels = toys.root / "base" / "kernels"
    kernels.mkdir()
    for name in ("kernel.hip", "forgotten.hip", "host.cpp"):
        (kernels / name).write_text("")
    report = toys.run().report
    assert report is not None
    assert report.uncompiled == {"base": (Uncompiled("kernels", ("forgotten.hip",), 2),), "top": ()}
    written = json.loads((toys.root / "work/units/report.json").read_text())["uncompiled"]
    assert written["base"] == [{"directory": "kernels", "sources": ["forgotten.hip"], "of": 2}]


BASE, TOP = "base-1.0-py3-none-any.whl", "top-2.0+1.0-py3-none-any.whl"


@pytest.mark.slow
def test_a_family_is_built_in_order_proven_and_not_built_again(toys: Toys) -> None:
    result = toys.run()
    base, top = toys.builds
    assert [base["name"], base["base"], base["generated"]] == ["base", None, True]
    assert [top["name"], top["base"], top["generated"]] == ["top", "1.0", False]
    assert toys.wheels == [BASE, TOP]
    assert [(wheel.project, wheel.version) for wheel in result.wheels] == [
        ("base", "1.0"),
        ("top", "2.0+1.0"),
    ]
    assert result.resumed == ()
    assert result.proven == (f"{TAG}-base", f"{TAG}-top")
    proof = toys.root / "work" / "env" / f"proof-{TAG}"
    assert all(Path(each.said.file).is_relative_to(proof) for each in result.proof)
    assert installed(Environment(proof)) == {"base": "1.0", "top": "2.0+1.0"}
    # The pin is in the wheel, though its setup.py knows nothing of it.
    metadata = next(proof.glob("lib/*/site-packages/top-*.dist-info/METADATA")).read_text()
    assert "Requires-Dist: base==1.0\n" in metadata
    assert not (toys.root / "base" / "generated.py").exists()
    assert not (toys.root / "base" / "dist").exists()

    assert slow_units(result) == ["base", "top"]

    again = toys.run()
    assert toys.builds == []
    assert slow_units(again) == [], "logs of ninja that were there before are of another run"
    assert again.resumed == (f"{TAG}-base", f"{TAG}-top")
    assert (again.wheels, again.proof) == (result.wheels, result.proof)

    # Which Python of a run comes first decides what is cleared away before its build, not what comes out.
    assert toys.run(toys.plan(removed=("build/CMakeCache.txt",))).resumed == again.resumed
    assert toys.builds == []

    # A change of the second is no reason to build the first again; one of the first is, for both.
    (toys.root / "top" / "code.txt").write_text("# two\n")
    once_more = toys.run()
    assert once_more.resumed == (f"{TAG}-base",)
    assert slow_units(once_more) == ["top"]
    assert toys.built == ["top"]
    (toys.root / "base" / "code.txt").write_text("# two\n")
    assert toys.run().resumed == ()
    assert toys.built == ["base", "top"]


@pytest.mark.slow
def test_a_wheel_that_serves_several_pythons_is_built_once(toys: Toys) -> None:
    """A second one of its name would take the place of the first."""
    one = running_interpreter()
    # As far as tags go, another.
    other = msgspec.structs.replace(one, version="3.99")
    plan = toys.plan()
    builds = (*plan.builds, *(msgspec.structs.replace(build, python="3.99") for build in plan.builds))
    plan = msgspec.structs.replace(plan, builds=builds)
    interpreters = {one.name: one, other.name: other}
    result = toys.run(plan, interpreters=interpreters)
    assert toys.built == ["base", "top"]
    assert [wheel.python for wheel in result.wheels] == [one.name, one.name, "3.99", "3.99"]
    assert result.proven == (f"{TAG}-base", f"{TAG}-top", "cp399-base", "cp399-top")
    assert toys.run(plan, interpreters=interpreters).resumed == (f"{TAG}-base", f"{TAG}-top")
    assert toys.built == []


@pytest.mark.slow
def test_what_was_damaged_or_is_unwanted_is_built_again(toys: Toys) -> None:
    toys.run()
    assert toys.built == ["base", "top"]
    (toys.root / "out" / TOP).write_bytes(b"damaged")
    assert toys.run().resumed == (f"{TAG}-base",)
    assert toys.built == ["top"]
    (toys.root / "out" / BASE).unlink()
    # Its bytes come out the same but for the times in it, so what was built against it may differ.
    toys.run()
    assert toys.built[0] == "base"
    assert toys.run(resume=False).resumed == ()
    assert toys.built == ["base", "top"]
    # An environment that is gone is made again, with what is built already.
    subprocess.run(["rm", "-r", str(toys.root / "work" / "env")], check=True)
    (toys.root / "top" / "code.txt").write_text("# three\n")
    assert toys.run().resumed == (f"{TAG}-base",)
    assert [each["base"] for each in toys.builds] == ["1.0"]


@pytest.mark.slow
def test_an_earlier_version_is_not_in_the_environment_of_the_next_build(toys: Toys) -> None:
    toys.run()
    toys.builds  # noqa: B018
    toys.run(toys.plan(base="1.1"))
    base, top = toys.builds
    assert (base["base"], top["base"]) == (None, "1.1")


@pytest.mark.slow
def test_a_failing_build_leaves_what_was_finished_and_says_how_to_run_it_again(
    toys: Toys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_PASSWORD", "hunter2hunter2")
    monkeypatch.setenv("ROCM_HOME", "/opt/rocm-of-the-caller")
    (toys.root / "top" / "behave").write_text("fail")
    with pytest.raises(CommandFailed, match="exit code 1") as caught:
        toys.run()
    assert toys.wheels == [BASE]
    error = caught.value
    log = toys.root / "work" / "log" / f"{TAG}-top.log"
    assert (error.status, error.cwd, error.log) == (1, str(toys.root / "top"), str(log))
    assert "kernel.hip:7: error: no such thing" in error.tail
    assert "hunter2" not in str(error) + log.read_text()
    first = toys.builds[-1]

    # Pasted into the caller's shell it fails in the same way, in the same environment.
    again = subprocess.run(
        ["/bin/sh", "-c", error.command], cwd=error.cwd, capture_output=True, text=True, check=False
    )
    assert again.returncode == 1
    assert "kernel.hip:7: error: no such thing" in again.stderr
    (second,) = toys.builds
    assert told(first) == told(second)
    assert "ROCM_HOME" not in told(first)

    (toys.root / "top" / "behave").unlink()
    assert toys.run().resumed == (f"{TAG}-base",)


@pytest.mark.slow
def test_a_wheel_that_does_not_import_is_named_and_stays_unproven(toys: Toys) -> None:
    (toys.root / "top" / "behave").write_text("no-import")
    with pytest.raises(InvalidWheel, match="1 of 2 wheels do not work in a fresh environment") as caught:
        toys.run()
    assert (
        f"{TOP}: top was built, but cannot be imported: ModuleNotFoundError: No module named 'nowhere'"
        in str(caught.value)
    )
    assert toys.wheels == [BASE, TOP]
    # Not forgotten in the next run, which builds nothing.
    with pytest.raises(InvalidWheel, match="1 of 2 wheels"):
        toys.run()
    assert toys.built == ["base", "top"]


def test_one_that_later_builds_need_and_that_does_not_import_is_not_put_out(toys: Toys) -> None:
    (toys.root / "base" / "behave").write_text("no-import")
    with pytest.raises(InvalidWheel, match="base was built, but cannot be imported: ModuleNotFoundError"):
        toys.run()
    assert toys.wheels == []
    assert toys.built == ["base"]


@pytest.mark.slow
def test_a_build_sees_nothing_of_the_callers_python_and_rocm(
    toys: Toys, monkeypatch: pytest.MonkeyPatch
) -> None:
    unwanted = [
        *("PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "PIP_INDEX_URL", "ROCM_HOME"),
        "ROCM_PATH",
        *("HIP_PATH", "HIP_PLATFORM", "CMAKE_PREFIX_PATH", "PYTORCH_ROCM_ARCH", "BUILD_VERSION"),
    ]
    for name in unwanted:
        monkeypatch.setenv(name, "/of/the/caller")
    monkeypatch.setenv("CXX", "my-own-c++")
    monkeypatch.setenv("CMAKE_POLICY_VERSION_MINIMUM", "3.5")
    only = msgspec.structs.replace(toys.plan(), builds=toys.plan().builds[:1])
    toys.run(only)
    (base,) = toys.builds
    env = told(base)
    assert set(unwanted) & set(env) == set()
    assert (env["CXX"], env["CMAKE_POLICY_VERSION_MINIMUM"]) == ("my-own-c++", "3.5")
    # Another compiler is another wheel, as is a switch of the project's; a directory of the login is not.
    monkeypatch.setenv("CXX", "c++")
    assert toys.run(only).resumed == ()
    monkeypatch.setenv("REL_WITH_DEB_INFO", "1")
    assert toys.run(only).resumed == ()
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1")
    assert toys.run(only).resumed == (f"{TAG}-base",)


@pytest.mark.slow
def test_a_run_that_is_killed_is_taken_up_with_the_right_result(toys: Toys, tmp_path: Path) -> None:
    (toys.root / "top" / "behave").write_text("hang")
    (toys.root / "top" / "generated.py").write_text("of upstream\n")
    plan = toys.plan(generated={"generated.py": "made = 2\n"})
    (tmp_path / "plan.json").write_bytes(msgspec.json.encode(plan))
    script = (
        "import sys, msgspec\nfrom pathlib import Path\n"
        "from rocwright.builder.decide.family import FamilyPlan\n"
        "from rocwright.builder.run.family import run_family\n"
        "from rocwright.system.interpreters import running_interpreter\n"
        f"root = Path({str(toys.root)!r})\n"
        f"plan = msgspec.json.decode(Path({str(tmp_path / 'plan.json')!r}).read_bytes(), type=FamilyPlan)\n"
        "me = running_interpreter()\n"
        "run_family(plan, interpreters={me.name: me}, output_dir=root / 'out', work_dir=root / 'work',"
        " resume=True, note=lambda text: None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as run:
        deadline = time.monotonic() + 60
        log = toys.root / "log.json"
        while not log.exists() or log.read_text().count("\n") < 2:
            assert time.monotonic() < deadline and run.poll() is None
            time.sleep(0.05)
        run.send_signal(signal.SIGKILL)
    # In the tree stands what the build had put there, and its compiler is still at work.
    assert (toys.root / "top" / "generated.py").read_text() == "made = 2\n"
    (toys.root / "top" / "behave").unlink()
    toys.builds  # noqa: B018
    result = toys.run(plan)
    assert result.resumed == (f"{TAG}-base",)
    assert toys.built == ["top"]
    assert (toys.root / "top" / "generated.py").read_text() == "of upstream\n"
    assert "ended 1 processes that an earlier run had left running" in toys.said
    assert toys.run(plan).resumed == (f"{TAG}-base", f"{TAG}-top")


@pytest.mark.slow
def test_an_editable_project_needs_an_environment_and_leaves_what_it_generated(toys: Toys) -> None:
    tree = toys.root / "base"
    (tree / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='base', version='1.0', packages=['base'])\n"
    )
    (tree / "base").mkdir()
    (tree / "base" / "__init__.py").write_text("from base._made import answer\n")
    build = toys.build(
        "base",
        "1.0",
        argv=("python", "-m", "pip", "install", "--no-build-isolation", "--no-deps", "-e", "."),
        generated={"base/_made.py": "answer = 42\n"},
        requirements=("setuptools==80.9.0",),
        editable=True,
    )
    plan = msgspec.structs.replace(toys.plan(), builds=(build,))
    with pytest.raises(UsageError, match="base is to be an editable install, but no environment is named"):
        toys.run(plan)
    environment = create(toys.root / "mine")
    result = toys.run(plan, editable_into=environment)
    assert (result.wheels[0].path, result.wheels[0].sha256) == (str(tree), "")
    done = environment.run([str(environment.python), "-c", "import base; print(base.answer, base.__file__)"])
    assert done.stdout == f"42 {tree / 'base' / '__init__.py'}\n"
    assert (tree / "base" / "_made.py").exists()
    assert not (toys.root / "out").exists()


def test_a_plan_without_rocm_or_for_windows_is_not_run(toys: Toys) -> None:
    plan = toys.plan()
    unknown = msgspec.structs.replace(plan, rocm=msgspec.structs.replace(plan.rocm, origin="unknown"))
    with pytest.raises(UsageError, match="made without a ROCm"):
        toys.run(unknown)
    windows = msgspec.structs.replace(plan.builds[0], platform="windows")
    with pytest.raises(UsageError, match="a build for windows cannot be run on this machine"):
        toys.run(msgspec.structs.replace(plan, builds=(windows,)))
    assert toys.wheels == []


def test_two_runs_in_one_work_directory_take_turns(toys: Toys) -> None:
    plan = toys.plan()
    nothing = msgspec.structs.replace(plan, builds=())
    with ThreadPoolExecutor(1) as other:
        with turn(toys.root / "work" / "state" / "lock"):
            waiting = other.submit(toys.run, nothing)
            deadline = time.monotonic() + 30
            while not toys.said:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert not waiting.done()
        assert waiting.result(timeout=30).wheels == ()
    assert toys.said[0] == f"waiting for another run in {toys.root / 'work'}"
