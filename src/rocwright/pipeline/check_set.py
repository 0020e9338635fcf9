"""The wheel contract over a set, with the proof that pip and uv install it from an index of its own.

Of files that are not at hand, what their names and METADATA alone tell: rules without content, a resolution.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rocwright.check.context import Context, Request
from rocwright.check.contract import ContractTable
from rocwright.check.elsewhere import compiled_elsewhere
from rocwright.check.environments import environments_of, named_extras, read_requirement
from rocwright.check.facts import Facts, Headers, Installation
from rocwright.check.gather.dist_info import read_headers
from rocwright.check.install import Serve, prove
from rocwright.check.report import Report
from rocwright.check.rules import RULES, SET_RULES
from rocwright.check.run import CheckRequest, gather_paths, judge
from rocwright.errors import NoSpace, RocwrightError
from rocwright.store.adopt.fetch import Told
from rocwright.store.adopt.grouping import Needs
from rocwright.store.adopt.metadata import stub_name, write_stub
from rocwright.store.adopt.offered import Offered, SetChoice
from rocwright.store.index.listed import ListedFile
from rocwright.store.index.pages import view_pages
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.serve import serving
from rocwright.store.pool import describe_files, put_distribution
from rocwright.system.files import disk_error
from rocwright.wheel.tags import parse_wheel_name

_METADATA = ".metadata"


def check_set(
    asked: CheckRequest,
    *,
    install: bool | None = None,
    work_dir: Path | None = None,
    note: Callable[[str], None] = lambda _: None,
    log: Path | None = None,
) -> Report:
    """Check files as `CheckRequest` describes; with `install`, try to install all of them, too.

    With False, the report says that this was left out; with None, nobody asks for it.
    The installation needs room for the set, unpacked, twice, below `work_dir` (by default the directory for
    temporary files); nothing stays there. Raises `NoSpace` when there is less, or the disk is full.
    """
    note("reading the files")
    gathered = gather_paths(asked)
    if install is None or not gathered.context.files:
        return gathered.judged()
    if not install:
        return gathered.judged([_left_out(gathered.context)])
    gathered = msgspec.structs.replace(gathered, files=compiled_elsewhere(gathered.files, note))
    if work_dir is not None:
        work_dir.mkdir(parents=True, exist_ok=True)
    with _room(work_dir), tempfile.TemporaryDirectory(prefix="rocwright-install-", dir=work_dir) as work:
        return gathered.judged(prove(gathered.context, serve_files, Path(work), note=note, log=log))


@contextmanager
def _room(work_dir: Path | None) -> Iterator[None]:
    """Whoever has not named a directory for a proof is told how to, and how to do without."""
    step = (
        "free some space, name a directory on another disk with TMPDIR, or leave the proof out: --no-install"
    )
    try:
        yield
    except NoSpace as full:
        raise NoSpace(full.what, where=full.where, next_step=full.next_step if work_dir else step) from full
    except OSError as error:
        if not isinstance(told := disk_error(error, Path(error.filename or work_dir or "")), NoSpace):
            raise
        raise NoSpace(told.what, where=told.where, next_step=None if work_dir else step) from error


def _left_out(context: Context) -> Installation:
    where = ", ".join(map(str, context.environments))
    step = "prove it: rocwright check --set DIR --install"
    return Installation("pip and uv", where, not_tried="the installation was left out", next_step=step)


class _Served:
    """An index of some files: its address, and what was asked of it."""

    def __init__(self, url: str, requests: list[str]) -> None:
        self.url = url
        self._requests = requests

    def asked(self) -> Sequence[str]:
        """Names of distribution files whose content or metadata was asked for."""
        names = (unquote(path).rpartition("/")[2].removesuffix(_METADATA) for path in list(self._requests))
        return [name for name in names if name.endswith((".whl", ".tar.gz"))]


@contextmanager
def serve_files(files: Sequence[Path], folder: Path) -> Iterator[_Served]:
    """A simple repository of these files, laid out in `folder`, on the loopback interface.

    Raises `InvalidWheel` for a file that cannot be described.
    """
    store = LocalStore(folder)
    by_name = {path.name: path for path in files}
    entries = describe_files(by_name.values())
    for entry in entries:
        put_distribution(store, by_name[entry.name], entry, entry.name)
    for key, page in view_pages((ListedFile(entry, entry.name) for entry in entries), "").items():
        store.put_bytes(key, page)
    requests: list[str] = []
    with serving(folder, requests=requests) as url:
        yield _Served(url, requests)


# -- files that are not at hand, by their names and METADATA alone


# An error of these says that the files are no whole set.
WHOLE = ("set-one-version", "set-pins", "set-closed", "set-extras", "set-install")


def needs_of(told: Told | RocwrightError, wanted: SetChoice) -> Needs:
    """What METADATA requires; lines that cannot be read are left out, a rule names them."""
    if isinstance(told, RocwrightError):
        return Needs(unreadable=told.what)
    said = _meant(read_headers(told.metadata), wanted)
    read = map(read_requirement, said.requires)
    return Needs(tuple(one for one in read if not isinstance(one, str)), said.extras)


def _meant(said: Headers, wanted: SetChoice) -> Headers:
    """What METADATA says, without the device packages of targets that nobody asked for and their extras."""
    read = {line: read_requirement(line) for line in said.requires}
    other = [
        one
        for one in read.values()
        if isinstance(one, Requirement) and not wanted.is_for(canonicalize_name(one.name))
    ]
    rest = [one for one in read.values() if isinstance(one, Requirement) and one not in other]
    brought = {str(extra) for one in rest for extra in named_extras(one)}
    gone = {str(extra) for one in other for extra in named_extras(one)} - brought
    return msgspec.structs.replace(
        said,
        requires=tuple(line for line in said.requires if read[line] not in other),
        extras=tuple(extra for extra in said.extras if extra not in gone),
    )


def environments(files: Iterable[Offered]) -> tuple[Mapping[str, str], ...]:
    """The values of markers wherever these files can be installed."""
    return tuple(
        one.markers() for one in environments_of(_facts(file, None, Path(), SetChoice()) for file in files)
    )


def judge_metadata(
    files: Iterable[Offered],
    told: Callable[[Offered], Told | RocwrightError],
    contract: ContractTable,
    *,
    wanted: SetChoice,
    serve: Serve | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Report:
    """Apply the rules that names and METADATA are enough for; the files are taken as a complete set.

    With `serve`, pip and uv also install wheels that have this METADATA and nothing else, from an index of
    nothing else: so what they resolve is proved, and no content is needed.
    """
    offered = sorted(files, key=lambda one: one.name)
    facts = [_facts(one, told(one), Path(), wanted) for one in offered]
    request = Request(closed=True)
    # What an sdist brings may be known only where it is installed; who brings a device package, then, too.
    open_ended = any(one.kind == "sdist" and not one.headers.requires for one in facts)
    installations: tuple[Installation, ...] = ()
    if serve is not None:
        with tempfile.TemporaryDirectory(prefix="rocwright-resolve-") as work:
            stubs = [_stub(one, told(one), Path(work) / "stubs", wanted) for one in offered]
            context = Context(contract, request, tuple(stubs))
            proof = Path(work) / "proof"
            proof.mkdir()
            installations = prove(context, serve, proof, note=note)
    return judge(
        facts,
        request=request,
        contract=contract,
        installations=installations,
        rules=[rule for rule in RULES if rule.by_metadata],
        set_rules=[
            rule for rule in SET_RULES if rule.by_metadata and not (open_ended and rule.id == "set-device")
        ],
    )


def _facts(one: Offered, told: Told | RocwrightError | None, folder: Path, wanted: SetChoice) -> Facts:
    """A file as far as its name and METADATA say; its content is not known, and no rule asks for it."""
    facts = Facts(
        folder / one.name,
        "wheel" if one.is_wheel else "sdist",
        size=one.link.size or 0,
        project=one.project,
        version=one.version,
        tags=one.tags,
        build=parse_wheel_name(one.name).build if one.is_wheel else (),
        label=one.label,
        dist_infos=("-".join(one.name.split("-")[:2]) + ".dist-info",),
    )
    if isinstance(told, RocwrightError):
        return msgspec.structs.replace(facts, unreadable=told.what)
    if told is None:
        return facts
    # Which licence files it names cannot be compared with members.
    return msgspec.structs.replace(
        facts, headers=msgspec.structs.replace(_meant(read_headers(told.metadata), wanted), license_files=())
    )


def _stub(one: Offered, told: Told | RocwrightError, folder: Path, wanted: SetChoice) -> Facts:
    """A wheel with the METADATA of a file in its place; an sdist would run whatever is in it."""
    if isinstance(told, RocwrightError):
        return _facts(one, told, folder, wanted)
    name = one.name if one.is_wheel else stub_name(one.project, one.version)
    facts = _facts(one, told, folder, wanted)
    tags = one.tags if one.is_wheel else frozenset({"py3-none-any"})
    return msgspec.structs.replace(
        facts, path=write_stub(folder, name, told.metadata), kind="wheel", tags=tags
    )
