"""The commands that mend: for the installer that an environment has, and from where its packages come."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from rocwright.compat.doctor.facts import Case, Distribution, Environment
from rocwright.model.gpu import Families
from rocwright.model.indexes import IndexTable

# What stands where nobody can know it.
INDEX = "INDEX"
# What in a version tells which named index it is from.
_SIGNS = (("bkc", "bkc"), ("a20", "nightly"), ("dev", "dev"), ("rc", "prerelease"))
# 2.9.0+rocm7.10.0a20251124, 2.9.0+devrocm7.10.0.dev0-0123abc
_OF_ROCM = re.compile(r"rocm(\d+(?:\.\d+)*(?:(?:a|rc)\d+|\.dev\d+)?)")
# Requirements as they are; whatever else metadata may hold is quoted, so that pasting it runs nothing.
_PLAIN = re.compile(r"[A-Za-z0-9._+=~,-]+")
_BRACKETS = re.compile(r"[A-Za-z0-9._+=~,<>!*\[\]-]+")


def rocm_version(environment: Environment) -> str:
    """The version of ROCm's packages, else the one that torch was built against; empty where neither says."""
    rocm, torch = environment.named("rocm"), environment.named("torch")
    built = _OF_ROCM.search(torch.version) if torch else None
    return rocm.version if rocm else built[1] if built else ""


def package_index(indexes: IndexTable, families: Families, targets: Sequence[str], version: str) -> str:
    """The named index that has this version of ROCm, for the family of the GPUs; `INDEX` without one.

    Nightlies are `7.10.0a20251124`, candidates `7.10.0rc2`, builds of a known good combination
    `10.1.0a20260811+bkc.20260814`, as ROCm versions its packages.
    """
    kind = next((name for sign, name in _SIGNS if sign in version), "stable")
    rows = [row.name for row in families.family if row.tier]
    serving = [name for name in rows if set(targets) <= set(families.families.get(name, (name,)))]
    index = indexes.serving(kind, version)
    if not index.by_family:
        return index.url
    return f"{index.url}{serving[0]}/" if targets and serving else INDEX


def install(case: Case, *requirements: str, again: bool = False, alone: bool = False) -> str:
    """Install requirements from the place of the packages; `again` even where they seem to be there."""
    assert case.environment is not None
    options = [f"--index-url {shlex.quote(case.index)}" if case.index else ""]
    options += _again(case.environment) if again else []
    options += ["--no-deps"] if alone else []
    words = [_quoted(word) for word in requirements]
    return " ".join(filter(None, [*_verb(case.environment, "install"), *options, *words]))


def reinstall(case: Case, *distributions: Distribution) -> str:
    """Install these files anew, each from where it came when that is known."""
    assert case.environment is not None
    installers = {one.installer for one in distributions}
    if installers == {"debian"}:
        names = " ".join(_quoted(f"python3-{one.name}") for one in distributions)
        return f"sudo apt-get install --reinstall {names}"
    if installers == {"conda"}:
        prefix = shlex.quote(case.environment.prefix)
        names = " ".join(_quoted(one.name) for one in distributions)
        return f"conda install --prefix {prefix} --force-reinstall {names}"
    origins = [one for one in distributions if one.origin and not one.editable]
    if origins and len(origins) == len(distributions):
        words = [shlex.quote(one.origin) for one in origins]
        return " ".join([*_verb(case.environment, "install"), *_again(case.environment), "--no-deps", *words])
    return install(case, *(f"{one.name}=={one.version}" for one in distributions), again=True, alone=True)


def uninstall(environment: Environment, names: Iterable[str]) -> str:
    """Uninstall distributions."""
    yes = ["--yes"] if environment.pip else []
    return " ".join([*_verb(environment, "uninstall"), *yes, *map(_quoted, sorted(set(names)))])


def _verb(environment: Environment, verb: str) -> list[str]:
    python = shlex.quote(environment.python)
    if environment.pip:
        return [python, "-m", "pip", verb]
    return ["uv", "pip", verb, "--python", python]


def _again(environment: Environment) -> list[str]:
    return ["--force-reinstall"] if environment.pip else ["--reinstall"]


def _quoted(word: str) -> str:
    if _PLAIN.fullmatch(word):
        return word
    # Brackets and signs of comparison mean something to shells; double quotes to all of them the same.
    return f'"{word}"' if _BRACKETS.fullmatch(word) and "!" not in word else shlex.quote(word)
