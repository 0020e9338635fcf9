"""New content of members in which a version stands, for wheels and sdists alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.metadata import parse_email

from rocwright.errors import InvalidWheel
from rocwright.model.patterns import fits
from rocwright.wheel.metadata import edit_headers
from rocwright.wheel.reversion.requires import edit_requirement
from rocwright.wheel.reversion.table import ReversionTable
from rocwright.wheel.reversion.texts import Unreadable, edit_json, edit_python, mentions
from rocwright.wheel.reversion.values import Changes, PlannedDistribution


@dataclass
class MemberEdits:
    """Edits members of one file; remembers requirements that changed and what still mentions old versions."""

    file: Path
    version: str
    changes: Changes
    requirements: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    def edit(self, name: str, data: bytes, edit: Callable[[bytes], bytes]) -> bytes:
        """New bytes of a member, by one of the methods below; raises `InvalidWheel` naming it."""
        # Every version that changes has that of ROCm in it.
        old = str(self.changes.rocm.old)
        try:
            new = edit(data)
        except Unreadable as error:
            if not mentions(data, old):
                return data
            raise InvalidWheel(
                f"{name} in {self.file.name} contains an old version and cannot be parsed: {error}",
                where=self.file,
            ) from error
        if mentions(new, old):
            self.left.append(name)
        return new

    def headers(self, data: bytes) -> bytes:
        """METADATA or PKG-INFO with the new version and requirements, and nothing else that installers see.

        Raises `InvalidWheel` where these see other headers: they end lines and headers at more places.
        """
        new = edit_headers(data, self._header)
        said, unknown = parse_email(data)
        wanted = {**said}
        if "version" in said:
            wanted["version"] = self.version
        if "requires_dist" in said:
            wanted["requires_dist"] = [self._header_requirement(text) for text in said["requires_dist"]]
        if parse_email(new) != (wanted, unknown):
            raise InvalidWheel(
                f"the metadata in {self.file.name} is malformed: installers see other headers in it",
                where=self.file,
                next_step="build the file again with one header a line",
            )
        return new

    def _header(self, key: str, value: str) -> Sequence[str] | None:
        if key == "version":
            return None if value == self.version else [f"Version: {self.version}"]
        if key == "requires-dist":
            new = self._requirement(value)
            return None if new == value else [f"Requires-Dist: {new}"]
        return None

    def _header_requirement(self, text: str) -> str:
        """What a header's text is afterwards; one that stays keeps its folds."""
        plain = " ".join(text.split())
        new = self._requirement(plain)
        return text if new == plain else new

    def _requirement(self, text: str) -> str:
        new = edit_requirement(text, self.changes.projects, self.file.name)
        if new != text:
            self.requirements[text] = new
        return new

    def requirement_lines(self, data: bytes) -> bytes:
        """requires.txt of setuptools: requirements one a line, below the names of extras."""
        text = data.decode("utf-8", "surrogateescape")
        lines = [
            line if not line.strip() or line.lstrip().startswith(("[", "#")) else self._line(line)
            for line in text.split("\n")
        ]
        return "\n".join(lines).encode("utf-8", "surrogateescape")

    def _line(self, line: str) -> str:
        end = "\r" if line.endswith("\r") else ""
        return edit_requirement(line.removesuffix("\r"), self.changes.projects, self.file.name) + end

    def python(self, data: bytes) -> bytes:
        """A module."""
        return edit_python(data, self.changes.texts)

    def json(self, data: bytes) -> bytes:
        """A JSON document."""
        return edit_json(data, self.changes.texts, self.changes.projects)


def editor(edits: MemberEdits, table: ReversionTable, name: str) -> Callable[[bytes], bytes] | None:
    """How a member of this name is edited, by the table; None where it is not."""
    if fits(name, table.python):
        return edits.python
    if fits(name, table.json):
        return edits.json
    return None


def require_new_name(distribution: PlannedDistribution, changed: bool) -> None:
    """Raise `InvalidWheel` for a file that would change under the name it has."""
    if changed:
        raise InvalidWheel(
            f"{distribution.path.name} names an old version, but has no ROCm in its own version: it would "
            "keep its name with other content",
            where=distribution.path,
            next_step="leave it out, or build it again for the new version",
        )
