"""The contract of one wheel: pure rules over its facts.

Each rule yields a cause and a next step for everything it finds wrong. A rule knows nothing of files;
`rocwright.check.facts` gathered all it needs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from zipfile import ZIP_STORED

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from rocwright.check.facts import Facts
from rocwright.check.report import Severity
from rocwright.model.gpu import InvalidTarget, parse_target

Problem = tuple[str, str]

# Extensions of torch that only load beside the torch they were built with.
TORCH_EXTENSIONS = ("torchvision", "torchaudio", "apex")
_DATA_DESCRIPTOR = 1 << 3
_REBUILD = "build the wheel again; a wheel is never repaired by hand"


@dataclass(frozen=True)
class Request:
    """What was asked of the wheels: base targets or targets with features; None asks for nothing."""

    targets: frozenset[str] | None = None


@dataclass(frozen=True)
class Rule:
    """One clause of the contract."""

    id: str
    severity: Severity
    applies: Callable[[Facts], bool]
    check: Callable[[Facts, Request], Iterator[Problem]]


def _wheel(facts: Facts) -> bool:
    return facts.kind == "wheel"


def _any(facts: Facts) -> bool:
    return True


def _torch(facts: Facts) -> bool:
    return _wheel(facts) and facts.project == "torch"


def _extension(facts: Facts) -> bool:
    return _wheel(facts) and facts.project in TORCH_EXTENSIONS


def _rocm_family(facts: Facts) -> bool:
    """Packages that find each other's libraries across package borders."""
    return _wheel(facts) and (
        facts.project == "torch" or facts.project in TORCH_EXTENSIONS or facts.project.startswith("rocm-")
    )


def _framework(facts: Facts) -> bool:
    return _torch(facts) or _extension(facts)


def _member_names(facts: Facts, _: Request) -> Iterator[Problem]:
    seen: set[str] = set()
    for member in facts.members:
        parts = member.name.split("/")
        if member.name in seen:
            yield f"{member.name} is in the archive twice", _REBUILD
        elif member.name.startswith("/") or "\\" in member.name or re.match("[A-Za-z]:", member.name):
            yield f"{member.name!r} is no relative path with forward slashes", _REBUILD
        elif any(part in ("", ".", "..") for part in parts):
            yield f"{member.name!r} leaves the folder it is installed in", _REBUILD
        seen.add(member.name)


def _stored_descriptor(facts: Facts, _: Request) -> Iterator[Problem]:
    for member in facts.members:
        if member.method == ZIP_STORED and member.flags & _DATA_DESCRIPTOR:
            yield (
                f"{member.name} is stored with a data descriptor; uv refuses such a member over HTTP",
                "write its size and checksum into the local header",
            )


def _record(facts: Facts, _: Request) -> Iterator[Problem]:
    for problem in facts.record:
        yield problem, "write RECORD after the last change to a member"


def _identity(facts: Facts, _: Request) -> Iterator[Problem]:
    try:
        name = canonicalize_name(facts.said_name or "", validate=True)
        same = name == facts.project and Version(facts.said_version or "") == Version(facts.version)
    except (InvalidName, InvalidVersion):
        same = False
    if not same:
        yield (
            f"its metadata is of {facts.said_name} {facts.said_version}, not {facts.project} {facts.version}",
            "build it again; renaming a file does not change its version",
        )


def _requirements(facts: Facts, _: Request) -> Iterator[Problem]:
    for text in facts.requires:
        if "{" in text or "}" in text:
            yield (
                f"Requires-Dist {text!r} contains a brace",
                "look for a template or shell variable that was not replaced",
            )
            continue
        try:
            Requirement(text)
        except InvalidRequirement as error:
            yield f"Requires-Dist {text!r} is malformed: {error}", "write it as PEP 508 says"


def _tags(facts: Facts, _: Request) -> Iterator[Problem]:
    if facts.tags != facts.wheel_tags:
        inside = ", ".join(sorted(facts.wheel_tags)) or "none"
        yield f"its name says {', '.join(sorted(facts.tags))}, WHEEL says {inside}", _REBUILD
    if facts.elf and any(tag.endswith("-any") for tag in facts.tags):
        yield (
            f"it is tagged for any platform and contains {facts.elf[0].member}",
            "give the wheel the platform's tag",
        )


def _rocm_init(facts: Facts, _: Request) -> Iterator[Problem]:
    text = facts.texts.get("torch/_rocm_init.py")
    if text is None:
        yield (
            "torch/_rocm_init.py is missing, so torch does not find ROCm's Python packages",
            "write it into the source tree before the wheel is built",
        )
        return
    try:
        names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    except SyntaxError as error:
        yield f"torch/_rocm_init.py is no valid Python: {error.msg}", "generate it again"
        return
    if names != ["initialize"]:
        yield (
            f"torch/_rocm_init.py defines {', '.join(names) or 'nothing'}; expected exactly initialize()",
            "generate it again",
        )


def _assigned(text: str, name: str) -> object:
    """The literal last assigned to a module's variable; None when there is none."""
    value: object = None
    for node in ast.parse(text).body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            assert isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
            value = node.value.value if isinstance(node.value, ast.Constant) else None
    return value


def _hip(facts: Facts, _: Request) -> Iterator[Problem]:
    text = facts.texts.get("torch/version.py")
    next_step = "look in the build's log for why ROCm was not found, then build again"
    if text is None:
        yield "torch/version.py is missing", next_step
        return
    try:
        hip = _assigned(text, "hip")
    except SyntaxError as error:
        yield f"torch/version.py is no valid Python: {error.msg}", next_step
        return
    if not isinstance(hip, str) or not hip:
        yield f"torch/version.py says hip = {hip!r}: this torch was built for the CPU only", next_step


def _parsed(facts: Facts) -> list[Requirement]:
    found = []
    for text in facts.requires:
        try:
            found.append(Requirement(text))
        except InvalidRequirement:
            continue  # the rule on requirements reports it
    return found


def exact_version(requirement: Requirement) -> str | None:
    """The version of a `==` pin without wildcard, normalised; None for any other specifier."""
    specifiers = list(requirement.specifier)
    if len(specifiers) != 1 or specifiers[0].operator != "==" or specifiers[0].version.endswith("*"):
        return None
    return str(Version(specifiers[0].version))


def _requires_rocm(facts: Facts, _: Request) -> Iterator[Problem]:
    for requirement in _parsed(facts):
        if canonicalize_name(requirement.name) == "rocm" and "libraries" in requirement.extras:
            if exact_version(requirement) is None:
                yield f"{requirement} is no exact pin", "pin rocm[libraries] with =="
            return
    yield (
        "it does not require rocm[libraries]==…, so installing it brings no ROCm",
        "give the build PYTORCH_EXTRA_INSTALL_REQUIREMENTS",
    )


def _torch_pin(facts: Facts, _: Request) -> Iterator[Problem]:
    pins = [item for item in _parsed(facts) if canonicalize_name(item.name) == "torch"]
    if not any(exact_version(item) is not None for item in pins):
        shown = ", ".join(map(str, pins)) or "no torch at all"
        yield (
            f"it requires {shown}; its extensions load only beside the torch they were built with",
            "pin torch with == to the version it was built against",
        )


def _elf_readable(facts: Facts, _: Request) -> Iterator[Problem]:
    for elf in facts.elf:
        if elf.problem is not None:
            yield f"{elf.member}: {elf.problem}", _REBUILD


def _runpath(facts: Facts, _: Request) -> Iterator[Problem]:
    for elf in facts.elf:
        if elf.runpath is not None:
            yield (
                f"{elf.member} has RUNPATH {elf.runpath!r}, which indirect dependencies do not inherit",
                "link with --disable-new-dtags, or turn it into an RPATH",
            )


def _rpath(facts: Facts, _: Request) -> Iterator[Problem]:
    for elf in facts.elf:
        for tag, text in (("RPATH", elf.rpath), ("RUNPATH", elf.runpath)):
            leaving = [entry for entry in (text or "").split(":") if text and _leaves(elf.member, entry)]
            if leaving:
                yield (
                    f"{elf.member} has {tag} {':'.join(leaving)!r}, no place inside the installation",
                    "use entries relative to $ORIGIN that stay inside site-packages",
                )


def _leaves(member: str, entry: str) -> bool:
    """Whether an RPATH entry is not below the folder that the wheel is installed in."""
    head, *rest = entry.replace("${ORIGIN}", "$ORIGIN").rstrip("/").split("/")
    if head != "$ORIGIN":
        return True
    depth = len(PurePosixPath(member).parts) - 1
    for part in rest:
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            return True
    return False


def _device_code(facts: Facts, request: Request) -> Iterator[Problem]:
    if request.targets is None:
        return
    split = any(extra.startswith("device-") for extra in facts.provides_extra)
    if not facts.targets and (split or facts.project != "torch"):
        return  # the code is in device wheels, or the extension has none
    found = {_comparable(target, request.targets) for target in facts.targets}
    wanted = ", ".join(sorted(request.targets))
    for target in sorted(request.targets - found):
        yield (
            f"no library holds code for {target}; requested: {wanted}",
            "build with every requested target in PYTORCH_ROCM_ARCH",
        )
    for target in sorted(found - request.targets):
        yield (
            f"libraries hold code for {target}, which was not requested: {wanted}",
            "build with the requested targets only",
        )


def _comparable(target: str, requested: frozenset[str]) -> str:
    """`gfx90a:xnack-` answers a request for it and, without one, a request for the base target."""
    if target in requested:
        return target
    try:
        return parse_target(target).base
    except InvalidTarget:
        return target  # not one of ours, and reported as such


RULES: tuple[Rule, ...] = (
    Rule("member-names", "error", _wheel, _member_names),
    Rule("stored-descriptor", "error", _wheel, _stored_descriptor),
    Rule("record", "error", _wheel, _record),
    Rule("metadata-identity", "error", _any, _identity),
    Rule("requirements", "error", _any, _requirements),
    Rule("tags", "error", _wheel, _tags),
    Rule("torch-rocm-init", "error", _torch, _rocm_init),
    Rule("torch-hip", "error", _torch, _hip),
    Rule("torch-requires-rocm", "error", _torch, _requires_rocm),
    Rule("torch-pin", "error", _extension, _torch_pin),
    Rule("elf-readable", "error", _wheel, _elf_readable),
    Rule("elf-runpath", "error", _rocm_family, _runpath),
    Rule("elf-rpath", "error", _wheel, _rpath),
    Rule("device-code", "error", _framework, _device_code),
)
