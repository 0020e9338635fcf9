"""The logs of a build: the calls of compilers and linkers that the recorder wrote down, with the peaks of
earlier runs, and ninja's log, which also has the steps of compilers that no launcher stood before.

A run of the builder begins with `start_units`, which keeps of the records before it what later runs need:
the most memory that each unit took. So `calls.jsonl` holds the calls of the newest run alone.

Source of the second: https://ninja-build.org/manual.html#ref_log and versions 5 to 7 of the format, which
differ in how the command is hashed, and that is not read here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from rocwright.system.files import write_text

CALLS, PEAKS = "calls.jsonl", "peaks.json"


class UnitRecord(msgspec.Struct, frozen=True):
    """One call: seconds, bytes of the largest process, what the compiler cache answered (empty: not asked).

    `kind` is `host`, `hip`, `link` or `other` (a question to the compiler, not a compilation). `build` is the
    project, with the Python where one is known. `devices` maps GPU targets, and `host`, to CPU seconds.
    `at` is seconds since 1970; paths are as the command had them, relative to `directory`.
    """

    at: float
    kind: str
    source: str
    output: str
    directory: str
    wall_s: float
    cpu_s: float
    peak_rss: int
    exit: int = 0
    build: str = ""
    cache: str = ""
    devices: dict[str, float] = {}

    @property
    def project(self) -> str:
        """The project alone."""
        return self.build.partition(" ")[0]

    @property
    def python(self) -> str:
        """The Python that was being built for; empty where the build did not say."""
        return self.build.partition(" ")[2]

    @property
    def object(self) -> str:
        """The output as one path, whatever the call's directory was."""
        return str(Path(self.directory) / self.output)


def read_units(directory: Path) -> list[UnitRecord]:
    """The calls of the newest run, in the order in which they ended; lines that are no record are skipped.

    A run that was killed in the middle of a write leaves half a line, and that is no reason to fail.
    """
    try:
        lines = (directory / CALLS).read_bytes().splitlines()
    except OSError:
        return []
    decoder = msgspec.json.Decoder(UnitRecord)
    records = []
    for line in lines:
        try:
            records.append(decoder.decode(line))
        except msgspec.DecodeError:
            continue
    return records


def start_units(directory: Path) -> None:
    """Keep the peaks of the calls that are there and begin with none; also removes what killed calls left."""
    directory.mkdir(parents=True, exist_ok=True)
    known = _known_peaks(directory)
    for record in read_units(directory):
        if record.exit == 0 and record.kind != "other":
            known.setdefault(record.project, {})[record.object] = record.peak_rss
    if known:
        write_text(directory / PEAKS, msgspec.json.format(msgspec.json.encode(known).decode(), indent=1))
    (directory / CALLS).unlink(missing_ok=True)
    for left in directory.glob(".notes-*"):
        left.unlink(missing_ok=True)


def peaks(directory: Path, project: str) -> list[int]:
    """Most bytes resident of each unit of a project in its last build, largest first; empty without one."""
    return sorted(_made(directory, project).values(), reverse=True)


def objects(directory: Path, project: str) -> set[str]:
    """Objects of a project that its compilers have made, in this run or an earlier one."""
    return set(_made(directory, project))


def _made(directory: Path, project: str) -> dict[str, int]:
    """The objects of a project, of this run and earlier ones, each with the newest figure of its memory."""
    known = _known_peaks(directory).get(project, {})
    for record in read_units(directory):
        if record.project == project and record.exit == 0 and record.kind != "other":
            known[record.object] = record.peak_rss
    return known


def _known_peaks(directory: Path) -> dict[str, dict[str, int]]:
    try:
        return msgspec.json.decode((directory / PEAKS).read_bytes(), type=dict[str, dict[str, int]])
    except (OSError, msgspec.DecodeError):
        # A guess from data serves as well; it is not worth stopping for.
        return {}


LOG_NAME = ".ninja_log"
_VERSIONS = ("5", "6", "7")
_OBJECTS = (".o", ".obj")
_LIBRARIES = (".so", ".dll", ".exe", ".a", ".lib", ".pyd")


class NinjaStep(msgspec.Struct, frozen=True):
    """One output: wall seconds of the step that made it, which may have made others too."""

    output: str
    wall_s: float
    kind: str


def read_ninja_log(path: Path) -> list[NinjaStep]:
    """The last entry of each output of a log; several outputs of one step count once, by the first.

    An absent log, one of another version and broken lines give less or nothing: it is a second source.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    if not lines or lines[0].removeprefix("# ninja log v") not in _VERSIONS:
        return []
    newest: dict[str, tuple[int, int, str]] = {}
    for line in lines[1:]:
        fields = line.split("\t")
        if len(fields) != 5 or not (fields[0].isdigit() and fields[1].isdigit()):
            continue
        newest[fields[3]] = (int(fields[0]), int(fields[1]), fields[4])
    return [
        NinjaStep(output, (end - start) / 1000, _kind(output))
        for (start, end, _), output in _steps(newest).items()
    ]


def _steps(newest: dict[str, tuple[int, int, str]]) -> dict[tuple[int, int, str], str]:
    """First output of each step: start, end and command are the same for all that one step made."""
    first: dict[tuple[int, int, str], str] = {}
    for output, step in newest.items():
        first.setdefault(step, output)
    return first


def _kind(output: str) -> str:
    name = output.rpartition("/")[2]
    if name.endswith(_OBJECTS):
        # FindHIP's and CMake's HIP objects carry the source's ending: MatMul.hip.o.
        return "hip" if ".hip." in name or ".cu." in name else "host"
    return "link" if name.endswith(_LIBRARIES) or ".so." in name else "other"


def find_ninja_logs(directory: Path) -> list[Path]:
    """Logs below a source tree's build directories: of CMake, and of setuptools' extensions."""
    found: Iterable[Path] = directory.glob(f"build*/**/{LOG_NAME}")
    return sorted([*found, *directory.glob(LOG_NAME)])
