"""Code objects in bundles and archives: what the first 64 bytes of each say it is for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec

from rocwright.binary.view import Mapped, View
from rocwright.check.facts import KpackFacts, WrongCode
from rocwright.check.gather.skim import FIRST_BLOCK
from rocwright.device_code.fatbin import Bundle, peek
from rocwright.device_code.kernels import defined_kernels
from rocwright.device_code.kpack import PLAIN, Contents, Entry, frame_head, read_contents, stored_object
from rocwright.device_code.unpack import unpacked_at
from rocwright.errors import InvalidInput
from rocwright.model.gpu import is_target, parse_target
from rocwright.model.machines import HEADER_SIZE, Machines, mismatch

# Bundles of small members that unpack to no more than this are unpacked as far as their last header.
_MOST_UNPACKED = 64 << 20
_MOST_IN_ALL = 256 << 20
_MOST_OBJECT = 32 << 20
# Most code objects begin within the first; a block of zstd must be there as a whole.
_READS = (32 << 10, FIRST_BLOCK)


class Heads(Mapping[int, bytes]):
    """Unpacked heads of compressed bundles by file offset: kept while they streamed by, or read again."""

    def __init__(self, view: View, kept: Mapping[int, bytes]) -> None:
        self.view, self.known = view, dict(kept)

    def __getitem__(self, offset: int) -> bytes:
        if offset not in self.known:
            head = peek(self.view.read_at(offset, FIRST_BLOCK), self.view.path)
            if head is None:
                raise KeyError(offset)
            self.known[offset] = head
        return self.known[offset]

    def __iter__(self) -> Iterator[int]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


class Judge(msgspec.Struct, frozen=True):
    """Compares code with what its container says it is for."""

    machines: Machines

    def wrong(self, said: str, head: bytes) -> WrongCode | None:
        """What is wrong with code that should be for a target; None too for a target nobody knows."""
        if not is_target(said) or parse_target(said).is_spirv:
            return None
        what = mismatch(head, parse_target(said), self.machines)
        return None if what is None else WrongCode(said, what)

    def bundles(
        self, view: View, bundles: Iterable[Bundle], heads: Mapping[int, bytes], *, small: bool
    ) -> tuple[WrongCode, ...]:
        """The code in bundles that is not what its entry says, each kind of fault once.

        Raw code objects are all looked at; compressed code objects in a `small` member as well, up to
        256 MiB of them. In a larger member it is the first of each compressed bundle, whose header is
        unpacked with the entries: unpacking the rest would take as long as everything else together.
        """
        found: dict[WrongCode, None] = {}
        left = _MOST_IN_ALL if small else 0
        for bundle in bundles:
            code = [entry for entry in bundle.entries if entry.target]
            if bundle.packed is None:
                at = {
                    entry.offset: view.read_at(entry.offset, min(HEADER_SIZE, entry.size)) for entry in code
                }
            elif bundle.packed.unpacked <= min(left, _MOST_UNPACKED):
                left -= bundle.packed.unpacked
                at = unpacked_at(view, bundle.packed, [entry.offset for entry in code], HEADER_SIZE)
            else:
                head = heads.get(bundle.offset, b"")
                reached = (e.offset for e in code if e.offset + HEADER_SIZE <= len(head))
                at = {offset: head[offset : offset + HEADER_SIZE] for offset in reached}
            for entry in code:
                wrong = self.wrong(entry.target, at[entry.offset]) if entry.offset in at else None
                if wrong is not None:
                    found[wrong] = None
        return tuple(found)

    def archive(self, member: str, view: View, frames: Mapping[int, bytes]) -> KpackFacts:
        """A kpack archive; `frames` are the first bytes of code objects that are known, by file offset."""
        try:
            contents = read_contents(view)
            wrong = self._archived(view, contents, frames)
        except InvalidInput as error:
            return KpackFacts(member, problem=plain(error, view))
        return KpackFacts(
            member,
            frozenset(entry.kernel for entry in contents.entries),
            frozenset((*contents.targets, *(entry.target for entry in contents.entries))),
            wrong,
            builds=contents.builds,
            wrappers=_wrappers(contents),
            defined=_defined(view, contents),
        )

    def _archived(self, view: View, contents: Contents, frames: Mapping[int, bytes]) -> tuple[WrongCode, ...]:
        found: dict[WrongCode, None] = {}
        seen: dict[int, bytes] = {}
        for entry in contents.entries:
            if entry.ordinal not in seen:
                seen[entry.ordinal] = _stored_head(view, contents, entry.ordinal, frames)
            wrong = self._entry(entry, seen[entry.ordinal])
            if wrong is not None:
                found[wrong] = None
        return tuple(found)

    def _entry(self, entry: Entry, head: bytes) -> WrongCode | None:
        """Code for fewer features may stand for a more specific target; its entry says where it is from."""
        origin = (entry.id or "").rpartition("--")[2]
        if not is_target(entry.target) or not is_target(origin) or origin == entry.target:
            return self.wrong(entry.target, head)
        built, target = parse_target(origin), parse_target(entry.target)
        if built.base != target.base or not set(built.features) <= set(target.features):
            return WrongCode(entry.target, f"it was built for {origin}")
        return self.wrong(origin, head)


def _wrappers(contents: Contents) -> dict[str, int]:
    found: dict[str, int] = {}
    for entry in contents.entries:
        found[entry.kernel] = max(found.get(entry.kernel, 0), entry.index + 1)
    return found


def _defined(view: View, contents: Contents) -> dict[tuple[str, int], frozenset[str]]:
    """The kernels in the code of each wrapper, where no build is named; up to 256 MiB of code are read."""
    found: dict[tuple[str, int], frozenset[str]] = {}
    unknown = set()
    left = _MOST_IN_ALL
    for entry in contents.entries:
        if entry.kernel in contents.builds:
            continue
        packed, place = contents.blobs[entry.ordinal][1], (entry.kernel, entry.index)
        names: frozenset[str] = frozenset()
        if max(packed, entry.size) <= min(left, _MOST_OBJECT):
            left -= entry.size
            with suppress(InvalidInput):
                names = defined_kernels(Mapped(view.path, stored_object(view, contents, entry)))
        if not names:
            unknown.add(place)
        found[place] = found.get(place, frozenset()) | names
    return {place: names for place, names in found.items() if place not in unknown}


def plain(error: InvalidInput, view: View) -> str:
    """What an error says, without the name of the member."""
    return error.what.removeprefix(f"{view.path.name}: ")


def _stored_head(view: View, contents: Contents, ordinal: int, frames: Mapping[int, bytes]) -> bytes:
    """The first bytes of an archived code object; fewer than 64 when they cannot be had."""
    offset, size = contents.blobs[ordinal]
    if contents.scheme == PLAIN:
        return view.read_at(offset, min(HEADER_SIZE, size))
    head = frames.get(offset, b"")
    for length in _READS:
        if len(head) < HEADER_SIZE:
            head = frame_head(view.read_at(offset, min(size, length)), HEADER_SIZE) or b""
    return head
