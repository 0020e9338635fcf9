"""Write the parts of the documentation that follow from the code: commands, errors, tables, rules.

It writes the files as well that follow from the tables of facts and ship without them.

``python docs/generate.py`` replaces, in every page, the text between ``<!-- generated: NAME -->`` and
``<!-- end -->``; everything else is written by hand. ``--check`` changes nothing and exits with 1 when a page
is stale, naming it.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

import rocwright
from rocwright.build.before.needs import Needs
from rocwright.build.decide.recipe import RecipeTable
from rocwright.build.fat.table import FatTable
from rocwright.check.contract import ContractTable, PackageRow
from rocwright.check.rules import RULES, SET_RULES
from rocwright.check.rules.base import Rule, SetRule
from rocwright.check.run import OWN_RULES
from rocwright.cli import app
from rocwright.cli.documented import DOCUMENTED
from rocwright.cli.examples import examples
from rocwright.compat import detect_table
from rocwright.compat.claimed.export import Shown
from rocwright.compat.claimed.facts import load_facts
from rocwright.compat.claimed.judge import Answer
from rocwright.compat.claimed.render import as_markdown, markup_of
from rocwright.compat.claimed.sections import SECTIONS, section
from rocwright.compat.doctor.kinds import KINDS
from rocwright.compat.doctor.values import Diagnosis
from rocwright.data import load_table
from rocwright.data.explain import Explained, TableInfo
from rocwright.errors import RocwrightError
from rocwright.model.channels import Channels
from rocwright.model.compat import CompatTable
from rocwright.model.compat_features import FeatureTable
from rocwright.model.compat_libraries import LibraryTable
from rocwright.model.device_files import DeviceFiles
from rocwright.model.doctor import DoctorTable
from rocwright.model.examples import ExampleTable
from rocwright.model.gpu import Families
from rocwright.model.gpus import GpuTable
from rocwright.model.indexes import IndexTable
from rocwright.model.landing import LandingTable
from rocwright.model.machines import Machines
from rocwright.model.plan import Choice, Plan, Publication
from rocwright.model.platforms import Platforms
from rocwright.model.probe import ProbeTable
from rocwright.model.profile import Profile, ProfileTable
from rocwright.model.project import PLATFORMS, ProjectTable
from rocwright.model.signatures import SignatureTable
from rocwright.model.skips import SkipTable
from rocwright.model.slurm import SlurmTable
from rocwright.model.suites import SuiteTable
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.define.kinds import SUMMARY, Kind, kinds
from rocwright.pipeline.define.known import known, profiles
from rocwright.pipeline.define.mermaid import mermaid
from rocwright.pipeline.define.plan import make_plan
from rocwright.pipeline.setup.triggers import Triggers
from rocwright.sdk.intake import distribution
from rocwright.sdk.legal.licences import LicenceTable
from rocwright.sdk.table import PackageTable
from rocwright.sources.changes import Change, Log
from rocwright.sources.hipify import HipifiedTree
from rocwright.sources.lock import SourceLock
from rocwright.sources.prepare import Prepared
from rocwright.wheel.reversion.table import ReversionTable

DOCS = Path(__file__).resolve().parent
_BLOCK = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

# Said once here where a command does not say it of its own.
_SHARED_HELP = {
    "--json": "Print the result as JSON on stdout.",
    "--jobs": "Threads (default: this machine's cores).",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; cells may hold any text but line breaks."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def code(text: str) -> str:
    """Text as inline code."""
    return f"`{text}`"


def rule_ids() -> list[str]:
    """Ids of the rules over one file and over a set, in the order in which they are applied."""
    return [*(rule.id for rule in RULES), *(rule.id for rule in SET_RULES)]


# --- commands


def commands(
    group: typing.Any, words: tuple[str, ...] = ("rocwright",)
) -> Iterator[tuple[tuple[str, ...], typing.Any]]:
    """Every command that does something, with the words that call it; `group` is the application."""
    for name in group:
        if name.startswith("-"):
            continue
        command = group[name]
        if command.default_command is None:
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


def _type_word(hint: object) -> str:
    """`pathlib.Path | None` as `PATH`, a list of them too."""
    if typing.get_origin(hint) is typing.Literal:
        return "|".join(typing.get_args(hint))
    options = [kind for kind in typing.get_args(hint) if kind not in (type(None), ...)] or [hint]
    if typing.get_args(options[0]):
        return _type_word(options[0])
    return {"Path": "PATH", "int": "NUMBER", "str": "TEXT"}.get(getattr(options[0], "__name__", ""), "VALUE")


def _prose(docstring: str) -> tuple[str, dict[str, str]]:
    """The description of a command, and of each of its parameters by Python name."""
    # Python 3.13 has taken the indentation off already.
    text, _, parameters = inspect.cleandoc(docstring).partition("Parameters\n")
    lines = [line.strip() for line in text.strip().splitlines()]
    found: dict[str, list[str]] = {}
    name = ""
    for line in parameters.splitlines()[1:]:
        if re.fullmatch(r"\w+", line):
            name = line.strip()
            found[name] = []
        elif name and line.strip():
            found[name].append(line.strip())
    return "\n".join(lines), {key: " ".join(words) for key, words in found.items()}


def _field_helps(options: type) -> dict[str, str]:
    """What stands below each field of a class of options, by the field's name."""
    body = ast.parse(textwrap.dedent(inspect.getsource(options))).body[0].body
    return {
        field.target.id: " ".join(told.value.value.split())
        for field, told in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(told, ast.Expr)
    }


def _option(argument: typing.Any, helps: dict[str, str]) -> tuple[str, str, str]:
    """Name, meaning and default of one option."""
    names, default = argument.names, argument.field_info.default
    flag = bool in (argument.hint, *typing.get_args(argument.hint))
    if flag and isinstance(default, bool):
        # Only the spelling that changes something.
        shown = next(name for name in names if (name in argument.negatives) == default)
    elif flag:
        shown = "`, `".join(names)
    else:
        shown = f"{names[0]} {_type_word(argument.hint)}"
    meaning = helps.get(argument.field_info.name) or _SHARED_HELP.get(names[0], "")
    if flag and default is True:
        meaning = f"Do not {meaning[:1].lower()}{meaning[1:]}"
    if argument.required:
        told = "required"
    else:
        told = "" if flag or default in (None, (), []) else code(str(default))
        told = "" if default == "" else told
    return code(shown), meaning, told


def render_cli() -> str:
    """Every command: how it is called, what it does, its arguments and options."""
    parts: list[str] = []
    lines = examples()
    for words, command in commands(app):
        function = command.default_command
        description, helps = _prose(function.__doc__ or "")
        arguments = list(command.assemble_argument_collection())
        for shared in (one for one in arguments if one.names[0] == "*"):
            helps |= _field_helps(shared.hint)
        # A class of options stands there besides its options.
        arguments = [one for one in arguments if one.names[0] != "*"]
        placed = [item for item in arguments if item.index is not None]
        options = [item for item in arguments if item.index is None]
        usage = [*words, *(_placed(item) for item in placed)]
        usage += [f"{item.names[0]} {_type_word(item.hint)}" for item in options if item.required]
        usage += ["[OPTIONS]"] if any(not item.required for item in options) else []
        parts.append(f"## {' '.join(words)}\n\n```text\n{' '.join(usage)}\n```\n\n{description}\n")
        shown = "".join(f"$ {line}\n" for line in lines.get(" ".join(words[1:]), ()))
        parts.append(f"```console\n{shown}```\n")
        if placed:
            rows = [(code(item.names[0]), helps.get(item.field_info.name, "")) for item in placed]
            parts.append(table(("Argument", "Meaning"), rows))
        if options:
            parts.append(table(("Option", "Meaning", "Default"), (_option(item, helps) for item in options)))
    return "\n".join(parts)


def _placed(argument: typing.Any) -> str:
    name: str = argument.names[0]
    if argument.field_info.kind.name == "VAR_POSITIONAL":
        return f"{name}..."
    return name if argument.required else f"[{name}]"


# --- errors


def error_classes() -> list[tuple[int, type[RocwrightError]]]:
    """Every error of the package with its depth in the tree, parents before children."""
    for module in pkgutil.walk_packages(rocwright.__path__, "rocwright."):
        # What runs beside torch is no part of the tree, and found by path only.
        if not module.name.endswith("__main__") and ".inside." not in module.name:
            importlib.import_module(module.name)

    def below(parent: type[RocwrightError], depth: int) -> Iterator[tuple[int, type[RocwrightError]]]:
        yield depth, parent
        children = (kind for kind in parent.__subclasses__() if kind.__module__.startswith("rocwright."))
        for child in sorted(children, key=lambda kind: (kind.exit_code, kind.__name__)):
            yield from below(child, depth + 1)

    return list(below(RocwrightError, 0))


def render_errors() -> str:
    """The tree of errors as a table."""
    rows = []
    for depth, kind in error_classes():
        first = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        meaning = "Any other refusal or failure." if depth == 0 else first
        rows.append((str(kind.exit_code), "&nbsp;" * 4 * max(0, depth - 1) + code(kind.__name__), meaning))
    return table(("Exit code", "Error", "Meaning"), rows)


# --- tables of facts


def _type_text(hint: object) -> str:
    """A type as a reader of TOML would say it."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return f"list of {_type_text(inside[0])}"
    if origin is dict:
        return f"table of {_type_text(inside[1])}"
    kinds = [_type_text(kind) for kind in inside if kind is not type(None)]
    if kinds:
        return " or ".join(kinds)
    words: dict[object, str] = {str: "text", int: "number", bool: "true or false"}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    return words.get(hint) or str(getattr(hint, "__name__", hint))


def _structs(root: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    """The rows that a table is made of, each once, in the order in which they are met."""
    found: list[type[msgspec.Struct]] = []

    def visit(hint: object) -> None:
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint not in found:
            found.append(hint)
            for field in msgspec.structs.fields(hint):
                visit(field.type)
        for inside in typing.get_args(hint):
            visit(inside)

    visit(root)
    return found


def _fields(struct: type[msgspec.Struct]) -> str:
    rows = []
    tag = struct.__struct_config__.tag
    if tag is not None:
        rows.append((code(str(struct.__struct_config__.tag_field)), f"always {code(str(tag))}", "yes"))
    rows += [
        (code(field.encode_name), _type_text(field.type), "yes" if field.required else "no")
        for field in msgspec.structs.fields(struct)
    ]
    return table(("Field", "Value", "Required"), rows)


def _json_text(hint: object) -> str:
    """A type as a reader of JSON would say it."""
    return _type_text(hint) + (" or null" if type(None) in typing.get_args(hint) else "")


def _values(*roots: type[msgspec.Struct], known: type[msgspec.Struct]) -> str:
    """What commands print as JSON: each value once, without those that `known` is made of."""
    told = set(_structs(known))
    parts = []
    for struct in dict.fromkeys(each for root in roots for each in _structs(root)):
        if struct in told:
            continue
        text = " ".join((struct.__doc__ or "").split()).replace("`None`", "null")
        rows = ((code(field.encode_name), _json_text(field.type)) for field in msgspec.structs.fields(struct))
        parts.append(f"### {struct.__name__}\n\n{text}\n\n{table(('Field', 'Value'), rows)}")
    return "\n".join(parts)


def _schema(root: type[msgspec.Struct]) -> str:
    """Field lists of a table; the root itself only lists what the file holds at its top."""
    parts = [f"At the top of the file:\n\n{_fields(root)}"]
    for struct in _structs(root)[1:]:
        text = " ".join((struct.__doc__ or "").split())
        parts.append(f"### {struct.__name__}\n\n{text}\n\n{_fields(struct)}")
    return "\n".join(parts)


def render_family_names() -> str:
    """The family table itself."""
    known = load_table("families", Families).families
    return table(
        ("Family", "Targets"), ((code(name), " ".join(map(code, members))) for name, members in known.items())
    )


def render_family_rows() -> str:
    """Where families are built and tested."""
    rows = []
    for row in load_table("families", Families).family:
        for platform in PLATFORMS:
            here = row.on(platform)
            if here is not None:
                runners = " ".join(code(pool.label) for pool in here.pools) or "none"
                excused = here.bypass.reason if here.bypass else ""
                rows.append((code(row.name), row.tier, platform, runners, excused))
    return table(("Family", "Tier", "Platform", "Runners", "Releases need not wait, because"), rows)


def render_rules() -> str:
    """The rules in the order in which they are applied: what they ask of which packages, and how strictly."""
    rows = load_table("contract", ContractTable).package
    cells = [(rule, f"{_packages(rule.id, rows)}: {_severity(rule, rows)}") for rule in RULES]
    cells += [(rule, f"the set: {_set_severity(rule)}") for rule in SET_RULES]
    return table(
        ("Rule", "What it asks", "Of what, and how strictly"),
        (
            (code(rule.id), rule.summary, f"{level}{'' if rule.waivable else '; cannot be waived'}")
            for rule, level in cells
        ),
    )


def render_doctor(section: str) -> str:
    """What the doctor looks at in a section, and what mends it."""
    rows = ((code(kind.id), kind.looks_at, kind.mends) for kind in KINDS if kind.section == section)
    return table(("Finding", "What is looked at", "What mends it"), rows)


def _packages(rule: str, rows: Sequence[PackageRow]) -> str:
    """The patterns of packages that a rule is on for."""
    names = [name for row in rows if rule in row.rules for name in row.names]
    return "all" if "*" in names else " ".join(map(code, names))


def _severity(rule: Rule, rows: Sequence[PackageRow]) -> str:
    """The severity for most packages, and for which it is another."""
    common: str = rule.severity
    others: list[str] = []
    for row in rows:
        said = row.severity.get(rule.id)
        if said is not None and "*" in row.names:
            common = said
        elif said is not None:
            others.append(f"{said} for {' '.join(map(code, row.names))}")
    return "; ".join((common, *others))


def _set_severity(rule: SetRule) -> str:
    """A set rule's severity, with and without a complete set."""
    if rule.proof:
        return f"{rule.severity}, with `--install`"
    without = "" if rule.open_severity is None else f"; {rule.open_severity} without `--set`"
    return f"{rule.severity}{without}"


def _repository(origin: str) -> str:
    """A repository of GitHub by its short name, as a link; any other by its address."""
    address = origin.removesuffix(".git")
    name = address.removeprefix("https://github.com/")
    return address if name == address else f"[{name}]({address})"


def render_versions() -> str:
    """The versions of PyTorch: where their sources come from, and how far each is looked after."""
    known = load_table("projects", ProjectTable)
    head = ("Version", "torch", "Other projects", "Linux", "Windows")
    rows = []
    for line in known.lines:
        branches: dict[str, list[str]] = {}
        for project, ref in line.refs.items():
            branches.setdefault(ref, []).append(project)
        named = [f"{code(ref)} for {' and '.join(projects)}" for ref, projects in branches.items()]
        others = "; ".join([*named, "the rest by its pins"]) if named else "by its pins"
        torch = f"{code(line.ref)} of {_repository(line.origin)}"
        rows.append((code(line.name), torch, others, line.linux, line.windows))
    return table(head, rows)


def render_projects() -> str:
    """The projects: where they come from by default, and what pins them."""
    rows = []
    for row in load_table("projects", ProjectTable).projects:
        names = " ".join(map(code, filter(None, (row.name, row.alias))))
        # The whole path stands above the tables; here it would push the last columns off the page.
        pin = "" if row.pin is None else code(Path(row.pin.file).name)
        windows = row.on("windows")
        other = f"{code(windows.ref or '')} of {_repository(windows.origin)}"
        elsewhere = other if (windows.origin, windows.ref) != (row.origin, row.ref) else "the same"
        optional = "; may be left out" if row.optional("windows") else ""
        default = "" if row.ref is None else code(row.ref)
        rows.append((names, code(row.directory), _repository(row.origin), pin, default, elsewhere + optional))
    return table(("Project", "Folder", "Repository", "Pinned in", "Without a pin", "On Windows"), rows)


def render_scripts() -> str:
    """The documented scripts and the commands that they are."""
    rows = [
        (code(name), code(f"rocwright {' '.join(entry.command)}"), _failure(entry.failure))
        for name, entry in DOCUMENTED.items()
    ]
    return table(("Script", "Command", "Exit code of a failure"), rows)


def _failure(said: int | None) -> str:
    return "the command's" if said is None else f"always {said}"


def render_mutations() -> str:
    """Each rule with the ways in which the tests break good wheels for it."""
    sys.path.insert(0, str(DOCS.parent / "tests"))
    mutations = importlib.import_module("real.mutations").MUTATIONS
    order = [*OWN_RULES, *rule_ids()]
    rows = sorted(mutations, key=lambda one: order.index(one.rule))
    head = ("Rule", "What is broken", "In the set", "Test")
    return f"{len(rows)} mutations for {len(order)} rules.\n\n" + table(
        head, ((code(one.rule), one.breaks, one.of, code(one.id)) for one in rows)
    )


# --- the pipeline


def _every_kind() -> tuple[Kind, ...]:
    """The definition with all that a run can have, on the platform that has all of it."""
    projects = known(environment={}).projects["linux"]
    return kinds(projects, split=True, parts=True, staged=True, promoted=True)


def render_kinds() -> str:
    """The steps, in the order in which they can be run."""
    changes = {"nothing": "", "run": "the run's folder", "channel": "a channel"}
    rows = [
        (
            code(kind.name),
            " ".join(kind.axes),
            " ".join(map(code, kind.needs)),
            code(kind.job),
            changes[kind.changes],
            "on a GPU" if kind.gpu else "also after failures" if kind.last else "",
        )
        for kind in (*_every_kind(), SUMMARY)
    ]
    return table(("Step", "For each", "Needs", "Job", "Changes", "Runs"), rows)


def render_jobs() -> str:
    """What one machine does: the jobs, their steps, and the jobs whose results they take."""
    every = (*_every_kind(), SUMMARY)
    job_of = {kind.name: kind.job for kind in every}
    held: dict[str, list[Kind]] = {}
    for kind in every:
        held.setdefault(kind.job, []).append(kind)
    rows = []
    for job, steps in held.items():
        needs = dict.fromkeys(job_of[need] for kind in steps for need in kind.needs if job_of[need] != job)
        after = "everything" if SUMMARY in steps else " ".join(map(code, needs))
        rows.append((code(job), " ".join(steps[0].axes), " ".join(code(kind.name) for kind in steps), after))
    return table(("Job", "For each", "Steps, one after the other", "After"), rows)


def render_profiles() -> str:
    """The profiles, side by side."""
    rows = profiles().profile
    fields: list[tuple[str, Callable[[Profile], str]]] = [
        ("platforms", lambda row: " ".join(row.platforms)),
        ("Pythons", lambda row: " ".join(row.pythons)),
        ("branches of torch", lambda row: " ".join(map(code, row.refs))),
        ("on Windows", lambda row: " ".join(map(code, row.refs_windows)) or "the same"),
        ("families of", lambda row: row.tier),
        ("builds", lambda row: "the miniature family" if row.sources == "miniature" else "PyTorch"),
        ("device code apart", lambda row: "yes" if row.split else "no"),
        ("channels", lambda row: " → ".join(filter(None, (row.stage, row.promote))) or "none"),
        ("changes them", lambda row: _PUBLISH[row.publish]),
    ]
    return table(("", *(code(row.name) for row in rows)), ((name, *map(say, rows)) for name, say in fields))


_PUBLISH = {
    "never": "never",
    "embedded": "in the run's own folder only",
    "asked": "with `--publish`",
}


def render_ci() -> str:
    """The jobs of the profile ci for one family, as a flow chart."""
    choice = Choice(
        profile="ci",
        run_id="1",
        platforms=("linux",),
        families=("gfx94X-dcgpu",),
        refs=("release/2.12",),
        sources="upstream",
    )
    plan = make_plan(profiles().named("ci"), choice, known(environment={}), Publication(True, False))
    return f"```mermaid\n{mermaid(plan)}```"


# --- compatibility


def _compat(name: str) -> Callable[[], str]:
    """A section of the compatibility page, as `rocwright compat show --format markdown` prints it."""

    def render() -> str:
        facts = load_facts()
        return as_markdown(section(facts, name), markup_of(facts, "latest"))

    return render


def render_compat_about() -> str:
    """What PyTorch on ROCm is, in a few lines."""
    facts = load_facts()
    page, markup = facts.page.page, markup_of(facts, "latest")
    offers = "\n".join(f"* {markup.markdown(offer)}" for offer in page.offers)
    return f"{markup.markdown(page.about)} It offers:\n\n{offers}"


def render_conformance() -> str:
    """How each row of the documents is covered: what the tests of them say of themselves."""
    tests = str(DOCS.parent / "tests")
    sys.path.insert(0, tests)
    try:
        from conformance.page import render

        return render()
    finally:
        sys.path.remove(tests)


BLOCKS: dict[str, Callable[[], str]] = {
    "compat-about": render_compat_about,
    **{f"compat-{name}": _compat(name) for name in SECTIONS},
    "compat-values": lambda: _values(Shown, Answer, known=SourceLock),
    "data-values": lambda: _values(TableInfo, Explained, known=SourceLock),
    "data-compat": lambda: _schema(CompatTable),
    "data-compat-libraries": lambda: _schema(LibraryTable),
    "data-compat-features": lambda: _schema(FeatureTable),
    "cli": render_cli,
    "errors": render_errors,
    "rules": render_rules,
    "mutations": render_mutations,
    "scripts": render_scripts,
    "versions": render_versions,
    "projects": render_projects,
    "families": render_family_names,
    "pipeline-kinds": render_kinds,
    "pipeline-jobs": render_jobs,
    "pipeline-profiles": render_profiles,
    "pipeline-ci": render_ci,
    "pipeline-plan": lambda: _values(Plan, known=SourceLock),
    "data-profiles": lambda: _schema(ProfileTable),
    "source-lock": lambda: _schema(SourceLock),
    "source-values": lambda: _values(Prepared, HipifiedTree, Change, Log, known=SourceLock),
    "data-contract": lambda: _schema(ContractTable),
    "data-families": lambda: _schema(Families),
    "data-packages": lambda: _schema(PackageTable),
    "data-licences": lambda: _schema(LicenceTable),
    "data-distributions": lambda: _schema(distribution._Table),
    "data-projects": lambda: _schema(ProjectTable),
    "data-recipes": lambda: _schema(RecipeTable),
    "data-host": lambda: _schema(Needs),
    "data-fat": lambda: _schema(FatTable),
    "data-device-files": lambda: _schema(DeviceFiles),
    "data-workflows": lambda: _schema(WorkflowTable),
    "data-machines": lambda: _schema(Machines),
    "data-platforms": lambda: _schema(Platforms),
    "data-channels": lambda: _schema(Channels),
    "data-indexes": lambda: _schema(IndexTable),
    "data-tests": lambda: _schema(SuiteTable),
    "data-skips": lambda: _schema(SkipTable),
    "data-signatures": lambda: _schema(SignatureTable),
    "data-probe": lambda: _schema(ProbeTable),
    "data-slurm": lambda: _schema(SlurmTable),
    "data-doctor": lambda: _schema(DoctorTable),
    "doctor-json": lambda: _values(Diagnosis, known=SourceLock),
    "doctor-machine": lambda: render_doctor("machine"),
    "doctor-environment": lambda: render_doctor("environment"),
    "data-landing": lambda: _schema(LandingTable),
    "data-gpus": lambda: _schema(GpuTable),
    "data-reversion": lambda: _schema(ReversionTable),
    "data-examples": lambda: _schema(ExampleTable),
    "data-triggers": lambda: _schema(Triggers),
    "family-rows": render_family_rows,
    "conformance": render_conformance,
}


def regenerate(text: str) -> str:
    """A page with all its generated blocks as they should be; raises `KeyError` for an unknown block."""
    return _BLOCK.sub(lambda match: f"{match[1]}\n{BLOCKS[match['name']]().strip()}\n\n{match[3]}", text)


def pages() -> list[Path]:
    """Every page of the documentation."""
    return sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)


def render_detect_table() -> str:
    """The table of the detector's own wheel."""
    recipes = load_table("recipes", RecipeTable).recipe
    return detect_table.render_table(
        load_table("gpus", GpuTable),
        load_table("families", Families),
        load_table("landing", LandingTable).product[0],
        {row.project for row in recipes if row.device_code},
    )


# Files that are generated whole.
FILES = {DOCS.parent / "runtime" / detect_table.PATH: render_detect_table}


def wanted_files() -> Iterator[tuple[Path, str, str]]:
    """Every page and generated file with its text as it is and as it should be."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        yield page, text, regenerate(text)
    for path, render in FILES.items():
        yield path, path.read_text(encoding="utf-8") if path.exists() else "", render()


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 when all pages are current (afterwards, without ``--check``), 1 for stale ones."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 for a stale page")
    check: bool = parser.parse_args(arguments).check
    stale = 0
    for page, text, wanted in wanted_files():
        if wanted == text:
            continue
        stale += 1
        name = page.relative_to(DOCS.parent)
        if check:
            print(f"{name} is stale; run: python docs/generate.py", file=sys.stderr)
        else:
            page.write_text(wanted, encoding="utf-8")
            print(f"wrote {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
