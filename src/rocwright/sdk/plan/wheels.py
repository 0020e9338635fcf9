"""The wheels of ROCm as plans: members, metadata, commands, and what each says of the licences and origins of
its files (PEP 639, PEP 770).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch

import msgspec

from rocwright.device_code.kpack import SUFFIX
from rocwright.device_code.tree.names import also_runs, served
from rocwright.errors import InvalidPrefix
from rocwright.sdk.intake.tree import RocmTree
from rocwright.sdk.licences import (
    LicenceTable,
    LicenceText,
    find_texts,
    libraries_in,
    licence_table,
    licences_of,
)
from rocwright.sdk.plan.devel import DevelPayload
from rocwright.sdk.plan.packages import CORE, DEVEL, LIBRARIES, PROFILER, Named, device, normal
from rocwright.sdk.plan.runtime import RuntimePlan, Shipped, programs_of
from rocwright.sdk.sbom import SBOM_PATH, Provenance, bundled, read_provenance, sbom
from rocwright.sdk.table import PackageTable
from rocwright.system.files import shipped_directory
from rocwright.wheel.metadata import Metadata
from rocwright.wheel.source import BytesSource, FileSource, Source
from rocwright.wheel.write import Member, WheelPlan

# Programs are looked for in these directories of a tree, by the packages' command modules too.
_PROGRAM_DIRECTORIES = ("bin", "lib/llvm/bin")
_SUMMARIES = {
    "core": "ROCm runtime, compiler and tools",
    "libraries": "ROCm math and communication libraries",
    "device": "ROCm device code and kernel databases for {}",
    "devel": "ROCm headers, CMake packages and static libraries; expands beside the runtime packages",
    "profiler": "ROCm Systems Profiler and ROCm Compute Profiler",
}


class Maker(msgspec.Struct, frozen=True):
    """Makes the plans of one version for one platform (`linux_x86_64`, `win_amd64`).

    `remarks` collects what is to be told about them.
    """

    version: str
    platform: str
    table: PackageTable
    legal: Legal
    remarks: list[str] = msgspec.field(default_factory=list)

    @property
    def _windows(self) -> bool:
        return self.platform.startswith("win")

    def core(self, runtime: RuntimePlan) -> WheelPlan:
        """rocm-sdk-core: everything that needs no particular GPU, and the console commands."""
        shipped = runtime.of("core")
        data = {"version": self.version, "sources": self.legal.sources}
        facts = msgspec.json.format(msgspec.json.encode(data, order="sorted"), indent=1) + b"\n"
        extra = [Member(f"{CORE.module}/_sources.json", BytesSource(facts))]
        commands = console_commands(programs_of(shipped), self.table, "rocm_sdk_core")
        return self._runtime("core", CORE, shipped, extra=extra, scripts=commands)

    def libraries(self, named: Named, shipped: Sequence[Shipped], targets: Sequence[str]) -> WheelPlan:
        """The libraries; `targets` are those of the code inside them, none where it was split off."""
        summary = _SUMMARIES["libraries"]
        if targets:
            summary += f" with device code for {' '.join(targets)}"
        return self._runtime(
            "libraries", named, shipped, targets=targets, requires=(CORE.distribution,), summary=summary
        )

    def profiler(self, runtime: RuntimePlan) -> WheelPlan:
        """rocm-profiler; it declares no requirements, the extra `profiler` of `rocm` does."""
        shipped = runtime.of("profiler")
        programs = _program_names(programs_of(shipped), ("bin",))
        commands = {name: f"rocm_profiler._cli:{_attribute(name)}" for name in programs}
        return self._runtime("profiler", PROFILER, shipped, scripts=commands)

    def device(
        self,
        word: str,
        serves: Sequence[str],
        shipped: Sequence[Shipped],
        code: Iterable[str],
        among: Iterable[str],
    ) -> WheelPlan:
        """A device package that `serves` base targets; `code` are full ones, `among` names all such packages.

        A single target requires the groups among them that serve it, and the generic target whose code runs
        on it: some libraries have nothing else for it (rocSOLVER of Debian's ROCm 6.4).
        """
        named = device(word)
        own = {word, *serves} if served(word) == (word,) else {word}
        groups = [
            device(o).distribution
            for o in among
            if o != word and not own.isdisjoint((*served(o), *also_runs(o)))
        ]
        marker = {
            "code": sorted(code),
            "serves": list(serves),
            "target": word,
            "version": self.version,
        }
        # Directly in the package: installers remove an emptied directory only where a file of theirs lay.
        place = f"{LIBRARIES.module}/_device_{normal(word)}.json"
        members = [
            *_members(LIBRARIES, shipped),
            Member(place, BytesSource(msgspec.json.encode(marker) + b"\n")),
        ]
        return self._wheel(
            "device",
            named,
            members,
            shipped,
            requires=(LIBRARIES.distribution, *groups),
            summary=_SUMMARIES["device"].format(word),
        )

    def devel(
        self, payload: DevelPayload, archive: tuple[str, Source], compiler: Mapping[str, str]
    ) -> WheelPlan:
        """rocm-sdk-devel with its archive (member name, bytes); `compiler` are its console commands.

        All of it is in the pure package; the package with the files comes when they are expanded.
        """
        members = [
            Member(f"{DEVEL.pure}/__init__.py", BytesSource(self._init("devel", ()))),
            Member(f"{DEVEL.pure}/{archive[0]}", archive[1]),
            Member(f"{DEVEL.pure}/_devel.json", BytesSource(payload.manifest)),
            *_pure("devel", DEVEL),
        ]
        points: dict[str, Mapping[str, str]] = {"cmake.prefix": {"rocm": "rocm_sdk_devel.cmake"}}
        if compiler:
            points["console_scripts"] = compiler
        return self._wheel(
            "devel", DEVEL, members, payload.files, requires=(CORE.distribution,), points=points
        )

    def _runtime(
        self,
        role: str,
        named: Named,
        shipped: Sequence[Shipped],
        *,
        targets: Sequence[str] = (),
        requires: tuple[str, ...] = (),
        summary: str | None = None,
        extra: Iterable[Member] = (),
        scripts: Mapping[str, str] | None = None,
    ) -> WheelPlan:
        if not shipped:
            raise InvalidPrefix(f"no file of this ROCm belongs to {named.distribution}")
        members = [
            *_members(named, shipped),
            Member(f"{named.module}/__init__.py", BytesSource(self._init(role, shipped, targets))),
            *_pure(role, named),
            *extra,
        ]
        points = {"console_scripts": scripts} if scripts else {}
        return self._wheel(role, named, members, shipped, requires=requires, summary=summary, points=points)

    def _init(self, role: str, shipped: Sequence[Shipped], targets: Sequence[str] = ()) -> bytes:
        """`__init__.py` of a package with files: plain facts, so that importing it costs nothing."""
        paths = [file.path for file in shipped]
        # Not what only leads to one.
        real = [file.path for file in shipped if file.origin is not None]
        facts: dict[str, object] = {
            "LIBRARIES": self.table.libraries(role, real, windows=self._windows),
            "NOT_LOADABLE": {
                pattern: why
                for pattern, why in self.table.not_loadable.items()
                if any(fnmatch(path, pattern) for path in paths)
            },
            "TARGETS": tuple(targets),
        }
        lines = [
            '"""Files of ROCm; found through the package rocm_sdk."""',
            "",
            f"__version__ = {self.version!r}",
        ]
        lines += [f"{name} = {value!r}" for name, value in facts.items() if value]
        return ("\n".join(lines) + "\n").encode()

    def _wheel(
        self,
        role: str,
        named: Named,
        members: Sequence[Member],
        shipped: Sequence[Shipped],
        *,
        requires: tuple[str, ...] = (),
        summary: str | None = None,
        points: Mapping[str, Mapping[str, str]] | None = None,
    ) -> WheelPlan:
        terms = self.legal.of(named.distribution, self.version, named.module, shipped)
        self.remarks.extend(f"{named.distribution}: licence unknown of {name}" for name in terms.unknown)
        plan = WheelPlan(
            name=named.distribution,
            version=self.version,
            metadata=Metadata(
                name=named.distribution,
                version=self.version,
                summary=summary or _SUMMARIES[role],
                requires_python=">=3.8",
                requires_dist=tuple(f"{name}=={self.version}" for name in requires),
                license_expression=terms.expression,
                license_files=tuple(name for name, _ in terms.texts),
            ),
            members=(),
            tag=f"py3-none-{self.platform}",
            entry_points=points or {},
        )
        texts = [Member(f"{plan.dist_info}/licenses/{name}", source) for name, source in terms.texts]
        bill = Member(f"{plan.dist_info}/{SBOM_PATH}", BytesSource(terms.bill))
        return msgspec.structs.replace(plan, members=(*members, *texts, bill))


def _members(named: Named, shipped: Sequence[Shipped]) -> list[Member]:
    return [Member(f"{named.module}/{file.path}", file.source, file.executable) for file in shipped]


def _pure(role: str, named: Named) -> list[Member]:
    """The public package of a distribution, under its own name."""
    source = (
        shipped_directory("runtime") / role / ("rocm_profiler" if role == "profiler" else f"rocm_sdk_{role}")
    )
    return [
        Member(f"{named.pure}/{file.relative_to(source).as_posix()}", FileSource(file))
        for file in sorted(source.rglob("*.py"))
    ]


def _attribute(command: str) -> str:
    # An attribute cannot hold these characters; the command modules reverse the spelling.
    return command.replace("-", "_").replace(".", "_").replace("+", "p")


def _program_names(paths: Iterable[str], directories: Iterable[str]) -> list[str]:
    """Names of programs in some directories, without `.exe`."""
    places = tuple(directories)
    inside = [path for path in paths if path.rpartition("/")[0] in places]
    return sorted({path.rpartition("/")[2].removesuffix(".exe") for path in inside})


def console_commands(programs: Iterable[str], table: PackageTable, module: str) -> dict[str, str]:
    """Console commands whose program is in a tree: name to entry point in `<module>._cli`."""
    names = set(_program_names(programs, _PROGRAM_DIRECTORIES))
    wanted = (*table.commands.compiler, *table.commands.system)
    return {name: f"{module}._cli:{_attribute(name)}" for name in sorted(wanted) if name in names}


_OURS = "MIT"


class Terms(msgspec.Struct, frozen=True):
    """Of one wheel: SPDX expression, licence texts (name below `licenses/`, bytes), bill of materials.

    `unknown` names what the expression is left out for.
    """

    expression: str | None
    texts: tuple[tuple[str, Source], ...]
    bill: bytes
    unknown: tuple[str, ...]


class Legal(msgspec.Struct, frozen=True):
    """What a ROCm says of the licences and origins of its files."""

    table: LicenceTable
    texts: tuple[LicenceText, ...]
    provenance: Provenance
    archives: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    @classmethod
    def of_tree(cls, tree: RocmTree) -> Legal:
        """Read the licence texts, the origins and the archives' tables of contents.

        Raises `InvalidData` for a malformed list of origins, `InvalidArchive` for a damaged archive.
        """
        table = licence_table()
        layers = (*tree.parts.values(), tree.host)
        files = {path: file.place for layer in layers for path, file in layer.files.items()}
        return cls(
            table=table,
            texts=find_texts(files),
            provenance=read_provenance(files, table.repositories),
            archives=_archives(tree),
        )

    @property
    def sources(self) -> dict[str, str]:
        """Name of each package or repository that ROCm was made of, to its version or commit."""
        origins = sorted(self.provenance.origins.items())
        return {name: origin.version for name, origin in origins if origin.version is not None}

    def of(self, distribution: str, version: str, module: str, shipped: Sequence[Shipped]) -> Terms:
        """The terms of a wheel that ships these files below `module`."""
        files = {file.origin: file for file in shipped if file.origin is not None}
        found = licences_of(
            {path: self.provenance.package_of(path, file.artifact) for path, file in files.items()},
            self.texts,
            self.table,
            archives=self.archives,
        )
        members = {path: f"{module}/{file.path}" for path, file in files.items()}
        parts = bundled(found.parts, members, self.provenance)
        expression = _with_ours(found.expression)
        ours = ("rocwright/LICENSE", FileSource(shipped_directory("runtime") / "LICENSE"))
        return Terms(
            expression=expression,
            texts=(*((name, FileSource(place)) for name, place in found.files), ours),
            bill=sbom(distribution, version, parts, licence=expression),
            unknown=found.unknown,
        )


def _with_ours(expression: str | None) -> str | None:
    """The expression with the licence of what rocwright itself puts into each wheel."""
    if expression is None or _OURS in expression.split(" AND "):
        return expression
    return f"{expression} AND {_OURS}"


def _archives(tree: RocmTree) -> dict[str, tuple[str, ...]]:
    return {
        path: libraries_in(file.place)
        for part in tree.parts.values()
        for path, file in part.files.items()
        if path.endswith(SUFFIX)
    }
