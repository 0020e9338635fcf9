"""What the doctor says: the catalogue of what it looks at, how each thing stands, and the whole diagnosis.

The table of the page for users is made of the catalogue `EXAMINATIONS`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import msgspec

from rocwright.model.findings import Clause, Finding, HasFindings

SCHEMA = "rocwright.doctor/1"

# `missing`: not there; `wrong`: there, and does not fit; `note`: worth knowing, no fault.
Verdict = Literal["ok", "note", "missing", "wrong"]
Section = Literal["machine", "environment"]
# Whose a distribution is, compared with the manifest of a set.
Whose = Literal["set", "other", "unknown"]


@dataclass(frozen=True)
class Examination(Clause):
    """What the doctor looks at: `summary` says what it is, `next_step` which command (or step) mends it."""

    _: KW_ONLY
    section: Section = "machine"


EXAMINATIONS = (
    Examination(
        "gpu",
        "AMD GPUs as the kernel driver lists them; never guessed",
        next_step="make the files below `/sys/class/kfd` readable",
    ),
    Examination(
        "driver",
        "the PCI bus lists an AMD GPU, but the kernel driver `amdgpu` is not loaded, or something blocks it",
        next_step="`sudo modprobe amdgpu`; remove the line or the kernel parameter that blocks it",
    ),
    Examination(
        "container",
        "a container that was started without `/dev/kfd` or `/dev/dri`, though the machine has a GPU",
        next_step="`docker run --device=/dev/kfd --device=/dev/dri --group-add video --group-add render "
        "… IMAGE`",
    ),
    Examination(
        "access",
        "this user may read and write `/dev/kfd` and `/dev/dri/renderD*`",
        next_step="`sudo usermod -a -G render,video $USER`, then log in again; in a container `--group-add`",
    ),
    Examination(
        "shared-memory",
        "`/dev/shm` of a container is large enough for data loaders",
        next_step="start it with `--ipc=host` (or `--shm-size=8g`)",
    ),
    Examination(
        "seccomp",
        "a container's filter of system calls, which keeps memory policies and debuggers from working",
        next_step="start it with `--security-opt seccomp=unconfined`",
    ),
    Examination(
        "override",
        "`HSA_OVERRIDE_GFX_VERSION` makes programs treat every GPU as another one",
        next_step="`unset HSA_OVERRIDE_GFX_VERSION`",
    ),
    Examination(
        "visibility",
        "`ROCR_VISIBLE_DEVICES`, `HIP_VISIBLE_DEVICES` or `CUDA_VISIBLE_DEVICES` hides GPUs",
        next_step="`unset` the variable",
    ),
    Examination(
        "system-rocm",
        "ROCm below `/opt` or from the distribution: several of them, or one on `PATH`",
        next_step="take its `bin` out of `PATH`; with wheels nothing else is needed",
    ),
    Examination(
        "platform", "on Windows, WSL and other systems: what is not checked there", next_step="nothing"
    ),
    Examination("git", "git, for checkouts of sources", next_step="`apt-get install git`"),
    Examination("cc", "a C compiler", next_step="`apt-get install gcc`"),
    Examination("g++", "a C++ compiler", next_step="`apt-get install g++`"),
    Examination("make", "make, for the commands of the README", next_step="`apt-get install make`"),
    Examination(
        "rocm-source", "apt and dpkg-deb, to fetch ROCm without root", next_step="use `--rocm-prefix DIR`"
    ),
    Examination("disk", "room for the demo", next_step="free some space, or choose another `--work-dir`"),
    Examination(
        "environment", "`LD_LIBRARY_PATH`, `LD_PRELOAD`, `PYTHONPATH` are set", next_step="`unset` them"
    ),
    Examination(
        "emulator",
        "an emulator of AMD GPUs: its version, and the targets that it has configurations for",
        next_step="`rocwright test smoke --emulate TARGET`",
    ),
    Examination(
        "python",
        "the environment's Python is one that wheels are made for (with a set: that this set has torch for)",
        next_step="`uv venv --python 3.12`, then install again",
        section="environment",
    ),
    Examination(
        "tags",
        "installed wheels are for this Python, this machine and this C library (musl, an old glibc)",
        next_step="install again with the Python that they are for, or on a newer system",
        section="environment",
    ),
    Examination(
        "torch",
        "torch is installed and built for ROCm, not PyPI's build for CUDA or the CPU",
        next_step="`python -m pip install --index-url … --force-reinstall --no-deps torch==VERSION`",
        section="environment",
    ),
    Examination(
        "shadowed",
        "`PYTHONPATH` leads to a torch other than the installed one",
        next_step="`unset PYTHONPATH`",
        section="environment",
    ),
    Examination(
        "duplicate",
        "one project is installed twice: an installer wrote over another version without removing it",
        next_step="`python -m pip uninstall` until it is gone, then install the right one",
        section="environment",
    ),
    Examination(
        "overlap",
        "two distributions claim the same file: removing one breaks the other",
        next_step="reinstall the one that is wanted, after removing the other",
        section="environment",
    ),
    Examination(
        "unreadable",
        "metadata of a distribution cannot be read, or was left by an interrupted installation",
        next_step="remove the directory that is named, and install again",
        section="environment",
    ),
    Examination(
        "requirements",
        "what a member of the family requires is installed in a version that fits: torch's exact "
        "ROCm, torchvision's exact torch, the parents of device packages",
        next_step="`python -m pip install --index-url … 'REQUIREMENT'`",
        section="environment",
    ),
    Examination(
        "mixed",
        "ROCm's packages have one version, and the frameworks were built for that one",
        next_step="`python -m pip install --index-url … PROJECT==VERSION`",
        section="environment",
    ),
    Examination(
        "device-code",
        "there is device code for every GPU of this machine, in ROCm's libraries and in each framework",
        next_step='`python -m pip install --index-url … "torch[device-TARGET]==VERSION"`',
        section="environment",
    ),
    Examination(
        "device-build",
        "device packages were split from this very build of their host, whatever its version, and all "
        "archives of their split are there",
        next_step="`python -m pip install --index-url … --force-reinstall --no-deps HOST==VERSION …`",
        section="environment",
    ),
    Examination(
        "set",
        "with `--set` or `--manifest`: every distribution of the family comes from that set",
        next_step="`python -m pip install --index-url … --force-reinstall --no-deps PROJECT==VERSION`",
        section="environment",
    ),
    Examination(
        "files",
        "files exist and have the size that RECORD gives (with `--deep`: the content)",
        next_step="`python -m pip install --index-url … --force-reinstall --no-deps PROJECT==VERSION`",
        section="environment",
    ),
    Examination(
        "two-rocms",
        "the environment contains one ROCm, not two (one inside torch's wheel, one of packages)",
        next_step="`python -m pip uninstall` the one that is not wanted",
        section="environment",
    ),
    Examination(
        "needed",
        "every library that ROCm's and torch's libraries need is in the environment or on the system",
        next_step="reinstall the package that has it, or `apt-get install` the system's",
        section="environment",
    ),
    Examination(
        "foreign-libraries",
        "`LD_LIBRARY_PATH`, `LD_PRELOAD` or the loader's configuration lead to other copies of the "
        "environment's libraries",
        next_step="`unset LD_LIBRARY_PATH`; take the line out of `/etc/ld.so.conf.d`, then `sudo ldconfig`",
        section="environment",
    ),
    Examination(
        "import",
        "with `--import-torch`: torch can be imported; if not, why (a library that is missing, one "
        "that is foreign or damaged, the wrong Python, a ROCm that does not fit)",
        next_step="depends on the cause",
        section="environment",
    ),
    Examination(
        "loaded",
        "with `--import-torch`: the libraries of ROCm and torch that were loaded are the environment's",
        next_step="`unset LD_LIBRARY_PATH LD_PRELOAD`",
        section="environment",
    ),
)
_BY_ID = {row.id: row for row in EXAMINATIONS}


class Observation(msgspec.Struct, frozen=True):
    """One thing looked at: how it stands, and what mends it.

    `id` is one of `observations.EXAMINATIONS`, `about` what in particular (a distribution, a GPU), empty
    where there is but one. `next_step` is a command, or a sentence where none helps; empty where nothing is
    to be done.
    """

    id: str
    verdict: Verdict
    detail: str
    next_step: str = ""
    about: str = ""
    section: Section = "machine"

    @property
    def bad(self) -> bool:
        """Whether something is to be done."""
        return self.verdict in ("missing", "wrong")

    @property
    def finding(self) -> Finding | None:
        """What is missing or wrong, as a finding; None where nothing is."""
        if not self.bad:
            return None
        return _BY_ID[self.id].broken(self.about or self.section, self.detail, self.next_step)


class Installed(msgspec.Struct, frozen=True):
    """A distribution of the family: `whose` is None where there was no set to compare with."""

    name: str
    version: str
    directory: str
    whose: Whose | None = None


class Looked(msgspec.Struct, frozen=True):
    """The environment that was looked at; `torch` is `rocm`, `cuda`, `cpu`, or empty where there is none."""

    python: str
    version: str
    torch: str
    installed: tuple[Installed, ...]


class Diagnosis(HasFindings, msgspec.Struct, frozen=True):
    """All observations; `gpus` are targets of AMD GPUs, `environment` is None where none was looked at."""

    gpus: tuple[str, ...]
    # `findings` is their name in JSON, which others read.
    observations: tuple[Observation, ...] = msgspec.field(name="findings")
    environment: Looked | None = None
    schema: str = SCHEMA

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is missing or wrong."""
        return tuple(found for seen in self.observations if (found := seen.finding) is not None)
