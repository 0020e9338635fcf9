"""Every kind of finding: what is looked at, and what mends it. The page for users is made of this table."""

from __future__ import annotations

import msgspec

from rocwright.compat.doctor.values import Section


class Kind(msgspec.Struct, frozen=True):
    """A kind of finding: where it belongs, what is looked at, and the command (or step) that mends it."""

    id: str
    section: Section
    looks_at: str
    mends: str


KINDS = (
    Kind(
        "gpu",
        "machine",
        "AMD GPUs as the kernel driver lists them; never guessed",
        "free the files below `/sys/class/kfd` for reading",
    ),
    Kind(
        "driver",
        "machine",
        "the PCI bus lists an AMD GPU, but the kernel driver `amdgpu` is not loaded, or something forbids it",
        "`sudo modprobe amdgpu`; remove the line or the word that forbids it",
    ),
    Kind(
        "container",
        "machine",
        "a container that was started without `/dev/kfd` or `/dev/dri`, though the machine has a GPU",
        "`docker run --device=/dev/kfd --device=/dev/dri --group-add video --group-add render … IMAGE`",
    ),
    Kind(
        "access",
        "machine",
        "this user may read and write `/dev/kfd` and `/dev/dri/renderD*`",
        "`sudo usermod -a -G render,video $USER`, then log in again; in a container `--group-add`",
    ),
    Kind(
        "shared-memory",
        "machine",
        "`/dev/shm` of a container is large enough for data loaders",
        "start it with `--ipc=host` (or `--shm-size=8g`)",
    ),
    Kind(
        "seccomp",
        "machine",
        "a container's filter of system calls, which keeps memory policies and debuggers from working",
        "start it with `--security-opt seccomp=unconfined`",
    ),
    Kind(
        "override",
        "machine",
        "`HSA_OVERRIDE_GFX_VERSION` makes programs take every GPU for another one",
        "`unset HSA_OVERRIDE_GFX_VERSION`",
    ),
    Kind(
        "visibility",
        "machine",
        "`ROCR_VISIBLE_DEVICES`, `HIP_VISIBLE_DEVICES` or `CUDA_VISIBLE_DEVICES` hides GPUs",
        "`unset` the variable",
    ),
    Kind(
        "system-rocm",
        "machine",
        "ROCm below `/opt` or from the distribution, several of them, and on `PATH`",
        "take its `bin` out of `PATH`; nothing else where wheels are used",
    ),
    Kind(
        "platform",
        "machine",
        "on Windows, WSL and other systems: what is not looked at there",
        "nothing",
    ),
    Kind("git", "machine", "git, for checkouts of sources", "`apt-get install git`"),
    Kind("cc", "machine", "a C compiler", "`apt-get install gcc`"),
    Kind("g++", "machine", "a C++ compiler", "`apt-get install g++`"),
    Kind("make", "machine", "make, for the commands of the README", "`apt-get install make`"),
    Kind("rocm-source", "machine", "apt and dpkg-deb, to fetch ROCm without root", "use `--rocm-prefix DIR`"),
    Kind("disk", "machine", "room for the demo", "free some space, or choose another `--work-dir`"),
    Kind(
        "environment",
        "machine",
        "`LD_LIBRARY_PATH`, `LD_PRELOAD`, `PYTHONPATH` are set",
        "`unset` them",
    ),
    Kind(
        "python",
        "environment",
        "the environment's Python is one that wheels are made for (with a set: that this set has torch for)",
        "`uv venv --python 3.12`, then install again",
    ),
    Kind(
        "tags",
        "environment",
        "installed wheels are for this Python, this machine and this C library (musl, an old glibc)",
        "install again with the Python that they are for, or on a newer system",
    ),
    Kind(
        "torch",
        "environment",
        "torch is there, and one for ROCm: not the one for CUDA or the CPU that PyPI has",
        "`python -m pip install --index-url … --force-reinstall --no-deps torch==VERSION`",
    ),
    Kind(
        "shadowed",
        "environment",
        "`PYTHONPATH` leads to another torch than the installed one",
        "`unset PYTHONPATH`",
    ),
    Kind(
        "duplicate",
        "environment",
        "one project is installed twice: an installer wrote over another version without removing it",
        "`python -m pip uninstall` until it is gone, then install the right one",
    ),
    Kind(
        "overlap",
        "environment",
        "two distributions claim the same file: removing one breaks the other",
        "reinstall the one that is wanted, after removing the other",
    ),
    Kind(
        "unreadable",
        "environment",
        "metadata of a distribution cannot be read, or lies there since an installation broke off",
        "remove the directory that is named, and install again",
    ),
    Kind(
        "requirements",
        "environment",
        "what a member of the family requires is installed in a version that fits: torch's exact ROCm, "
        "torchvision's exact torch, the parents of device packages",
        "`python -m pip install --index-url … 'REQUIREMENT'`",
    ),
    Kind(
        "mixed",
        "environment",
        "ROCm's packages have one version, and the frameworks were built for that one",
        "`python -m pip install --index-url … PROJECT==VERSION`",
    ),
    Kind(
        "device-code",
        "environment",
        "there is device code for every GPU of this machine, in ROCm's libraries and in each framework",
        '`python -m pip install --index-url … "torch[device-TARGET]==VERSION"`',
    ),
    Kind(
        "set",
        "environment",
        "with `--set` or `--manifest`: every distribution of the family is the one of that set",
        "`python -m pip install --index-url … --force-reinstall --no-deps PROJECT==VERSION`",
    ),
    Kind(
        "files",
        "environment",
        "files are there and have the size that RECORD says (with `--deep`: the content)",
        "`python -m pip install --index-url … --force-reinstall --no-deps PROJECT==VERSION`",
    ),
    Kind(
        "two-rocms",
        "environment",
        "the environment holds one ROCm, not two (one inside torch's wheel, one of packages)",
        "`python -m pip uninstall` the one that is not wanted",
    ),
    Kind(
        "needed",
        "environment",
        "every library that ROCm's and torch's libraries need is in the environment or on the system",
        "reinstall the package that has it, or `apt-get install` the system's",
    ),
    Kind(
        "foreign-libraries",
        "environment",
        "`LD_LIBRARY_PATH`, `LD_PRELOAD` or the loader's configuration lead to other copies of the "
        "environment's libraries",
        "`unset LD_LIBRARY_PATH`; take the line out of `/etc/ld.so.conf.d`, then `sudo ldconfig`",
    ),
    Kind(
        "import",
        "environment",
        "with `--import-torch`: torch can be imported; if not, why (a library that is missing, one that is "
        "foreign or damaged, the wrong Python, a ROCm that does not fit)",
        "as the cause asks for",
    ),
    Kind(
        "loaded",
        "environment",
        "with `--import-torch`: the libraries of ROCm and torch that were loaded are the environment's",
        "`unset LD_LIBRARY_PATH LD_PRELOAD`",
    ),
)
