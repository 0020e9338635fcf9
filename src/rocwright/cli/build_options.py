"""Options of `rocwright build` and of the documented `build_prod_wheels.py build`, in groups."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Literal, get_type_hints

from cyclopts import Group, Parameter

from rocwright.builder.decide.recipe import Recipe, recipes
from rocwright.builder.rocm.place import exact_version
from rocwright.cli.help import family_words
from rocwright.cli.options import Count, OptionalCount, Place, Repeated, Text, meant_index, tell_replaced
from rocwright.data import load_table
from rocwright.errors import UsageError
from rocwright.model.platforms import Platform
from rocwright.model.project import TORCH, ProjectTable
from rocwright.pipeline.extensions.sources import source_index
from rocwright.pipeline.extensions.wish import Wish
from rocwright.sources.project import parse_source, read_list
from rocwright.system import console

ReleaseType = Literal["ci", "dev", "dev-bkc", "nightly", "nightly-bkc", "prerelease", "release"]

# In help the options stand below these, in this order.
_ROCM, _SOURCES, _EXTENSIONS, _WHEELS, _WORK, _OLDER = map(
    Group.create_ordered,
    ("ROCm", "Sources", "What stands on torch", "Wheels", "Work", "Older spellings"),
)


@Parameter(name="*", group=_ROCM)
@dataclass(frozen=True)
class Packages:
    """Which ROCm packages are installed, and from where: for `install-rocm`, and for builds that do it."""

    index_url: str | None = None
    """Index that has the ROCm packages."""

    index_name: Text = ""
    """The index by its name: stable, prerelease, nightly, dev, an older one, or one of rocwright.toml. Of
    stable and the others the one is taken that has the version of --rocm-sdk-version."""

    index_subdir: Text = ""
    """Directory below the index: a family of GPUs in older indexes, such as gfx94X-dcgpu."""

    find_links: Repeated = ()
    """Page or directory that has the ROCm packages; may be given several times."""

    rocm_sdk_version: str = ">1.0"
    """Version of ROCm, as a specifier: ==7.10.0."""

    rocm_extras: Text = ""
    """Further extras of the rocm package, separated by commas: device-gfx942 for that GPU, device-all."""

    pre: bool = True
    """Accept pre-releases of ROCm."""

    pip_cache_dir: Place = None
    """Cache of pip for ROCm's packages (default: pip's own)."""

    def index(self) -> str | None:
        """The index that is meant, None for none; says what replaced an older one."""
        if not self.index_name.strip() and not self.index_subdir.strip():
            tell_replaced(self.index_url)
            return self.index_url
        version = exact_version(self.rocm_sdk_version)
        return meant_index(self.index_url or None, self.index_name, self.index_subdir, version=version)


@Parameter(name="*", group=_ROCM)
@dataclass(frozen=True)
class Where:
    """Which ROCm is built against, where no packages are installed for the build alone."""

    rocm_environment: Place = None
    """Python environment that has the ROCm packages (default: $VIRTUAL_ENV, else the one this runs in)."""

    rocm_prefix: Place = None
    """Root of a plain ROCm installation: /opt/rocm, build/dist/rocm. CMAKE_PREFIX_PATH comes after it."""

    install_rocm: bool = False
    """Install the ROCm packages into --rocm-environment first."""

    install_wheels: bool | None = None
    """Install the built wheels into --rocm-environment at the end."""


_RECIPES = recipes().recipe
_FOLDERS = {row.name: row.directory for row in load_table("projects", ProjectTable).projects}


def _with_each_project(cls: type) -> type:
    """`cls` with options for each project that has a recipe: its directory, and whether it is built."""
    own = {
        name: (name, hint, getattr(cls, name))
        for name, hint in get_type_hints(cls, include_extras=True).items()
    }
    by_name = {row.project: row for row in _RECIPES}
    directories = [
        (_field(by_name[name], "dir"), Annotated[Place, _help(f"Checkout of {_title(name)}.")], None)
        for name in _FOLDERS
        if name in by_name
    ]
    switches = [
        (
            _field(row, "build"),
            Annotated[bool | None, _help(f"Build {_title(row.project)} (default: where it is checked out).")],
            None,
        )
        for row in _RECIPES
        if row.switch
    ]
    root, projects, lock = own.values()
    return make_dataclass(
        cls.__name__,
        [root, *directories, projects, *switches, lock],
        bases=(cls,),
        namespace={"__module__": cls.__module__, "__doc__": cls.__doc__},
        frozen=True,
    )


def _field(row: Recipe, what: Literal["dir", "build"]) -> str:
    word = row.word.replace("-", "_")
    return f"{word}_dir" if what == "dir" else f"build_{word}"


def _title(project: str) -> str:
    return "PyTorch" if project == TORCH else project


def _help(text: str) -> Parameter:
    return Parameter(help=text)


@Parameter(name="*", group=_SOURCES)
@_with_each_project
class Trees:
    """Where the sources are. What has no directory is not built."""

    root_checkout_dir: Annotated[Place, _help(f"Directory that holds {', '.join(_FOLDERS.values())}.")] = None
    project_dir: Annotated[
        Repeated,
        _help(
            "NAME=DIR: checkout of any project that has a recipe, such as one of rocwright.toml; repeatable."
        ),
    ] = ()
    lock: Annotated[
        Place,
        _help(
            "A lock of the sources: exactly its projects are built, and only if every checkout matches it."
        ),
    ] = None

    def given(self) -> dict[str, Path]:
        """Directories named by an option, by project; raises `UsageError` for one that names nothing."""
        named: dict[str, Path | None] = {
            row.project: getattr(self, _field(row, "dir"), None) for row in _RECIPES
        }
        found = {project: path for project, path in named.items() if path is not None}
        for text in self.project_dir:
            project, equals, path = text.partition("=")
            if not (project and equals and path):
                raise UsageError(
                    f"--project-dir {text} is not NAME=DIR",
                    next_step="for example --project-dir vllm=src/vllm",
                )
            if project in found:
                raise UsageError(f"the directory of {project} is given twice", next_step="give it once")
            found[project] = Path(path)
        return {project: path.expanduser().absolute() for project, path in found.items()}

    def wanted(self) -> dict[str, bool]:
        """Projects that are explicitly to be built, or not."""
        said: dict[str, bool | None] = {
            row.project: getattr(self, _field(row, "build"), None) for row in _RECIPES
        }
        return {project: value for project, value in said.items() if value is not None}


@Parameter(name="*", group=_EXTENSIONS)
@dataclass(frozen=True)
class Extensions:
    """Projects that are built against a torch that is there: the one beside ROCm's packages."""

    project: Repeated = ()
    """A project that stands on torch: NAME==VERSION (its sdist), ./DIRECTORY, ./FILE.tar.gz, or
    git+URL@COMMIT#NAME (in a directory of it: &subdirectory=PATH); may be given several times."""

    projects_file: Place = None
    """File with such projects, one a line."""

    source_index: str | None = None
    """Index that has the sdists (default: $PIP_INDEX_URL, else PyPI)."""

    torch: str | None = None
    """Which torch, where there are several: a version, such as 2.9.1+rocm7.10.0; or the path of a wheel, or
    of a directory of wheels."""

    allow_downloads: Annotated[bool, Parameter(negative=())] = False
    """Let the builds of these projects reach the network."""

    def wish(self) -> Wish | None:
        """What is wished for, None for nothing; raises `UsageError` for what names no project."""
        sources = [parse_source(text, base=Path.cwd()) for text in self.project]
        if self.projects_file is not None:
            sources += read_list(self.projects_file)
        if not sources:
            others = {
                "--torch": self.torch is not None,
                "--source-index": self.source_index is not None,
                "--allow-downloads": self.allow_downloads,
            }
            given = [name for name, is_given in others.items() if is_given]
            if given:
                raise UsageError(
                    f"{given[0]} is for projects that stand on torch", next_step="name them with --project"
                )
            return None
        index = self.source_index or source_index(os.environ)
        return Wish(tuple(sources), index, self.torch, self.allow_downloads)


@Parameter(name="*", group=_WHEELS)
@dataclass(frozen=True)
class Product:
    """What the wheels are like."""

    pytorch_rocm_arch: str | None = None
    """GPU targets or families to compile for, separated by commas (default: $PYTORCH_ROCM_ARCH, else those of
    ROCm's installed device packages)."""

    device_part: Text = ""
    """Compile device code for these targets of --pytorch-rocm-arch only, separated by commas (default: all).
    Host code is built for all targets, so wheels from several machines can be merged: rocwright wheel
    merge-parts."""

    python: str | None = None
    """Pythons to build for, separated by commas: 3.11,3.12,3.13t, or paths (default: the running one)."""

    platform: Platform | None = None
    """linux or windows (default: this machine's); another platform only with --dry-run."""

    release_type: ReleaseType = "nightly"
    """Decides the version: dev and dev-bkc put git and eight digits of the commit into it."""

    version_suffix: str | None = None
    """Suffix of every version, such as +rocm7.10.0 (default: from ROCm's version)."""

    pytorch_build_number: Count = 1
    """Build number of the packages."""

    enable_pytorch_flash_attention: bool | None = None
    """Build flash attention into torch (default: where triton and one of the targets allow it)."""

    enable_pytorch_flash_attention_windows: Annotated[bool | None, Parameter(group=_OLDER)] = None
    """Older spelling of --enable-pytorch-flash-attention, for Windows; deprecated."""

    enable_pytorch_flash_attention_linux: Annotated[bool | None, Parameter(group=_OLDER)] = None
    """Older spelling of --enable-pytorch-flash-attention, for Linux; deprecated."""

    enable_pytorch_fbgemm_genai_linux: Annotated[bool | None, Parameter(group=_OLDER)] = None
    """Has no effect: torch's own build decides whether FBGEMM GenAI is in, on Linux; deprecated."""

    split_device: Annotated[
        bool,
        _help(f"Split {family_words()['split']} into a host wheel and one device wheel for each target."),
    ] = False

    editable: Text = ""
    """Projects to install in place instead of making wheels, separated by commas: torch."""

    def flash_attention(self, platform: str) -> bool | None:
        """What is asked for, whichever spelling; those of another platform are not for this build.

        Raises `UsageError` for two spellings that contradict each other.
        """
        if self.enable_pytorch_fbgemm_genai_linux is not None:
            given = self.enable_pytorch_fbgemm_genai_linux
            spelling = f"--{'' if given else 'no-'}enable-pytorch-fbgemm-genai-linux"
            console.say(
                f"warning: {spelling} is deprecated and has no effect: torch's own build decides; "
                f"give that the variable USE_FBGEMM_GENAI={int(given)}"
            )
        older = {
            "windows": self.enable_pytorch_flash_attention_windows,
            "linux": self.enable_pytorch_flash_attention_linux,
        }
        for name, value in older.items():
            if value is not None:
                new = f"--{'' if value else 'no-'}enable-pytorch-flash-attention"
                reach = "" if name == platform else f", and has no effect on {platform}"
                console.say(f"warning: {new}-{name} is deprecated{reach}; give {new}")
        said = {self.enable_pytorch_flash_attention, older[platform]} - {None}
        if len(said) > 1:
            raise UsageError(
                "flash attention is switched on and off at once", next_step="leave one of them out"
            )
        return said.pop() if said else None

    def pythons(self) -> tuple[str, ...]:
        """The Pythons asked for, each once; raises `UsageError` for text that is neither version nor path."""
        names = words(self.python)
        for name in names:
            if not re.fullmatch(r"3\.\d+t?", name) and "/" not in name and "\\" not in name:
                raise UsageError(
                    f"--python {name} is neither a version nor a path",
                    next_step="write 3.12, 3.13t, or a path",
                )
        return tuple(dict.fromkeys(names))


@Parameter(name="*", group=_WORK)
@dataclass(frozen=True)
class Work:
    """How the work is done."""

    work_dir: Place = None
    """Environments, logs and records of the build (default: OUTPUT_DIR-work)."""

    clean: bool = False
    """Delete each project's build directory first."""

    resume: bool = True
    """Reuse the wheels that an earlier run finished from the same sources and options."""

    jobs: OptionalCount = None
    """Compilers at once (default: as many as cores and memory allow)."""

    use_ccache: bool = False
    """Put ccache before the compilers."""

    use_sccache: bool = False
    """Put sccache before the compilers, the one for device code included."""

    sccache_no_wrap: Annotated[bool, Parameter(negative=())] = False
    """Do not put sccache before the compiler for device code."""

    report_units: bool = True
    """Record what each call of a compiler costs."""

    dry_run: bool = False
    """Only print what would be done; needs no ROCm and writes nothing."""

    def cache(self) -> str:
        """`ccache`, `sccache` or nothing; raises `UsageError` for options that contradict each other."""
        if self.use_ccache and self.use_sccache:
            raise UsageError(
                "--use-ccache and --use-sccache contradict each other", next_step="give one of them"
            )
        if self.sccache_no_wrap and not self.use_sccache:
            raise UsageError(
                "--sccache-no-wrap is an option for sccache", next_step="give --use-sccache, too"
            )
        return "ccache" if self.use_ccache else "sccache" if self.use_sccache else ""


def words(text: str | None) -> tuple[str, ...]:
    """Text separated by commas or spaces as its parts."""
    return tuple(word for word in re.split(r"[\s,]+", text or "") if word)
