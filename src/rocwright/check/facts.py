"""What the rules know of a distribution file: plain values, gathered once by `rocwright.check.gather`.

Gathering never stops at the first fault: a damaged part becomes a fact of its own, so one run reports all.
What came of installing a set is a fact, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.binary.symbols import Symbols
from rocwright.device_code.kpack import Marker
from rocwright.device_code.origin import SplitOrigin
from rocwright.model.variants import Properties, Variants


class Fault(msgspec.Struct, frozen=True):
    """Something wrong with a member of an archive; `member` is empty where it is about all of it."""

    member: str
    what: str


class Member(msgspec.Struct, frozen=True):
    """An entry of the archive's directory, in its order; names may repeat in a malformed wheel.

    `size` and `packed` are bytes, `method` 0 stored or 8 deflated, `flags` those of the zip format, `mode`
    the Unix mode with file type (0 when not recorded).
    """

    name: str
    size: int = 0
    packed: int = 0
    method: int = 8
    flags: int = 0
    mode: int = 0


class Headers(msgspec.Struct, frozen=True):
    """METADATA or PKG-INFO as written; `unparsed` are its malformed lines, as the parser names them.

    `twice` are fields that may be given once and are given more often, with their values. `hidden` are lines
    that look like fields and stand behind the end of the headers. `not_utf8` is the first line with other
    bytes, counted from 1.
    """

    metadata_version: str | None = None
    name: str | None = None
    version: str | None = None
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    requires_python: str | None = None
    license: str | None = None
    license_expression: str | None = None
    license_files: tuple[str, ...] = ()
    unparsed: tuple[str, ...] = ()
    dynamic: tuple[str, ...] = ()
    twice: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    not_utf8: int | None = None


class WrongCode(msgspec.Struct, frozen=True):
    """Device code whose header contradicts what its container says it is for."""

    said: str
    what: str


class ElfFacts(msgspec.Struct, frozen=True):
    """What a host library, program or object file says; `problem` when it could not be read.

    `kind` and `machine` as in `binary.elf.Elf`; of a file for a 32-bit or big-endian machine (`bits`,
    `order`) nothing else is known. `program` marks a position-independent program, which is no library,
    `not_opened` a library that only a program which is linked with it may load;
    `system` is the number of the operating system in its header. `symbols` is None where they are not known.
    `versions` are the symbol versions it needs of a library (`libc.so.6` -> `GLIBC_2.34`). `stack` is
    what PT_GNU_STACK asks for, None without one. `writable_dynamic` is None without a dynamic table.
    `targets` are those of the device code in it, `code_sizes` its bytes by target (unpacked), `wrong_code`
    what is not what it says. `marker` is that of a split library, `wrappers` how many ask for its code;
    where the marker names no build, `launches` are the kernels that are registered with each, None where
    they cannot be told.
    """

    member: str
    kind: str = "dyn"
    machine: int = 62
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: str | None = None
    runpath: str | None = None
    interp: str | None = None
    versions: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    text_relocations: bool = False
    stack: Literal["rw", "rwx"] | None = "rw"
    writable_dynamic: bool | None = True
    targets: frozenset[str] = frozenset()
    code_sizes: Mapping[str, int] = msgspec.field(default_factory=dict)
    wrong_code: tuple[WrongCode, ...] = ()
    marker: Marker | None = None
    wrappers: int = 0
    launches: Mapping[int, frozenset[str]] | None = None
    problem: str | None = None
    bits: int = 64
    order: Literal["little", "big"] = "little"
    program: bool = False
    not_opened: bool = False
    system: int = 0
    symbols: Symbols | None = None


class PeFacts(msgspec.Struct, frozen=True):
    """What a Windows program or DLL says; `device_code` whether it has a section of it.

    `targets` are those of that code, as far as it can be read; `portable`: an assembly for any machine.
    """

    member: str
    machine: int = 0x8664
    is_dll: bool = True
    imports: tuple[str, ...] = ()
    delay_imports: tuple[str, ...] = ()
    export_name: str | None = None
    device_code: bool = False
    targets: frozenset[str] = frozenset()
    portable: bool = False
    problem: str | None = None


class CodeFile(msgspec.Struct, frozen=True):
    """A file of device code, or a database of it, outside any library.

    `said` is the target or group that its path names (None: its path names none), `machine` the base target
    in its header (None when it is no code object), `targets` those of a file of bundles. `wrong` says why
    its content contradicts the path, or cannot be read. `for_all` marks bundles in a database under a name
    without a target: their library opens them by that name on every GPU, so they belong to the host.
    """

    member: str
    said: str | None = None
    machine: str | None = None
    wrong: str | None = None
    targets: frozenset[str] = frozenset()
    for_all: bool = False


class KpackFacts(msgspec.Struct, frozen=True):
    """A kpack archive: the libraries it has code of, by the name in it, their builds, and the targets.

    `wrappers` is how many each library has at least, since there is code for the last. For libraries without
    a build, `defined` are the kernels in the code of a wrapper, by library and number, where all was read.
    """

    member: str
    kernels: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    wrong_code: tuple[WrongCode, ...] = ()
    problem: str | None = None
    builds: Mapping[str, str] = msgspec.field(default_factory=dict)
    wrappers: Mapping[str, int] = msgspec.field(default_factory=dict)
    defined: Mapping[tuple[str, int], frozenset[str]] = msgspec.field(default_factory=dict)


class Import(msgspec.Struct, frozen=True):
    """An import that holds whenever its module is: no condition and no `try` is around it.

    `dots` are those in front of `module`, which may be empty then; `names` what is taken of it, None for
    `import module`. `raised` says that something may be raised before.
    """

    line: int
    dots: int
    module: str
    names: tuple[str, ...] | None = None
    raised: bool = False


class PythonFacts(msgspec.Struct, frozen=True):
    """What an interpreter makes of a module's source; of a module without a fact nothing is to be told.

    `problem` at `line` is why it does not compile, `unread` why nobody knows. `needs` is the minor version of
    Python 3 whose syntax it has, 0 for any. `names` are those that it binds, told of packages and of what
    entry points and imports of names lead to; `dynamic` means that there may be more, `spreads` that modules
    below it may come from elsewhere. `version` is a literal `__version__`. Of `imports` of modules that no
    wheel at hand has, only the top level is told.
    """

    member: str
    problem: str | None = None
    line: int = 0
    needs: int = 0
    names: frozenset[str] | None = None
    dynamic: bool = False
    spreads: bool = False
    version: str | None = None
    imports: tuple[Import, ...] = ()
    unread: str | None = None


class OriginFacts(msgspec.Struct, frozen=True):
    """What a file beside archives says of the split that a wheel is of; `problem` when it says nothing."""

    member: str
    origin: SplitOrigin | None = None
    problem: str | None = None


class VariantFacts(msgspec.Struct, frozen=True):
    """What a `variant.json` says of its wheel, or a `…-variants.json` of several; `problem` when nothing.

    `file` is the member of the wheel, or the name of the file that lies beside wheels.
    """

    file: str
    said: Variants | None = None
    problem: str | None = None


class Facts(msgspec.Struct, frozen=True, dict=True):
    """One distribution file; `size` in bytes.

    `project` and `version` come from the file name (normalised; empty when it is no valid name), `tags` and
    `build` (number, letters) from the name, as `label`, which is empty for what is no variant; `wheel_tags`
    and `wheel_fields` (by key in lower case; None where there are none to judge) from WHEEL. `unreadable`
    says why nothing could be gathered, `bomb` why its members were not inflated, `structure` why the strict
    reader refuses the wheel, `layout` what readers of the archive would disagree about. `damaged` are
    members that cannot be inflated to what the directory says, `record` what RECORD and the members disagree
    about. `texts` are the sources that rules read, by member, of an sdist without its folder. `sbom` and
    `licences` are members below the dist-info
    directory. `python` was judged by Python 3.`judged_by`, `unjudged` says why not all of it; `other_pythons`
    are the modules that other Pythons 3.x cannot compile, None where none was asked; `unmerged` are texts
    with the marks of a merge, by the line; `shebangs` the first lines of scripts. `opens_globally` says that
    its Python asks the loader to show a library's symbols to all. `variant` is None without a `variant.json`.
    """

    path: Path
    kind: Literal["wheel", "sdist"]
    size: int = 0
    project: str = ""
    version: str = ""
    tags: frozenset[str] = frozenset()
    unreadable: str | None = None
    bomb: str | None = None
    structure: str | None = None
    members: tuple[Member, ...] = ()
    dist_infos: tuple[str, ...] = ()
    wheel_tags: frozenset[str] = frozenset()
    wheel_fields: Mapping[str, tuple[str, ...]] | None = None
    build: tuple[int, str] | tuple[()] = ()
    label: str = ""
    headers: Headers = Headers()
    layout: tuple[Fault, ...] = ()
    damaged: tuple[Fault, ...] = ()
    record: tuple[Fault, ...] = ()
    texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    licences: tuple[str, ...] = ()
    sboms: tuple[str, ...] = ()
    elf: tuple[ElfFacts, ...] = ()
    pe: tuple[PeFacts, ...] = ()
    code: tuple[CodeFile, ...] = ()
    archives: tuple[KpackFacts, ...] = ()
    python: tuple[PythonFacts, ...] = ()
    judged_by: int = 0
    unjudged: str | None = None
    other_pythons: Mapping[int, tuple[PythonFacts, ...]] | None = None
    unmerged: Mapping[str, int] = msgspec.field(default_factory=dict)
    shebangs: Mapping[str, str] = msgspec.field(default_factory=dict)
    opens_globally: bool = False
    origins: tuple[OriginFacts, ...] = ()
    variant: VariantFacts | None = None

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of its members."""
        return frozenset(member.name for member in self.members)

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def properties(self) -> Properties | None:
        """The properties of the variant that it is; None for other wheels, and where nothing tells them."""
        said = None if self.variant is None else self.variant.said
        return None if said is None else said.variants.get(self.label)

    @property
    def targets(self) -> frozenset[str]:
        """Every device target that a library in the wheel holds code for."""
        held = [*(elf.targets for elf in self.elf), *(pe.targets for pe in self.pe)]
        return frozenset[str]().union(*held)

    @property
    def code_targets(self) -> frozenset[str]:
        """Every device target that anything in the file is for: libraries, archives, files of their own."""
        archived = frozenset[str]().union(*(archive.targets for archive in self.archives))
        return self.targets | archived | {code.said for code in self.code if code.said is not None}


class ImportTry(msgspec.Struct, frozen=True):
    """What came of importing one module of a set after it was installed.

    `fault` is what is wrong with `file`, in its `member`, and `about` the symbol, library or module at issue.
    `left` says why nothing is known. Neither: it was imported.
    """

    module: str
    file: str
    fault: str = ""
    member: str = ""
    about: str = ""
    left: str = ""


class Installation(msgspec.Struct, frozen=True):
    """One installer on one Python and platform.

    `problems` say what went wrong, none where everything was installed. `asked` are the distributions whose
    metadata or content the installer fetched, by project. `not_tried` says why it was not done at all.
    `stand_ins` are empty wheels, made up for packages that the set needs from elsewhere. `version` is the
    installer's, `projects` those of the set that were installed, `imports` what they offer at top level.
    """

    installer: str
    where: str
    problems: tuple[str, ...] = ()
    asked: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    not_tried: str | None = None
    next_step: str = ""
    stand_ins: tuple[str, ...] = ()
    version: str = ""
    projects: tuple[str, ...] = ()
    imports: tuple[ImportTry, ...] = ()
