"""Check files and folders: gather facts, apply every rule, report all findings at once.

Also the quick check of a build job: are the wheels it should have made there, whole, and for its Python?
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from packaging.utils import InvalidWheelFilename, canonicalize_name

from rocwright.check.context import Context, Problem, Request, Rule, SetRule
from rocwright.check.contract import ContractTable
from rocwright.check.facts import Facts, ImportTry, Installation, VariantFacts
from rocwright.check.gather import gather_all
from rocwright.check.gather.variants import index_variants
from rocwright.check.overrides import effective, lapsed_of
from rocwright.check.report import Looked, Proved, Report, SizeTable, changes, read_sizes, sizes_of
from rocwright.check.rules import (
    ARCHIVE_BOMB,
    EMPTY_FOLDER,
    EXPECTED,
    OWN_RULES,
    READABLE,
    RULES,
    SET_RULES,
    STRUCTURE,
)
from rocwright.data import load_table
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.findings import Clause, Finding, Severity
from rocwright.model.gpu import in_order, parse_target
from rocwright.model.variants import INDEX_END, split_label
from rocwright.wheel.tags import cp_version, parse_wheel_name, serves

_ENDINGS = (".whl", ".tar.gz")


class Gathered(msgspec.Struct, frozen=True):
    """What is known before any rule is applied.

    `files` are those to judge, `beside` further files of their set; `findings` are about paths that stand for
    no file, `indexes` what lies beside the files and states which variants there are.
    """

    files: tuple[Facts, ...]
    beside: tuple[Facts, ...]
    request: Request
    contract: ContractTable
    findings: tuple[Finding, ...] = ()
    indexes: tuple[VariantFacts, ...] = ()

    @property
    def context(self) -> Context:
        """What the rules of a set see."""
        return _context(self.files, self.beside, self.request, self.contract, indexes=self.indexes)

    def judged(self, installations: Sequence[Installation] = ()) -> Report:
        """Every rule applied; see `judge`."""
        return judge(
            self.files,
            beside=self.beside,
            request=self.request,
            contract=self.contract,
            findings=self.findings,
            installations=installations,
            indexes=self.indexes,
        )


class CheckRequest(msgspec.Struct, frozen=True):
    """What to check, and what is known of it besides.

    A folder stands for the wheels and sdists directly in it, and what states their variants. `beside` are
    further files of the set: the rules of a set hold for them too, those of one file are not applied to
    them. `targets` are the GPU targets that torch and its extensions were built for; without them device
    code is not compared. `closed` says that all these files are a complete set, so a requirement that leads
    out of it is an error. `expect` names projects that must be there. `previous` tells the sizes to compare
    with: a directory of wheels, the manifest of a set, or a report as JSON. `adopted` are names of files
    that others built, True for all. Without a `contract` the built-in contract holds. `jobs` threads read
    the files.
    """

    paths: tuple[Path, ...]
    beside: tuple[Path, ...] = ()
    targets: tuple[str, ...] | None = None
    closed: bool = False
    expect: tuple[str, ...] = ()
    previous: Path | None = None
    contract: ContractTable | None = None
    jobs: int = 2
    adopted: bool | frozenset[str] = False


def check_paths(
    paths: Iterable[Path],
    *,
    beside: Iterable[Path] = (),
    targets: Iterable[str] | None = None,
    closed: bool = False,
    expect: Iterable[str] = (),
    previous: Path | None = None,
    contract: ContractTable | None = None,
    jobs: int = 2,
) -> Report:
    """Check wheels and sdists, and all of them together as one set; options as in `CheckRequest`."""
    wanted = None if targets is None else tuple(targets)
    asked = CheckRequest(tuple(paths), tuple(beside), wanted, closed, tuple(expect), previous, contract, jobs)
    return gather_paths(asked).judged()


def gather_paths(asked: CheckRequest) -> Gathered:
    """Read wheels and sdists, so that the rules can be applied to them.

    Never raises for a bad wheel; raises `InvalidTarget` for text that names no GPU target, `InvalidInput` and
    `InvalidData` for a `previous` that tells no sizes.
    """
    targets = asked.targets
    request = Request(
        targets=None if targets is None else frozenset(str(parse_target(text)) for text in targets),
        closed=asked.closed,
        expect=tuple(sorted(canonicalize_name(text) for text in asked.expect)),
        previous=None if asked.previous is None else _previous(asked.previous, asked.jobs),
        adopted=asked.adopted,
    )
    files, findings = expand(asked.paths)
    names = {file.name for file in files}
    others = [path for path in expand(asked.beside)[0] if path.name not in names]
    stating = stated_beside((*asked.paths, *asked.beside))
    if stating and not (files or others or findings):
        cause = "it states variants, and none of the wheels that it is about is given"
        step = "give the wheels as well, or their directory"
        findings.append(READABLE.broken(stating[0].name, cause, step))
    facts = gather_all([*files, *others], threads=asked.jobs)
    return Gathered(
        tuple(facts[: len(files)]),
        tuple(facts[len(files) :]),
        request,
        asked.contract or load_table("contract", ContractTable),
        tuple(findings),
        tuple(map(index_variants, stating)),
    )


def _previous(path: Path, jobs: int) -> SizeTable:
    """The sizes of an earlier set, in whatever form it is there."""
    if not path.is_dir():
        return read_sizes(path)
    files, _ = expand([path])
    if not files:
        raise InvalidInput(
            f"{path.name} has no wheels to compare sizes with",
            where=path,
            next_step="give the directory of the previous set, its manifest, or a report as JSON",
        )
    return sizes_of(one for one in gather_all(files, threads=jobs) if one.unreadable is None)


def judge(
    files: Sequence[Facts],
    *,
    beside: Sequence[Facts] = (),
    request: Request,
    contract: ContractTable,
    findings: Sequence[Finding] = (),
    installations: Sequence[Installation] = (),
    indexes: Sequence[VariantFacts] = (),
    rules: Sequence[Rule] = RULES,
    set_rules: Sequence[SetRule] = SET_RULES,
) -> Report:
    """Apply every rule to gathered facts; pure.

    `findings` are kept in front; `installations` are what came of installing the set, where that was tried.
    `indexes` are what lies beside the files and states which variants there are.
    """
    context = _context(files, beside, request, contract, installations, indexes)
    # What was not tried was not judged, either; only that is said.
    tried = any(done.not_tried is None for done in installations)
    set_rules = [
        rule for rule in set_rules if not rule.proof or tried or (installations and rule.id == "set-unproved")
    ]
    absent = (name for name in request.expect if name not in context.by_project)
    read = (
        *(finding for facts in files for finding in _check_one(facts, context, rules)),
        *_check_set(context, [rule for rule in set_rules if not rule.proof]),
    )
    context = msgspec.structs.replace(context, installations=tuple(_unexplained(installations, read)))
    found = (
        *findings,
        *read,
        *_check_set(context, [rule for rule in set_rules if rule.proof]),
        *(EXPECTED.broken(name, f"no wheel of {name} is there") for name in absent),
    )
    applied: tuple[Clause, ...] = (*OWN_RULES, *rules, *set_rules)
    overrides = effective(context)
    off = {one.rule for one in overrides if one.field == "off"}
    sizes = sizes_of(one for one in context.files if one.unreadable is None)
    return Report(
        files=tuple(one.name for one in files),
        findings=found,
        rules=tuple(rule.id for rule in applied if rule.id not in off),
        targets=None if request.targets is None else tuple(sorted(request.targets)),
        looked=tuple(Looked(one.name, one.size, in_order(one.code_targets)) for one in files),
        unwaivable=tuple(rule.id for rule in applied if not rule.waivable),
        sizes=sizes,
        changes=() if request.previous is None else changes(request.previous, sizes),
        stand_ins=tuple(sorted({name for done in installations for name in done.stand_ins})),
        proved=tuple(_proved(installations)),
        compiled=_compilers(context.files),
        overrides=overrides,
        lapsed=lapsed_of(contract),
        policy="adopted" if request.adopted else "",
    )


def _compilers(files: Iterable[Facts]) -> tuple[str, ...]:
    """The Pythons that compiled modules, where others than the one that runs here were asked for."""
    asked = [facts for facts in files if facts.other_pythons is not None]
    minors = {minor for facts in asked for minor in (facts.judged_by, *(facts.other_pythons or ())) if minor}
    return tuple(f"3.{minor}" for minor in sorted(minors))


def _proved(installations: Sequence[Installation]) -> Iterator[Proved]:
    for done in installations:
        if done.not_tried is None and not done.problems:
            imported = tuple(one.module for one in done.imports if not (one.fault or one.left))
            yield Proved(done.where, done.installer, done.version, done.projects, imported)


def _context(
    files: Sequence[Facts],
    beside: Sequence[Facts],
    request: Request,
    contract: ContractTable,
    installations: Sequence[Installation] = (),
    indexes: Sequence[VariantFacts] = (),
) -> Context:
    # A file that cannot be read is still there: what requires it does not lead out of the set.
    named = tuple(one for one in (*files, *beside) if one.unreadable is None or one.project)
    return Context(contract, request, named, tuple(installations), tuple(indexes))


def expand(paths: Iterable[Path]) -> tuple[list[Path], list[Finding]]:
    """The wheels and sdists that paths stand for, and what is wrong with the paths."""
    files: list[Path] = []
    findings = []
    for path in paths:
        if path.is_dir():
            try:
                inside = sorted(item for item in path.iterdir() if item.name.endswith(_ENDINGS))
            except OSError as error:
                cause = f"the folder cannot be listed: {error.strerror}"
                step = "make it readable, then check again"
                findings.append(READABLE.broken(path.resolve().name, cause, step))
                continue
            files += inside
            if not inside:
                cause = "no wheels or sdists are in this folder"
                findings.append(EMPTY_FOLDER.broken(path.resolve().name, cause))
        elif path.name.endswith(_ENDINGS):
            files.append(path)
        elif path.name.endswith(INDEX_END):
            continue
        else:
            cause = "it is neither a wheel nor an sdist"
            findings.append(READABLE.broken(path.name, cause, "give .whl files"))
    once = {(path.parent.resolve(), path.name): path for path in reversed(files)}
    return list(reversed(once.values())), findings


def stated_beside(paths: Iterable[Path]) -> list[Path]:
    """What states which variants of a version there are, among paths and directly in folders."""
    found = []
    for path in paths:
        with suppress(OSError):  # of a folder that cannot be listed `expand` tells
            inside = sorted(path.iterdir()) if path.is_dir() else [path]
            found += [item for item in inside if item.name.endswith(INDEX_END)]
    return list({path.name: path for path in reversed(found)}.values())[::-1]


def _check_one(facts: Facts, context: Context, rules: Sequence[Rule]) -> list[Finding]:
    if facts.unreadable is not None:
        return [READABLE.broken(facts.name, facts.unreadable)]
    if facts.bomb is not None:
        return [ARCHIVE_BOMB.broken(facts.name, facts.bomb)]
    terms = context.terms(facts.project)
    found: list[Finding] = []
    for rule in rules:
        if facts.kind in rule.kinds and rule.id in terms.rules:
            problems = [(facts.name, problem) for problem in rule.check(facts, context)]
            severity = terms.severity.get(rule.id, rule.severity)
            found += _joined(rule.id, severity, problems, context)
    # What the strict reader refuses is mostly what a rule above explains better; never let it pass unsaid.
    if facts.structure is not None and not any(finding.severity == "error" for finding in found):
        found.append(STRUCTURE.broken(facts.name, facts.structure))
    return found


def _unexplained(installations: Sequence[Installation], read: Sequence[Finding]) -> Iterator[Installation]:
    """Installations without the failed imports that an error of a file's content explains better."""
    errors = [finding for finding in read if finding.severity == "error"]

    def known(one: ImportTry) -> bool:
        about = [finding for finding in errors if finding.file == one.file]
        return any(
            one.member in finding.members or (one.about and one.about in finding.cause) for finding in about
        )

    for done in installations:
        left = tuple(one for one in done.imports if not (one.fault and known(one)))
        yield msgspec.structs.replace(done, imports=left)


def _check_set(context: Context, rules: Sequence[SetRule]) -> list[Finding]:
    found: list[Finding] = []
    for rule in rules:
        severity: Severity = rule.severity
        if rule.open_severity is not None and not context.request.closed:
            severity = rule.open_severity
        found += _joined(rule.id, severity, rule.check(context), context)
    return found


def _joined(
    rule: str, severity: Severity, problems: Iterable[tuple[str, Problem]], context: Context
) -> list[Finding]:
    """One finding for all members of a file with the same cause."""
    members: dict[tuple[str, str, str], list[str]] = {}
    for file, problem in problems:
        about = members.setdefault((file, problem.cause, problem.next_step), [])
        if problem.member:
            about.append(problem.member)
    return [
        Finding(
            rule,
            context.severity(rule, severity, file),
            file,
            _writable(cause),
            _writable(next_step),
            tuple(map(_writable, about)),
        )
        for (file, cause, next_step), about in members.items()
    ]


def _writable(text: str) -> str:
    """The text with bytes that are no UTF-8 spelled out: names in a library may be anything, JSON not."""
    return text.encode("utf-8", "backslashreplace").decode()


# -- The quick check of a build job


TAG = Clause(
    "sanity-tag",
    "The wheels of the family fit the Python and platform they were built for.",
    next_step="say what it is for (--python-version, --platform), or build it for that",
)
SIZE = Clause(
    "sanity-size",
    "They have at least 100 KiB, as every build with kernels does.",
    severity="warning",
    next_step="check whether the build left something out",
)
NAME = Clause(
    "sanity-name",
    "Their version has a local part that names ROCm: `2.9.0+rocm7.10.0`.",
    severity="warning",
    next_step="build with a local version such as +rocm7.10.0",
)
# In the order in which a report names them.
BUILD_RULES = (SIZE, NAME, TAG)
# No library with kernels is this small.
_SMALL = 100 << 10
_VENDOR = "rocm"


def sanity_check(
    folder: Path,
    *,
    projects: Iterable[str],
    expect: Iterable[str],
    python: str,
    platform: str,
    targets: Iterable[str] | None = None,
    contract: ContractTable | None = None,
    jobs: int = 2,
) -> Report:
    """The wheel contract over a build's output folder, and what a build job knows besides.

    The projects in `expect` must be there. Wheels of `projects` must install with `python` (`3.12`) on
    `platform` (`linux`, `windows`); below 100 KiB, or without a local version that names ROCm, they are
    reported as unusual. Raises `UsageError` for what is no directory.
    """
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a directory", next_step="give the directory that the build wrote wheels to"
        )
    cp_version(python)
    report = check_paths([folder], targets=targets, expect=expect, contract=contract, jobs=jobs)
    sizes = {name: (folder / name).stat().st_size for name in report.files if name.endswith(".whl")}
    wanted = frozenset(str(canonicalize_name(name)) for name in projects)
    findings = (*report.findings, *_unusual(sizes, wanted, python, platform))
    return msgspec.structs.replace(
        report, findings=findings, rules=(*report.rules, *(rule.id for rule in BUILD_RULES))
    )


def _unusual(
    sizes: Mapping[str, int], projects: frozenset[str], python: str, platform: str
) -> Iterator[Finding]:
    for name, size in sizes.items():
        try:
            project, version, _, tags, _ = parse_wheel_name(name)
        except InvalidWheelFilename:
            continue  # the rule `readable` has said so
        if project not in projects:
            continue
        if not serves(map(str, tags), python, platform):
            spelled = "-".join(split_label(name)[0].removesuffix(".whl").split("-")[-3:])
            yield TAG.broken(name, f"its tag {spelled} does not fit Python {python} on {platform}")
        if size < _SMALL:
            yield SIZE.broken(name, f"it has {size} bytes, which is little for a build with kernels")
        if _VENDOR not in (version.local or ""):
            yield NAME.broken(name, f"its version {version} does not say which ROCm it is for")
