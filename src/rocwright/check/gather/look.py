"""Say what a member is and what it holds: libraries of the host or of Windows, device code, archives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, read_elf
from rocwright.binary.pe import read_pe
from rocwright.binary.symbols import read_symbols
from rocwright.binary.view import View
from rocwright.check.facts import CodeFile, ElfFacts, KpackFacts, PeFacts
from rocwright.check.gather.code_objects import Heads, Judge, plain
from rocwright.check.gather.skim import Kept
from rocwright.data import load_table
from rocwright.device_code import fatbin
from rocwright.device_code.fatbin import PACKED_MAGIC, Bundle, scan_bundles
from rocwright.device_code.host import MARKER_SECTION
from rocwright.device_code.kernels import kernels_of_wrappers
from rocwright.device_code.kpack import MAGIC as KPACK_MAGIC
from rocwright.device_code.kpack import SUFFIX as KPACK_SUFFIX
from rocwright.device_code.kpack import parse_marker
from rocwright.device_code.unpack import RAW_MAGIC
from rocwright.device_code.wrappers import SECTION as WRAPPERS
from rocwright.device_code.wrappers import WRAPPER
from rocwright.errors import InvalidInput
from rocwright.model.device_files import DeviceFiles, Unplaced, classify, in_database, known_targets
from rocwright.model.gpu import Families, Target, parse_target
from rocwright.model.machines import Machines, is_code_object, machine_of, mismatch

_DT_TEXTREL, _DT_FLAGS, _DF_TEXTREL = 22, 30, 4
_DT_FLAGS_1, _DF_1_NOOPEN, _DF_1_PIE = 0x6FFFFFFB, 0x40, 0x08000000
_LOADED = ("dyn", "exec")
_MACHINE = slice(18, 20)
_IDENT_VERSION, _SYSTEM, _VERSION = 6, 7, slice(20, 24)
_HEAD = 64
_PAGE = 4096  # the smallest there is
_PE_MAGIC, _PE_SIGNATURE, _PE_OFFSET_AT = b"MZ", b"PE\0\0", 60
_PE_ENDINGS = (".dll", ".pyd", ".exe")
_PE_DEVICE_CODE = ".hip_fat"  # names of sections are cut to eight characters
_BUNDLES = (RAW_MAGIC, PACKED_MAGIC)
_SHARED = re.compile(r".+\.so(\.[0-9]+)*")
_SCRIPT = re.compile(r"[^/]+\.data/scripts/[^/]+")
# Texts in which the marks of a merge are nothing but that: in prose a row of `=` is a heading.
_READ_BY_MACHINES = (
    ".py",
    ".pyi",
    ".json",
    ".toml",
    ".cfg",
    ".ini",
    ".dist-info/METADATA",
    "/entry_points.txt",
)
_OURS, _THEIRS, _LONGEST_TEXT, _LONGEST_LINE = b"<<<<<<< ", b"\n>>>>>>> ", 4 << 20, 512
# How Python makes the symbols of what it opens visible to all.
_GLOBALLY = (b"RTLD_GLOBAL", b"setdlopenflags")
_WORD = re.compile(r"[0-9A-Za-z]+")


class Found(msgspec.Struct, frozen=True):
    """What a member turned out to be; a library that is a database of a target is both."""

    elf: ElfFacts | None = None
    pe: PeFacts | None = None
    code: CodeFile | None = None
    archive: KpackFacts | None = None
    unmerged: int | None = None
    shebang: str | None = None
    opens_globally: bool = False


NOTHING = Found()


def reads_further(head: bytes) -> bool:
    """Whether a member with these first bytes is read for more than its digest."""
    return head.startswith((fmt.MAGIC, _PE_MAGIC, KPACK_MAGIC, *_BUNDLES))


class Look(msgspec.Struct, frozen=True, dict=True):
    """Looks at members, with the tables that say which names and headers mean which target."""

    table: DeviceFiles = msgspec.field(default_factory=lambda: load_table("device_files", DeviceFiles))
    families: Families = msgspec.field(default_factory=lambda: load_table("families", Families))
    machines: Machines = msgspec.field(default_factory=lambda: load_table("machines", Machines))

    @cached_property
    def targets(self) -> frozenset[str]:
        """Every base target that a path may name."""
        return known_targets(self.table, self.families)

    @cached_property
    def judge(self) -> Judge:
        """Compares headers of code with what its container says."""
        return Judge(self.machines)

    def __call__(self, name: str, view: View, kept: Kept | None = None) -> Found:
        """What a member is; `kept` is what a large member left as it streamed by, else None."""
        head = view.read_at(0, _HEAD)
        if head.startswith(fmt.MAGIC):
            if int.from_bytes(head[_MACHINE], "little") == fmt.EM_AMDGPU:
                return Found(code=self._code_object(name, head))
            return Found(elf=self._elf(name, view, kept), code=self._database(name))
        if head.startswith(KPACK_MAGIC) or name.endswith(KPACK_SUFFIX):
            return Found(archive=self.judge.archive(name, view, kept.frames if kept else {}))
        if head.startswith(_BUNDLES):
            return Found(code=self._bundled(name, view, kept))
        if _is_pe(name, head, view):
            return Found(pe=_pe(name, view, kept), code=self._database(name))
        if kept is None and name.endswith(_READ_BY_MACHINES):
            text = view.read_at(0, min(view.size, _LONGEST_TEXT))
            globally = name.endswith(".py") and any(word in text for word in _GLOBALLY)
            return Found(code=self._database(name), unmerged=_unmerged(name, text), opens_globally=globally)
        if head.startswith(b"#!") and _SCRIPT.fullmatch(name):
            return Found(shebang=_first_line(view))
        elf = None
        if _SHARED.fullmatch(name) and b"\0" in head:
            elf = ElfFacts(name, problem="it is named like a library, but is not an ELF file")
        return Found(elf=elf, code=self._database(name))

    # Libraries.

    def _elf(self, name: str, view: View, kept: Kept | None) -> ElfFacts:
        head = view.read_at(0, _HEAD)
        other = fmt.foreign(head)
        if other is not None:
            return ElfFacts(name, *other, bits=32 * head[4], order="little" if head[5] == 1 else "big")
        try:
            elf = read_elf(view)
            if head[_IDENT_VERSION] != 1 or int.from_bytes(head[_VERSION], "little") != 1:
                return ElfFacts(name, problem="its header names a version of ELF that there is none of")
            if elf.kind not in _LOADED and _SHARED.fullmatch(name):
                what = "an object file" if elf.kind == "rel" else "the dump of a process"
                return ElfFacts(name, problem=f"it is named like a library, but is {what}")
            if elf.kind in _LOADED and not elf.segments_of(fmt.PT_LOAD):
                return ElfFacts(name, problem="its header says no segments that are loaded")
            facts = msgspec.structs.replace(_elf_facts(name, elf), system=head[_SYSTEM])
            if elf.kind in _LOADED:
                facts = msgspec.structs.replace(facts, symbols=read_symbols(elf))
        except InvalidInput as error:
            return ElfFacts(name, problem=plain(error, view))
        try:
            return self._device_code(facts, elf, view, kept)
        except InvalidInput as error:
            return msgspec.structs.replace(facts, problem=plain(error, view))

    def _device_code(self, facts: ElfFacts, elf: Elf, view: View, kept: Kept | None) -> ElfFacts:
        section = elf.sections.get(MARKER_SECTION)
        if section is not None and section.type != fmt.SHT_NOBITS:
            marker = parse_marker(view.read_at(section.offset, section.size))
            facts = _launching(msgspec.structs.replace(facts, marker=marker), elf, view)
        fat = fatbin.fat_section(elf)
        if fat is None:
            return facts
        heads = Heads(view, kept.peeked if kept else {})
        bundles = scan_bundles(view, fat.offset, fat.offset + fat.size, heads)
        return msgspec.structs.replace(
            facts,
            targets=_targets(bundles),
            code_sizes=_code_sizes(bundles),
            wrong_code=self.judge.bundles(view, bundles, heads, small=kept is None),
        )

    # Device code and databases of it in files of their own.

    def _named(self, name: str) -> tuple[str | None, tuple[str, ...]]:
        """The word for a target or group in a path, and the base targets that it means."""
        place = classify(name, self.table, self.targets)
        if isinstance(place, Unplaced):
            return place.word, ()
        if place is None:
            return None, ()
        return place.target or place.group, (place.target,) if place.target else place.members

    def _database(self, name: str) -> CodeFile | None:
        said, _ = self._named(name)
        return None if said is None else CodeFile(name, said)

    def _code_object(self, name: str, head: bytes) -> CodeFile:
        """Only the machine is compared: what a path says of features, it says in many ways."""
        said, bases = self._named(name)
        if said is None:
            # In no place that is known; a directory or name of one target is meant all the same.
            words = dict.fromkeys(word for word in _WORD.findall(name) if word in self.targets)
            said = next(iter(words)) if len(words) == 1 else None
            bases = (said,) if said else ()
        if not is_code_object(head):
            return CodeFile(name, said, wrong="its header is cut or malformed")
        machine = machine_of(head, self.machines)
        faults = [mismatch(head, Target(base), self.machines, features=False) for base in bases]
        return CodeFile(name, said, machine, wrong=faults[0] if faults and None not in faults else None)

    def _bundled(self, name: str, view: View, kept: Kept | None) -> CodeFile:
        said, bases = self._named(name)
        heads = Heads(view, kept.peeked if kept else {})
        try:
            bundles = scan_bundles(view, 0, view.size, heads)
            wrong = self.judge.bundles(view, bundles, heads, small=kept is None)
        except InvalidInput as error:
            return CodeFile(name, said, wrong=plain(error, view))
        targets = _targets(bundles)
        what = f"its code for {wrong[0].said}: {wrong[0].what}" if wrong else None
        if bases and targets and not {_base(target) for target in targets} & set(bases):
            what = f"it holds code for {', '.join(sorted(targets))}"
        for_all = said is None and in_database(name, self.table)
        return CodeFile(name, said, wrong=what, targets=targets, for_all=for_all)


def _launching(facts: ElfFacts, elf: Elf, view: View) -> ElfFacts:
    """With the wrappers of a split library; what it launches is looked up only where no build says more."""
    section = elf.sections.get(WRAPPERS)
    size = 0 if section is None else section.size
    launches = None
    if facts.marker is not None and not facts.marker.build:
        with suppress(InvalidInput):
            launches = kernels_of_wrappers(elf, view)
    return msgspec.structs.replace(facts, wrappers=size // WRAPPER.size, launches=launches)


def _unmerged(name: str, data: bytes) -> int | None:
    """The line at which a merge left its first mark; the description behind a blank line is prose."""
    if _THEIRS not in data:
        return None
    if name.endswith("/METADATA"):
        data = re.split(rb"\r?\n\r?\n", data, maxsplit=1)[0] + b"\n"
    at = 0 if data.startswith(_OURS) else data.find(b"\n" + _OURS) + 1
    middle = re.compile(rb"^=======\r?$", re.MULTILINE).search(data, at)
    if not data.startswith(_OURS, at) or middle is None or data.find(_THEIRS, middle.end() - 1) < 0:
        return None
    return data.count(b"\n", 0, at) + 1


def _first_line(view: View) -> str:
    return view.read_at(0, _LONGEST_LINE).split(b"\n")[0].rstrip(b"\r").decode("utf-8", "replace")


def _code_sizes(bundles: Iterable[fatbin.Bundle]) -> dict[str, int]:
    """Bytes of code by target, unpacked."""
    found: dict[str, int] = {}
    for entry in (entry for bundle in bundles for entry in bundle.entries if entry.target):
        found[entry.target] = found.get(entry.target, 0) + entry.size
    return found


def _base(target: str) -> str:
    try:
        return parse_target(target).base
    except InvalidInput:
        return target


def _elf_facts(name: str, elf: Elf) -> ElfFacts:
    flags = elf.dynamic_value(_DT_FLAGS) or 0
    more = elf.dynamic_value(_DT_FLAGS_1) or 0
    stack = next(iter(elf.segments_of(fmt.PT_GNU_STACK)), None)
    return ElfFacts(
        name,
        elf.kind,
        elf.machine,
        elf.soname,
        elf.needed,
        elf.rpath,
        elf.runpath,
        elf.interp,
        _sorted(elf.versions),
        text_relocations=elf.dynamic_value(_DT_TEXTREL) is not None or bool(flags & _DF_TEXTREL),
        stack=None if stack is None else "rwx" if stack.flags & fmt.PF_X else "rw",
        writable_dynamic=_writable_dynamic(elf),
        program=bool(more & _DF_1_PIE),
        not_opened=bool(more & _DF_1_NOOPEN),
    )


def _sorted(versions: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {library: tuple(sorted(set(names))) for library, names in sorted(versions.items())}


def _writable_dynamic(elf: Elf) -> bool | None:
    dynamic = next(iter(elf.segments_of(fmt.PT_DYNAMIC)), None)
    if dynamic is None or not elf.dynamic:
        return None
    # The system maps whole pages, so what follows a segment on its last page is there as well.
    page = dynamic.vaddr // _PAGE
    return any(
        load.flags & fmt.PF_W and load.vaddr // _PAGE <= page <= (load.vaddr + load.memsz - 1) // _PAGE
        for load in elf.segments_of(fmt.PT_LOAD)
    )


def _targets(bundles: Iterable[Bundle]) -> frozenset[str]:
    return frozenset(e.target for bundle in bundles for e in bundle.entries if e.target)


def _is_pe(name: str, head: bytes, view: View) -> bool:
    """Whether it starts as a PE image does, or is named as such and not just text."""
    if name.lower().endswith(_PE_ENDINGS) and b"\0" in head:
        return True
    if len(head) < _HEAD or not head.startswith(_PE_MAGIC):
        return False
    return view.read_at(int.from_bytes(head[_PE_OFFSET_AT:], "little"), 4) == _PE_SIGNATURE


def _pe(name: str, view: View, kept: Kept | None) -> PeFacts:
    try:
        pe = read_pe(view)
    except InvalidInput as error:
        return PeFacts(name, problem=plain(error, view))
    code = [section for section in pe.sections if section.name.startswith(_PE_DEVICE_CODE)]
    targets: set[str] = set()
    # What cannot be read is compared with no request.
    with suppress(InvalidInput):
        heads = Heads(view, kept.peeked if kept else {})
        for section in code:
            targets |= _targets(scan_bundles(view, section.offset, section.offset + section.size, heads))
    return PeFacts(
        name,
        pe.machine,
        pe.is_dll,
        pe.imports,
        pe.delay_imports,
        pe.export_name,
        bool(code),
        frozenset(targets),
        pe.portable,
    )
