"""The environment of test processes: variables, visible GPUs, the file of skip entries; never the caller's.

HIP reads HIP_VISIBLE_DEVICES and, where that is not set, CUDA_VISIBLE_DEVICES; both choose among what
ROCR_VISIBLE_DEVICES left. Each entry is an index or a UUID; the first that is neither ends the list.
An empty value hides every GPU, as the documents of both vendors say.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Literal

import msgspec

from rocwright.model.platforms import Platform
from rocwright.model.suites import SkipEntry, SuiteTable
from rocwright.system.files import atomic_write

# The plugin of pytest that applies skip entries, and what it reads: the file of the entries, and whether to
# run what they are for, and nothing else.
SKIPS_PLUGIN = "rocwright_skips"
SKIPS_FILE = "ROCWRIGHT_SKIPS"
ONLY_ENTRIES = "ROCWRIGHT_SKIPS_ONLY"
_SEPARATORS = {"linux": ":", "windows": ";"}
# Read by torch's own test helpers: which devices the device-generic tests are made for, and whether what is
# known not to work on ROCm is left out.
ONLY_FOR = "PYTORCH_TESTING_DEVICE_ONLY_FOR"
_WITH_ROCM = "PYTORCH_TEST_WITH_ROCM"

Variable = Literal["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"]
HIP: Variable = "HIP_VISIBLE_DEVICES"
CUDA: Variable = "CUDA_VISIBLE_DEVICES"
ROCR = "ROCR_VISIBLE_DEVICES"

_HIP_ENTRY = re.compile(r"[0-9]+|GPU-[0-9a-f]+", re.IGNORECASE)
_CUDA_ENTRY = re.compile(r"[0-9]+|(?:GPU|MIG)-[0-9a-f/-]+", re.IGNORECASE)


class ChildEnvironment(msgspec.Struct, frozen=True):
    """Variables that are set for the child, and names that it does not inherit."""

    set: dict[str, str] = msgspec.field(default_factory=dict)
    removed: tuple[str, ...] = ()

    def with_(self, more: Mapping[str, str]) -> ChildEnvironment:
        """This environment with more variables; a variable that is set is not removed."""
        return ChildEnvironment(
            {**self.set, **more}, tuple(name for name in self.removed if name not in more)
        )


def child_environment(
    table: SuiteTable,
    *,
    tests_dir: PurePath,
    miopen_cache: PurePath,
    platform: Platform,
    inherited: Mapping[str, str],
    device: Literal["cuda", "cpu"] = "cuda",
    rocm: bool = True,
) -> ChildEnvironment:
    """What test processes get besides the caller's environment, on `platform`.

    `device` is the device that torch's device-generic tests are made for; on a machine without a GPU `cuda`
    would leave none of them. A torch that is not built for ROCm must not be told to skip what ROCm cannot do.
    `inherited` is the caller's environment; its PYTHONPATH stays, behind the directory of the tests.
    """
    variables = {**table.environment.set, ONLY_FOR: device}
    removed = list(table.environment.removed)
    if not rocm:
        variables.pop(_WITH_ROCM, None)
        removed.append(_WITH_ROCM)
    variables["MIOPEN_CUSTOM_CACHE_DIR"] = str(miopen_cache)
    # An empty entry would stand for the current directory.
    parts = [str(tests_dir), *filter(None, inherited.get("PYTHONPATH", "").split(_SEPARATORS[platform]))]
    variables["PYTHONPATH"] = _SEPARATORS[platform].join(parts)
    return ChildEnvironment(dict(sorted(variables.items())), tuple(sorted(set(removed))))


def fresh_cache() -> tempfile.TemporaryDirectory[str]:
    """A new directory for what MIOpen compiles: kernels that an earlier ROCm left would be tested instead.

    Processes of a test that were left behind may still write there while it is being removed.
    """
    return tempfile.TemporaryDirectory(prefix="rocwright-miopen-", ignore_cleanup_errors=True)


def inside_directory() -> Path:
    """The directory of the modules that run beside torch; it goes first on the tests' PYTHONPATH."""
    return Path(__file__).resolve().parent / "inside"


def write_entries(entries: Iterable[SkipEntry], path: Path, root: Path | None = None) -> None:
    """Write the entries that hold for the plugin, which reads the file that `ROCWRIGHT_SKIPS` names.

    `root` is the directory of the tests, which files in node ids are relative to; without it that is where
    pytest is started.
    """
    chosen = [
        {
            "id": entry.id,
            "kind": entry.kind,
            "tests": list(entry.tests),
            "reason": entry.reason,
            "issue": entry.issue,
        }
        for entry in entries
    ]
    document = {"root": str(root.resolve()) if root else "", "entries": chosen}
    with atomic_write(path) as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")


class Visible(msgspec.Struct, frozen=True):
    """What was chosen before: `entries` in order, None for all; `said` is the variable that chose.

    `variable` chooses among these. `notes` are sentences about what is odd.
    """

    variable: Variable
    entries: tuple[str, ...] | None
    said: str = ""
    notes: tuple[str, ...] = ()


def read_visible(environ: Mapping[str, str], *, hip: bool) -> Visible:
    """What the variables of an environment choose for a ROCm program (`hip`) or a CUDA program."""
    variable = HIP if hip else CUDA
    notes: list[str] = []
    if hip and ROCR in environ:
        if not environ[ROCR].strip():
            return Visible(variable, (), ROCR, (f"{ROCR} is set and empty: no GPU is visible",))
        notes.append(f"{ROCR}={environ[ROCR]} is applied first; other variables choose among what it leaves")
    said = _speaking(environ, hip=hip)
    if hip and HIP in environ and CUDA in environ and environ[HIP] != environ[CUDA]:
        notes.append(f"{HIP}={environ[HIP]} is used; {CUDA}={environ[CUDA]} is not passed to the tests")
    if said is None:
        return Visible(variable, None, "", tuple(notes))
    entries = _entries(environ[said], said, notes, hip=hip)
    return Visible(variable, entries, said, tuple(notes))


def _speaking(environ: Mapping[str, str], *, hip: bool) -> Variable | None:
    for variable in (HIP, CUDA) if hip else (CUDA,):
        if variable in environ:
            return variable
    return None


def _entries(value: str, said: str, notes: list[str], *, hip: bool) -> tuple[str, ...]:
    if not value.strip():
        notes.append(f"{said} is set and empty: no GPU is visible")
        return ()
    found: list[str] = []
    for word in (part.strip() for part in value.split(",")):
        if not (_HIP_ENTRY if hip else _CUDA_ENTRY).fullmatch(word):
            notes.append(f"{said}={value}: {word!r} is neither an index nor a UUID, so the list ends there")
            break
        if word in found:
            notes.append(f"{said}={value}: {word} is listed twice")
            continue
        found.append(word)
    return tuple(found)


def unwanted(environ: Mapping[str, str], variable: Variable) -> tuple[str, ...]:
    """Variables that would speak beside the variable that tests get: HIP reads CUDA_VISIBLE_DEVICES, too."""
    return tuple(name for name in (HIP, CUDA) if name != variable and name in environ)
