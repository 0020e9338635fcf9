"""`rocwright build --project`, up to where compiling would begin: sources, the torch, and what is refused.

The torch is small and the index is on loopback; nothing is compiled here.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import Run
from git_repos import git
from index_server import IndexServer, digest_of, serving
from rocwright.builder.decide.extension import load_extensions
from rocwright.builder.decide.plan import BuildRequest
from rocwright.builder.decide.recipe import load_recipes
from rocwright.builder.order import Order
from rocwright.builder.rocm.place import RocmPlace
from rocwright.builder.run.family import alone_at_work
from rocwright.pipeline.extensions.wish import Wish, ordered
from rocwright.sources.project import parse_source
from rocwright.system import venv
from rocwright.system.interpreters import running_interpreter
from small_extension import TORCH, sdist, sources, torch_wheel
from trees import write
from unit.builder.rocm.rocm_wheels import make_wheel, tree
from wheels import ANY, pack_tar, write_wheel

# Of the torch that these stand on, so that an index can have them for several.
LOCAL = "+torch2.9.0.rocm7.10.0"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexServer]:
    """An index of sdists, and `places` with a torch, beside the current directory."""
    (tmp_path / "index").mkdir()
    torch_wheel(tmp_path / "places")
    sdist(tmp_path / "index", "tiny-scatter", "2.1.2")
    with serving(tmp_path / "index") as server:
        yield server


@pytest.fixture
def build(rocwright: Run, index: IndexServer, tmp_path: Path) -> Callable[..., Any]:
    """A build that is only planned; `code` is how it ends, and then its message comes back."""

    def run(*words: object, code: int = 0, places: str = "places") -> Any:
        options = ["--find-links", tmp_path / places, "--source-index", index.url(), "--output-dir", "out"]
        done = rocwright("build", "--dry-run", "--json", "--pytorch-rocm-arch", "gfx942", *options, *words)
        assert done.code == code, done.err
        assert not Path("out").exists() and not Path("out-work").exists()
        return json.loads(done.out) if code == 0 else done.err

    return run


def of(plan: Any) -> list[tuple[str, str]]:
    return [(each["project"], each["version"]) for each in plan["builds"]]


def test_an_sdist_is_built_against_the_torch_beside_rocm(build) -> None:
    plan = build("--project", "tiny_scatter==2.1.2")
    (one,) = plan["builds"]
    # The ROCm is the one that the wheel of torch requires.
    assert (one["project"], one["version"], one["local"]) == ("tiny-scatter", f"2.1.2{LOCAL}", LOCAL)
    assert one["pins"] == ["torch==${TORCH_VERSION}"]
    assert one["fenced"] is True
    assert one["env"]["FORCE_CUDA"] == "1"
    assert one["env"]["PYTORCH_ROCM_ARCH"] == "gfx942"
    # Nothing of the family is asked for, so nothing of it is told as missing.
    assert plan["left_out"] == {}


def test_the_rocm_that_is_installed_is_the_one_that_torch_requires(build) -> None:
    own = ("--project", "tiny-scatter==2.1.2")
    for words in (own, (*own, "--install-rocm", "--rocm-environment", "env")):
        for spec in (">1.0", ">=7.9", "==7.10.0"):
            assert build(*words, "--rocm-sdk-version", spec)["rocm"]["version"] == "7.10.0"
        for spec in ("<7.10", "==7.11.0"):
            said = build(*words, "--rocm-sdk-version", spec, code=2)
            assert f"requires ROCm 7.10.0, and --rocm-sdk-version is {spec}" in said


def test_sources_and_wheels_do_not_change_below_another_run(index: IndexServer, tmp_path: Path) -> None:
    places, work = tmp_path / "places", tmp_path / "work"
    place, wanted = RocmPlace("own", find_links=(str(places),)), BuildRequest({}, "linux", ())
    order = Order(place, wanted, str(tmp_path / "out"), str(work))

    def bring(note: Callable[[str], None]) -> None:
        wish = Wish((parse_source("tiny-scatter==2.1.2", base=tmp_path),), index.url())
        ordered(order, load_recipes(None), load_extensions(None), wish, folder=work, note=note)

    def wait(text: str) -> None:
        raise InterruptedError(text)

    bring(lambda _: None)
    setup = work / "src" / "tiny-scatter-2.1.2" / "setup.py"
    # The same name and version, and other content.
    sdist(index.folder, "tiny-scatter", "2.1.2", before="# another\n")
    digest_of.cache_clear()
    with alone_at_work(work, lambda _: None), pytest.raises(InterruptedError, match="waiting for another"):
        bring(wait)
    assert "# another" not in setup.read_text()
    bring(lambda _: None)
    assert "# another" in setup.read_text()


def test_an_edit_of_its_row_is_told(rocwright: Run, index: IndexServer, tmp_path: Path) -> None:
    row = '[[extensions.extension]]\nproject = "tiny-scatter"\n[[extensions.extension.edits]]\n'
    words = ["build", "--dry-run", "--pytorch-rocm-arch", "gfx942", "--find-links", tmp_path / "places"]
    words += ["--source-index", index.url(), "--output-dir", "out", "--project", "tiny-scatter==2.1.2"]
    Path("rocwright.toml").write_text(f'{row}file = "csrc/kernel.cu"\nfind = "ARCH"\nput = "ARCH + 0"\n')
    done = rocwright(*words)
    assert done.code == 0
    assert "tiny-scatter: csrc/kernel.cu is changed, as its row in extensions.toml says" in done.err

    Path("rocwright.toml").write_text(f'{row}file = "csrc/kernel.cu"\nfind = "e"\nput = ""\n')
    done = rocwright(*words)
    assert done.code == 3
    assert "csrc/kernel.cu cannot be changed: what is to be changed stands there 4 times" in done.err


def test_what_is_needed_comes_first(build, index: IndexServer) -> None:
    sdist(index.folder, "tiny-sparse", "0.6")
    Path("rocwright.toml").write_text(
        '[[extensions.extension]]\nproject = "tiny-sparse"\nneeds = ["tiny-scatter"]\n'
    )
    plan = build("--project", "tiny-sparse==0.6", "--project", "tiny-scatter==2.1.2")
    assert [name for name, _ in of(plan)] == ["tiny-scatter", "tiny-sparse"]

    said = build("--project", "tiny-sparse==0.6", code=2)
    assert "tiny-scatter is needed, is not built here" in said
    assert "next: build it as well: --project tiny-scatter==VERSION" in said

    # Where a set has it already, that one is taken.
    write_wheel(Path(index.folder).parent / "places", "tiny-scatter", "2.1.2+rocm7.10.0", {}, tag=ANY)
    assert [name for name, _ in of(build("--project", "tiny-sparse==0.6"))] == ["tiny-sparse"]


NEEDS = """
[[extensions.extension]]
project = "tiny-ext"
needs = ["tiny-sparse"]
[[extensions.extension]]
project = "tiny-sparse"
needs = ["tiny-scatter"]
"""


def test_what_is_needed_needs_more_and_nothing_is_given_that_is_built(
    rocwright: Run, index: IndexServer, tmp_path: Path
) -> None:
    sdist(index.folder, "tiny-ext", "1.0")
    Path("rocwright.toml").write_text(NEEDS)
    torch_wheel(index.folder)
    write_wheel(index.folder, "tiny-sparse", f"0.6{LOCAL}", {}, tag=ANY, requires=("tiny-scatter",))
    words = ["build", "--dry-run", "--json", "--project", "tiny-ext==1.0", "--pytorch-rocm-arch", "gfx942"]
    words += ["--index-url", index.url(), "--source-index", index.url(), "--output-dir", "out"]
    # Its row says it, whatever its wheel requires.
    done = rocwright(*words)
    assert done.code == 2
    assert "tiny-scatter is needed, is not built here" in done.err
    scatter = write_wheel(index.folder, "tiny-scatter", f"2.1.2{LOCAL}", {}, tag=ANY)
    assert of(rocwright(*words).json) == [("tiny-ext", f"1.0{LOCAL}")]
    assert scatter.name in index.whole()

    index.asked.clear()
    done = rocwright(*words, "--project", "tiny-scatter==2.1.2")
    # Behind what it needs by way of another.
    assert [name for name, _ in of(done.json)] == ["tiny-scatter", "tiny-ext"]
    assert scatter.name not in index.whole()


def test_what_is_needed_is_that_for_the_same_torch(build, index: IndexServer, tmp_path: Path) -> None:
    places = tmp_path / "places"
    sdist(index.folder, "tiny-sparse", "0.6")
    Path("rocwright.toml").write_text(
        '[[extensions.extension]]\nproject = "tiny-sparse"\nneeds = ["tiny-scatter"]\n'
    )
    newer = "2.10.0+rocm7.10.0"
    torch_wheel(places, newer)
    for torch in (newer, TORCH):
        label = "2.1.2+torch" + torch.replace("+", ".")
        write_wheel(places, "tiny-scatter", label, {}, tag=ANY, requires=(f"torch=={torch}",))
    for torch in (newer, TORCH):
        plan = build("--project", "tiny-sparse==0.6", "--torch", torch)
        assert of(plan) == [("tiny-sparse", "0.6+torch" + torch.replace("+", "."))]
    for path in places.glob("tiny_scatter-*torch2.9.0*"):
        path.unlink()
    said = build("--project", "tiny-sparse==0.6", "--torch", TORCH, code=2)
    assert f"has none for Python {running_interpreter().name} and torch {TORCH}" in said


def test_what_a_build_requires_of_the_same_run_comes_first_and_is_shown_to_it(build) -> None:
    for name, requires in (("my-model", "'My_Ops', 'none-such; python_version<\"3\"'"), ("my-ops", "")):
        for path, text in sources(name).items():
            write(Path(name) / path, text)
        write(
            Path(name) / "pyproject.toml", f"[build-system]\nrequires = ['setuptools', 'torch', {requires}]\n"
        )
    plan = build("--project", "./my-model", "--project", "tiny-scatter==2.1.2", "--project", "./my-ops")
    assert [(each["project"], each["shown"]) for each in plan["builds"]] == [
        ("tiny-scatter", False),
        ("my-ops", True),
        ("my-model", False),
    ]
    # As the wheel that this run builds, and no other.
    assert not any("ops" in text.lower() for text in plan["builds"][2]["requirements"])


def test_a_circle_of_needs_is_told(build, index: IndexServer) -> None:
    sdist(index.folder, "tiny-sparse", "0.6")
    Path("rocwright.toml").write_text(
        '[[extensions.extension]]\nproject = "tiny-sparse"\nneeds = ["tiny-scatter"]\n'
        '[[extensions.extension]]\nproject = "tiny-scatter"\nneeds = ["tiny-sparse"]\n'
    )
    said = build("--project", "tiny-sparse==0.6", "--project", "tiny-scatter==2.1.2", code=3)
    assert "these extensions need one another: tiny-sparse, tiny-scatter" in said


def test_a_directory_an_archive_and_a_list(build, tmp_path: Path) -> None:
    for name, text in sources("my-ext", "3.0").items():
        (Path("mine") / name).parent.mkdir(parents=True, exist_ok=True)
        (Path("mine") / name).write_text(text)
    sdist(Path("archives"), "tiny-cluster", "1.6")
    Path("list.txt").write_text("# ours\n./mine\narchives/tiny_cluster-1.6.tar.gz  # fetched by hand\n\n")
    plan = build("--projects-file", "list.txt")
    assert of(plan) == [("my-ext", f"3.0{LOCAL}"), ("tiny-cluster", f"1.6{LOCAL}")]
    assert plan["builds"][0]["directory"] == str(Path("mine").absolute())


def test_a_commit_of_a_repository(build, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    for name, text in sources("tiny-git", "1.5").items():
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        (origin / name).write_text(text)
    (origin / "PKG-INFO").unlink()
    git(origin, "init", "-q")
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "one")
    git(origin, "tag", "v1.5")
    plan = build("--project", f"git+{origin.as_uri()}@v1.5#tiny-git")
    (one,) = plan["builds"]
    # Only its build knows the version of a repository.
    assert (one["project"], one["version"]) == ("tiny-git", "")
    assert one["env"]["SOURCE_DATE_EPOCH"] == "1700000000"
    # So that the wheels of two commits have two names; what was released is named as ever.
    commit = git(origin, "rev-parse", "HEAD").strip()[:8]
    words = ("--project", "tiny-scatter==2.1.2", "--release-type", "dev")
    plan = build("--project", f"git+{origin.as_uri()}@v1.5#tiny-git", *words)
    assert [each["local"] for each in plan["builds"]] == [f"+git{commit}.{LOCAL[1:]}", LOCAL]

    said = build("--project", f"git+{origin.as_uri()}@v9#tiny-git", code=5)
    assert "has no branch or tag 'v9'" in said
    said = build("--project", f"git+{origin.as_uri()}@v1.5#tiny-other", code=3)
    assert "these are the sources of tiny-git, not of tiny-other" in said


def test_projects_in_directories_of_one_repository(build, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    for name in ("tiny-one", "tiny-two"):
        for path, text in sources(name).items():
            write(origin / "python" / name / path, text)
    git(origin, "init", "-q")
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "both")
    commit = git(origin, "rev-parse", "HEAD").strip()
    repository = f"git+{origin.as_uri()}@{commit}"
    # As pip takes them, and with a name that it has elsewhere.
    one = f"tiny-one @ {repository}#subdirectory=python/tiny-one"
    two = f"{repository}#egg=tiny-two&subdirectory=python%2Ftiny-two/"
    plan = build("--project", one, "--project", two, "--release-type", "dev")
    local = f"1.0+git{commit[:8]}.{LOCAL[1:]}"
    assert of(plan) == [("tiny-one", local), ("tiny-two", local)]
    top = Path(plan["builds"][0]["directory"]).parents[1]
    assert [each["directory"] for each in plan["builds"]] == [
        str(top / "python" / name) for name in ("tiny-one", "tiny-two")
    ]
    said = build("--project", f"{repository}#subdirectory=cxx", code=2)
    assert f"{commit}#subdirectory=cxx: there is no such directory" in said
    said = build("--project", f"{repository}#tiny-one&subdirectory=python", code=3)
    assert "tiny-one has no setup.py, so there is nothing to build" in said
    assert "next: name the directory that has setup.py or pyproject.toml" in said


# -- which torch


def test_of_several_torches_one_is_named(build, tmp_path: Path) -> None:
    torch_wheel(tmp_path / "places", "2.8.0+rocm7.10.0")
    said = build("--project", "tiny-scatter==2.1.2", code=2)
    assert f"has several versions of torch: 2.8.0+rocm7.10.0, {TORCH}" in said
    assert f"next: name one, such as --torch {TORCH}" in said
    build("--project", "tiny-scatter==2.1.2", "--torch", "2.8.0")
    said = build("--project", "tiny-scatter==2.1.2", "--torch", "2.7", code=2)
    assert f"--torch 2.7: places has 2.8.0+rocm7.10.0, {TORCH}" in said
    # By its path, whatever else lies there.
    build("--project", "tiny-scatter==2.1.2", "--torch", tmp_path / f"places/torch-{TORCH}-{ANY}.whl")


def test_a_torch_that_is_named_by_its_file_is_that_file(build, tmp_path: Path) -> None:
    project = ("--project", "tiny-scatter==2.1.2")
    plain = torch_wheel(tmp_path / "mine", "2.9.0")
    other = torch_wheel(tmp_path / "mine", requires=("tiny-filelock",))
    # Of a second build, which a directory has first.
    other.rename(other.with_name(f"torch-{TORCH}-1-{ANY}.whl"))
    named = torch_wheel(tmp_path / "mine")
    assert of(build(*project, "--torch", plain)) == [("tiny-scatter", "2.1.2+rocm${ROCM_VERSION}")]
    (one,) = build(*project, "--torch", named)["builds"]
    assert one["version"] == f"2.1.2{LOCAL}" and "tiny-filelock" not in one["requirements"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("torch.whl", "--torch torch.whl: Invalid wheel filename"),
        (f"triton-3.5.0-{ANY}.whl", f"--torch triton-3.5.0-{ANY}.whl is a wheel of triton"),
    ],
)
def test_a_file_that_is_no_torch_is_told(build, tmp_path: Path, name: str, said: str) -> None:
    torch_wheel(tmp_path / "mine").rename(tmp_path / "mine" / name)
    assert said in build("--project", "tiny-scatter==2.1.2", "--torch", tmp_path / "mine" / name, code=2)


def test_a_torch_without_hip_is_refused(build, tmp_path: Path) -> None:
    torch_wheel(tmp_path / "cpu", "2.9.0", hip=None)
    said = build("--project", "tiny-scatter==2.1.2", places="cpu", code=4)
    assert "torch-2.9.0-py3-none-any.whl is a torch without HIP" in said


def test_a_place_without_torch_is_told(build, tmp_path: Path) -> None:
    write_wheel(tmp_path / "other", "numpy", "2.0", {}, tag=ANY)
    said = build("--project", "tiny-scatter==2.1.2", places="other", code=2)
    assert "there is no torch in other" in said


def test_a_torch_for_another_python_is_told(build, tmp_path: Path) -> None:
    path = torch_wheel(tmp_path / "only")
    path.rename(path.with_name(f"torch-{TORCH}-cp39-cp39-linux_x86_64.whl"))
    said = build("--project", "tiny-scatter==2.1.2", places="only", code=2)
    assert f"there is no torch for Python {running_interpreter().name} on linux in only" in said


def test_what_torch_requires_of_its_own_build_has_to_be_there(build, tmp_path: Path) -> None:
    torch_wheel(
        tmp_path / "more", requires=("triton==3.5.0+rocm7.10.0", "tiny-filelock>=1; python_version>'3'")
    )
    said = build("--project", "tiny-scatter==2.1.2", places="more", code=2)
    assert f"torch {TORCH} requires triton==3.5.0+rocm7.10.0, which more does not have" in said
    write_wheel(tmp_path / "more", "triton", "3.5.0+rocm7.10.0", {}, tag=ANY)
    (one,) = build("--project", "tiny-scatter==2.1.2", places="more")["builds"]
    # What is of no ROCm comes from the user's own index, into the build's environment.
    assert "tiny-filelock>=1" in one["requirements"]
    assert not any("triton" in text or "torch" in text for text in one["requirements"])


def test_what_torch_requires_is_that_for_each_python(build, tmp_path: Path) -> None:
    markup = (
        "tiny-markup<2; python_version<'3.12'",
        "tiny-markup>=2; python_version>='3.12'",
        "tiny-filelock>=1",
    )
    # One for all of them, whose tags tell no Python.
    torch_wheel(tmp_path / "more", requires=markup)
    plan = build("--project", "tiny-scatter==2.1.2", "--python", "3.11,3.12", places="more")
    assert [
        (each["python"], sorted(text for text in each["requirements"] if text.startswith("tiny")))
        for each in plan["builds"]
    ] == [("3.11", ["tiny-filelock>=1", "tiny-markup<2"]), ("3.12", ["tiny-filelock>=1", "tiny-markup>=2"])]


def test_a_torch_of_an_index(rocwright: Run, index: IndexServer, tmp_path: Path) -> None:
    torch_wheel(index.folder)
    options = ["--index-url", index.url(), "--source-index", index.url(), "--output-dir", "out"]
    words = ["--project", "tiny-scatter==2.1.2", "--pytorch-rocm-arch", "gfx942", "--dry-run", "--json"]
    done = rocwright("build", *words, *options)
    assert done.code == 0, done.err
    assert of(done.json) == [("tiny-scatter", f"2.1.2{LOCAL}")]


def test_what_torch_requires_is_taken_for_this_machine_and_python(
    rocwright: Run, index: IndexServer, tmp_path: Path
) -> None:
    """As an index has it that mirrors what torch requires."""
    torch_wheel(index.folder, requires=("tiny-markup",))
    for machine in ("aarch64", "x86_64"):
        write_wheel(index.folder, "tiny-markup", "3.0", {}, tag=f"py3-none-manylinux_2_17_{machine}")
    # The page tells it of one, only its METADATA of the other, and one was withdrawn.
    said, unsaid, gone = (
        write_wheel(index.folder, "tiny-markup", version, {}, tag=ANY, python=python).name
        for version, python in (("5.0", ">=3.99"), ("4.0", ">=3.99"), ("6.0", None))
    )
    index.manner.requires_python = {said: ">=3.99"}
    index.manner.yanked = {gone}
    options = ["--index-url", index.url(), "--source-index", index.url(), "--output-dir", "out"]
    words = ["--project", "tiny-scatter==2.1.2", "--pytorch-rocm-arch", "gfx942", "--dry-run", "--json"]
    done = rocwright("build", *words, *options)
    assert done.code == 0, done.err
    fetched = [name for name in index.whole() if name.startswith("tiny_markup")]
    assert fetched == [unsaid, f"tiny_markup-3.0-py3-none-manylinux_2_17_{platform.machine()}.whl"]


def test_a_withdrawn_torch_is_taken_only_where_it_is_asked_for(
    rocwright: Run, index: IndexServer, tmp_path: Path
) -> None:
    newer = torch_wheel(index.folder, "2.10.0+rocm7.10.0")
    index.manner.yanked = {newer.name}
    words = ["--project", "tiny-scatter==2.1.2", "--pytorch-rocm-arch", "gfx942", "--dry-run", "--json"]
    words += ["--index-url", index.url(), "--source-index", index.url(), "--output-dir", "out"]
    done = rocwright("build", *words)
    assert done.code == 2
    assert "only 2.10.0+rocm7.10.0, for others or withdrawn" in done.err
    older = torch_wheel(index.folder)
    assert of(rocwright("build", *words).json) == [("tiny-scatter", f"2.1.2{LOCAL}")]
    done = rocwright("build", *words, "--torch", "2.10.0")
    assert of(done.json) == [("tiny-scatter", "2.1.2+torch2.10.0.rocm7.10.0")]
    # Of two that are meant, the one that stands.
    torch_wheel(index.folder, "2.9.0+rocm7.11.0")
    done = rocwright("build", *words, "--torch", "2.9.0")
    assert done.code == 2
    assert "has several versions of torch: 2.9.0+rocm7.10.0, 2.9.0+rocm7.11.0" in done.err
    index.manner.yanked.add(older.name)
    done = rocwright("build", *words, "--torch", "2.9.0")
    assert of(done.json) == [("tiny-scatter", "2.1.2+torch2.9.0.rocm7.11.0")]


def prefix(root: Path, version: str) -> Path:
    """A plain ROCm, as far as anyone looks."""
    more = {"/.info/version": f"{version}\n", "/include/hip/hip_version.h": "", "/lib/libamdhip64.so.7": ""}
    for name, text in {**tree(""), **more}.items():
        write(root / name.lstrip("/"), text)
    return root


def test_a_torch_for_a_plain_rocm_is_named_by_its_place(
    rocwright: Run, index: IndexServer, tmp_path: Path
) -> None:
    options = ["--source-index", index.url(), "--output-dir", "out", "--pytorch-rocm-arch", "gfx942"]
    words = ["build", "--dry-run", "--json", "--project", "tiny-scatter==2.1.2", *options]
    rocm = prefix(tmp_path / "rocm", "7.10.0")
    done = rocwright(*words, "--rocm-prefix", rocm)
    assert done.code == 2
    assert "no place to take torch from, which --project is built against" in done.err
    on_packages = "the torch to build against loads ROCm from its packages (rocm==7.10.0)"
    done = rocwright(*words, "--rocm-prefix", rocm, "--torch", tmp_path / "places")
    assert done.code == 0 and f"in the way: {on_packages}" in done.err
    done = rocwright(*[word for word in words if word not in ("--dry-run", "--json")],
                     "--rocm-prefix", rocm, "--torch", tmp_path / "places")  # fmt: skip
    assert done.code == 12 and on_packages in done.err

    torch_wheel(tmp_path / "places", plain=True)
    done = rocwright(*words, "--rocm-prefix", rocm, "--torch", tmp_path / "places")
    assert done.code == 0, done.err
    assert "in the way" not in done.err
    (one,) = done.json["builds"]
    assert one["env"]["ROCM_HOME"] == str(rocm)
    # A torch whose libraries are of another ROCm.
    done = rocwright(
        *words, "--rocm-prefix", prefix(tmp_path / "other", "7.11.0"), "--torch", tmp_path / "places"
    )
    assert done.code == 2
    assert "the torch to build against stands on ROCm 7.10.0, and the ROCm at hand is 7.11.0" in done.err


@pytest.mark.slow
def test_a_torch_that_is_installed(rocwright: Run, index: IndexServer, tmp_path: Path) -> None:
    make_wheel(tmp_path / "places", "7.10.0")
    environment = tmp_path / "env"
    made = venv.create(environment)
    options = ["--source-index", index.url(), "--output-dir", "out", "--pytorch-rocm-arch", "gfx942"]
    words = ["build", "--dry-run", "--json", "--project", "tiny-scatter==2.1.2", *options]
    words += ["--rocm-environment", environment]
    done = rocwright(*words)
    assert done.code == 2
    assert f"torch is not installed in {environment}, and --project is built against it" in done.err
    venv.pip_install(made, ["torch"], closed=venv.Closed(find_links=(str(tmp_path / "places"),)))
    done = rocwright(*words)
    assert done.code == 0, done.err
    assert of(done.json) == [("tiny-scatter", f"2.1.2{LOCAL}")]
    assert rocwright(*words, "--torch", "2.9.0").code == 0
    done = rocwright(*words, "--torch", "2.8")
    assert done.code == 2
    assert f"--torch 2.8: {environment} has torch {TORCH}" in done.err
    other = "3.13" if running_interpreter().name != "3.13" else "3.12"
    done = rocwright(*words, "--python", other)
    assert done.code == 2
    assert f"is for Python {running_interpreter().name}, wheels are asked for {other}" in done.err


def test_cmake_finds_torch_and_the_targets(build) -> None:
    write(Path("mine/CMakeLists.txt"), "find_package(Torch REQUIRED)\n")
    write(Path("mine/setup.py"), "from setuptools import setup\nsetup(name='tiny-cmake')\n")
    (one,) = build("--project", "./mine")["builds"]
    assert one["env"]["CMAKE_PREFIX_PATH"] == "${TORCH_ROOT}:${ROCM_ROOT}/lib/cmake"
    assert one["env"]["CMAKE_ARGS"] == (
        "-DCMAKE_HIP_ARCHITECTURES=gfx942 -DGPU_TARGETS=gfx942 -DAMDGPU_TARGETS=gfx942"
    )
    assert "FORCE_CUDA" not in one["env"]
    assert one["programs"] == ["cmake", "ninja"]


@pytest.mark.parametrize("kind", ["cmake", "scikit-build-core"])
def test_arguments_of_a_row_stand_behind_those_of_its_kind(
    build, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("rocwright.toml").write_text(
        f'[[extensions.extension]]\nproject = "tiny-scatter"\nkind = "{kind}"\n'
        'env = { CMAKE_ARGS = "-DGPU_TARGETS=gfx1100 -DTINY=ON" }\n'
    )
    monkeypatch.setenv("CMAKE_ARGS", "-DMINE=1")
    (one,) = build("--project", "tiny-scatter==2.1.2")["builds"]
    assert one["env"]["CMAKE_ARGS"] == (
        "-DMINE=1 -DCMAKE_HIP_ARCHITECTURES=gfx942 -DGPU_TARGETS=gfx942 -DAMDGPU_TARGETS=gfx942 "
        "-DGPU_TARGETS=gfx1100 -DTINY=ON"
    )


def test_compilers_are_those_of_torch(build) -> None:
    Path("rocwright.toml").write_text(
        '[[recipes.recipe]]\nproject = "torch"\nenv = { CXX = "g++-14", USE_ROCM = "ON" }\n'
    )
    (one,) = build("--project", "tiny-scatter==2.1.2")["builds"]
    assert one["env"]["CXX"] == "g++-14"
    assert "USE_ROCM" not in one["env"]


def test_a_torch_for_each_python(build, tmp_path: Path) -> None:
    path = torch_wheel(tmp_path / "each")
    for tag in ("cp311", "cp312"):
        named = path.with_name(f"torch-{TORCH}-{tag}-{tag}-linux_x86_64.whl")
        named.write_bytes(path.read_bytes())
    path.unlink()
    plan = build("--project", "tiny-scatter==2.1.2", "--python", "3.11,3.12", places="each")
    assert [each["python"] for each in plan["builds"]] == ["3.11", "3.12"]
    said = build("--project", "tiny-scatter==2.1.2", "--python", "3.11,3.13", places="each", code=2)
    assert "there is no torch for Python 3.13 on linux in each" in said


def test_upon_a_torch_of_the_same_run(build) -> None:
    tree = Path("pytorch")
    write(tree / "setup.py", "")
    write(tree / "version.txt", "2.9.0")
    write(tree / "torch/__init__.py", "import _rocm_init")
    plan = build("--project", "tiny-scatter==2.1.2", "--pytorch-dir", tree)
    assert of(plan) == [
        ("torch", "2.9.0+rocm${ROCM_VERSION}"),
        ("tiny-scatter", "2.1.2+torch2.9.0.rocm${ROCM_VERSION}"),
    ]
    # What torch's build fetches is torch's.
    assert [each["fenced"] for each in plan["builds"]] == [False, True]

    # That torch is what it is built with: none is fetched, and no other will do.
    said = build("--project", "tiny-scatter==2.1.2", "--pytorch-dir", tree, "--torch", TORCH, code=2)
    assert f"--torch {TORCH}: this run builds a torch itself" in said
    own = Path("own-ext")
    for name, text in sources("own-ext").items():
        write(own / name, text)
    for requirement, code in (("torch>=2", 0), ("torch==2.6.0", 2)):
        write(own / "pyproject.toml", f'[build-system]\nrequires = ["setuptools", "{requirement}"]\n')
        said = build("--project", f"./{own}", "--pytorch-dir", tree, code=code)
        if code:
            assert "own-ext: its build requires torch==2.6.0, and would be done against torch 2.9.0" in said
        else:
            assert not any(text.startswith("torch") for text in said["builds"][1]["requirements"])
    Path("rocwright.toml").write_text(
        '[[extensions.extension]]\nproject = "tiny-scatter"\nneeds = ["tiny-base"]\n'
    )
    said = build("--project", "tiny-scatter==2.1.2", "--pytorch-dir", tree, code=2)
    assert "tiny-base is needed, for the torch of this run, and is not built here" in said
    # A checkout of the same run is built here, too.
    write(Path("vision/setup.py"), "")
    write(Path("vision/version.txt"), "0.24.0")
    Path("rocwright.toml").write_text(
        '[[extensions.extension]]\nproject = "tiny-scatter"\nneeds = ["torchvision"]\n'
    )
    words = ("--pytorch-dir", tree, "--pytorch-vision-dir", "vision")
    plan = build("--project", "tiny-scatter==2.1.2", *words)
    assert [name for name, _ in of(plan)] == ["torch", "torchvision", "tiny-scatter"]


# -- what is refused


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("tiny-scatter", 2, "--project tiny-scatter does not say which version"),
        ("tiny-scatter>=2", 2, "--project tiny-scatter>=2 does not say which version"),
        ("torch==2.9.0", 2, "--project is for what stands on torch, not for torch itself"),
        ("tiny scatter", 2, "--project 'tiny scatter' names no project"),
        ("tiny-scatter==9.9", 2, "has no tiny-scatter==9.9, but sdists of 2.1.2"),
        ("tiny-none==1.0", 2, "has no tiny-none==1.0, and no other sdist of it"),
        ("./nowhere", 2, "there is no such directory or .tar.gz"),
        ("name @ somewhere", 2, "somewhere is neither a path nor git+…"),
        ("git+host/repository", 2, "has no https:// or the like"),
        ("git+file:///repository#a&egg=b", 2, "is the project's name and its subdirectory, and only that"),
        ("git+file:///repository#sub=x", 2, "is the project's name and its subdirectory, and only that"),
        ("git+file:///repository#subdirectory=../x", 2, "../x is no directory below the top"),
    ],
)
def test_what_names_nothing(build, text: str, code: int, said: str) -> None:
    assert said in build("--project", text, code=code)


def test_a_project_of_wheels_alone_cannot_be_built(build, index: IndexServer) -> None:
    write_wheel(index.folder, "only-wheels", "1.0", {}, tag=ANY)
    said = build("--project", "only-wheels==1.0", code=2)
    assert "only-wheels==1.0 has wheels on" in said
    assert "and no sdist, so there is nothing to build it from" in said


def test_an_sdist_that_is_not_what_the_index_says(build, index: IndexServer) -> None:
    index.manner.cut = {"tiny_scatter-2.1.2.tar.gz"}
    said = build("--project", "tiny-scatter==2.1.2", code=6)
    assert "tiny_scatter-2.1.2.tar.gz has sha256" in said


def test_a_refused_row_says_why(build) -> None:
    row = (
        '[[extensions.extension]]\nproject = "tiny-scatter"\nstate = "refused"\nrefused = "it needs CUDA"\n'
        'version = "2.1.2"\ndate = "2026-11-27"\nsource = "https://example.org/setup.py"\n'
    )
    Path("rocwright.toml").write_text(row)
    said = build("--project", "tiny-scatter==2.1.2", code=2)
    assert "tiny-scatter is not built: it needs CUDA (found out with 2.1.2 on 2026-11-27)" in said
    assert "in: https://example.org/setup.py" in said


def test_the_same_project_twice(build) -> None:
    said = build("--project", "tiny-scatter==2.1.2", "--project", "tiny_scatter==2.1.2", code=2)
    assert "tiny-scatter is named twice" in said


def test_a_damaged_archive(build) -> None:
    whole = sdist(Path("archives"), "tiny-cluster", "1.6").read_bytes()
    Path("archives/tiny_cluster-1.6.tar.gz").write_bytes(whole[: len(whole) // 2])
    said = build("--project", "archives/tiny_cluster-1.6.tar.gz", code=3)
    assert "the sdist tiny_cluster-1.6.tar.gz is damaged" in said


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"../evil.py": ""}, "has a member '../evil.py', which leads out of it"),
        ({"one/setup.py": "", "two/setup.py": ""}, "has two folders, one and two"),
        ({}, "is empty"),
    ],
)
def test_an_archive_that_is_no_sdist(build, members: dict[str, str], said: str) -> None:
    pack_tar(Path("archives/tiny_cluster-1.6.tar.gz"), members)
    assert said in build("--project", "archives/tiny_cluster-1.6.tar.gz", code=3)


def test_a_build_that_requires_another_torch(rocwright: Run, index: IndexServer, tmp_path: Path) -> None:
    write(Path("mine/setup.py"), "from torch.utils.cpp_extension import BuildExtension\nsetup(name='tiny')\n")
    write(
        Path("mine/pyproject.toml"),
        "[build-system]\nrequires = ['setuptools', 'Torch==2.7.*', 'torch==1.*; os_name==\"none\"']\n",
    )
    words = ["--project", "./mine", "--find-links", tmp_path / "places", "--pytorch-rocm-arch", "gfx942"]
    done = rocwright("build", *words, "--output-dir", "out")
    assert done.code == 12
    assert f"tiny: its build requires Torch==2.7.*, and would be done against Torch {TORCH}" in done.err
    # What is for other systems is in nobody's way.
    assert "torch==1.*" not in done.err
    assert not Path("out").exists()


@pytest.mark.parametrize("words", [("--torch", "2.9.0"), ("--source-index", "x"), ("--allow-downloads",)])
def test_options_without_a_project(rocwright: Run, words: tuple[str, ...]) -> None:
    done = rocwright("build", "--dry-run", "--output-dir", "out", *words)
    assert done.code == 2
    assert f"{words[0]} is for projects that stand on torch" in done.err


def test_a_build_number_is_for_pytorch(build) -> None:
    said = build("--project", "tiny-scatter==2.1.2", "--pytorch-build-number", 2, code=2)
    assert "--pytorch-build-number is for PyTorch's own packages, and none is built here" in said
