"""`rocwright build`: wheels of PyTorch from sources, and how plans and results of builds look."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rocwright.builder.decide.extension import load_extensions
from rocwright.builder.decide.family import FamilyPlan
from rocwright.builder.decide.plan import BuildPlan, BuildRequest, BuiltWheel
from rocwright.builder.decide.recipe import RecipeTable, load_recipes
from rocwright.builder.family import build_family, last_report
from rocwright.builder.order import Order, find_sources, plan_only
from rocwright.builder.rocm.place import RocmPlace, decide_place
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.family import FamilyResult
from rocwright.builder.units.report import BuildReport
from rocwright.cli.build_options import Extensions, Packages, Product, Trees, Where, Work, words
from rocwright.cli.help import names_family
from rocwright.cli.options import OutputDir
from rocwright.cli.reply import Reply, replies
from rocwright.data import load_table
from rocwright.data.overlay import Overlay, read_overlay
from rocwright.errors import CommandFailed, UsageError
from rocwright.model.gpu import parse_targets
from rocwright.model.platforms import this_platform
from rocwright.model.project import ProjectTable
from rocwright.pipeline.extensions.wish import Wish, ordered
from rocwright.sources.changes import verify_checkouts
from rocwright.sources.lock import read_lock
from rocwright.system import console

PACKAGES, WHERE, TREES, EXTENSIONS = Packages(), Where(), Trees(), Extensions()
PRODUCT, WORK = Product(), Work()


@names_family
@replies
def build(
    *,
    output_dir: OutputDir,
    packages: Packages = PACKAGES,
    where: Where = WHERE,
    trees: Trees = TREES,
    extensions: Extensions = EXTENSIONS,
    product: Product = PRODUCT,
    work: Work = WORK,
) -> Reply:
    """Build wheels of every project of the PyTorch family that is checked out, against one ROCm.

    Order: {order}, then projects of rocwright.toml. ROCm comes from
    --index-url or --find-links into an environment of the build's own, from an environment that has its
    packages (--rocm-environment), or from a plain installation (--rocm-prefix). In the end all wheels are
    installed together and imported in a fresh environment. Run it again to resume. When a compiler or
    another command fails, rocwright ends with the exit code of that command.

    Parameters
    ----------
    output_dir
        Where the wheels go; made if it is not there.
    json
        Print the result as JSON.
    """
    return run(Asked(output_dir, packages, where, trees, product, work, extensions), Door(beside=Path()))


@dataclass(frozen=True)
class Door:
    """What differs between the command and the documented script.

    `beside` is where checkouts are looked for; `environment_first` makes the active Python environment the
    ROCm to build against whatever index is given, and installs the wheels there in the end; `dist_dir` is the
    ROCm where nothing else names one.
    """

    beside: Path
    environment_first: bool = False
    dist_dir: Path | None = None


@dataclass(frozen=True)
class Asked:
    """All options of a build."""

    output_dir: Path
    packages: Packages
    where: Where
    trees: Trees
    product: Product
    work: Work
    extensions: Extensions = EXTENSIONS

    def place(self, door: Door) -> RocmPlace:
        """Which ROCm; raises `UsageError` for several."""
        packages, where = self.packages, self.where
        return decide_place(
            index_url=packages.index(),
            find_links=packages.find_links,
            spec=packages.rocm_sdk_version,
            extras=words(packages.rocm_extras),
            pre=packages.pre,
            pip_cache_dir=packages.pip_cache_dir,
            environment=where.rocm_environment,
            prefix=where.rocm_prefix,
            install=where.install_rocm,
            environment_first=door.environment_first,
            dist_dir=door.dist_dir,
        )

    def order(self, door: Door, overlay: Overlay | None) -> Order:
        """What is to be built; raises `UsageError` before anything is looked at but directories."""
        place = self.place(door)
        product, work = self.product, self.work
        platform = product.platform or this_platform()
        if platform != this_platform() and not work.dry_run:
            raise UsageError(
                f"wheels for {platform} are built on {platform}", next_step="add --dry-run to see the plan"
            )
        output = self.output_dir.expanduser().absolute()
        work_dir = work.work_dir.expanduser().absolute() if work.work_dir else _work_dir(output)
        cache = work.cache()
        wanted = BuildRequest(
            sources=self._sources(door, load_table("projects", ProjectTable, overlay)),
            platform=platform,
            targets=(),
            release_type=product.release_type,
            version_suffix=product.version_suffix or None,
            build_number=product.pytorch_build_number,
            clean=work.clean,
            flash_attention=product.flash_attention(platform),
            editable=words(product.editable),
            split=product.split_device,
            cache=cache,
            cache_hip=not work.sccache_no_wrap,
            build=self.trees.wanted(),
            jobs=work.jobs,
            part=tuple(map(str, parse_targets(product.device_part))),
        )
        return Order(
            place=place,
            wanted=wanted,
            output_dir=str(output),
            work_dir=str(work_dir),
            targets=product.pytorch_rocm_arch,
            pythons=product.pythons(),
            resume=work.resume,
            record=work.report_units,
            install_wheels=self._install_wheels(place, door),
        )

    def _install_wheels(self, place: RocmPlace, door: Door) -> bool:
        """Into the environment of ROCm; the script does it unless told not to, the command when told to."""
        said = self.where.install_wheels
        if place.kind == "environment":
            return door.environment_first if said is None else said
        if said:
            raise UsageError(
                "--install-wheels needs the environment that ROCm is installed in",
                next_step="name it with --rocm-environment, or install the wheels of OUTPUT_DIR yourself",
            )
        return False

    def _sources(self, door: Door, table: ProjectTable) -> dict[str, str]:
        """Directories of what is to be built; with a lock, of exactly its projects, which are compared."""
        trees = self.trees
        if self.extensions.wish() is not None and trees.lock is None and trees.root_checkout_dir is None:
            # What happens to lie here is not meant, only what stands on torch.
            return {name: str(path) for name, path in trees.given().items()}
        folders = {row.name: row.directory for row in table.projects}
        if trees.lock is not None:
            held = read_lock(trees.lock)
            folders = {source.project: source.directory for source in held.sources}
            foreign = sorted(set(trees.given()) - set(folders))
            if foreign:
                raise UsageError(
                    f"{trees.lock} does not list {', '.join(foreign)}", next_step="leave the directory out"
                )
        found = find_sources(folders, trees.root_checkout_dir, trees.given(), beside=door.beside)
        if trees.lock is not None:
            base = (trees.root_checkout_dir or door.beside).absolute()
            places = {name: Path(found.get(name, base / folder)) for name, folder in folders.items()}
            verify_checkouts(held, places)
            console.say(f"the checkouts are those of {trees.lock}")
        return found


def _work_dir(output: Path) -> Path:
    """Beside the wheels: what lies in OUTPUT_DIR is for others to take."""
    return output.with_name(output.name + "-work")


def run(asked: Asked, door: Door) -> Reply:
    """Do what a door was asked for; a command that fails hands its exit code on."""
    overlay = read_overlay()
    table = load_recipes(overlay)
    order = asked.order(door, overlay)
    wish = asked.extensions.wish()
    if asked.work.dry_run:
        with _sketched(order, table, overlay, wish) as (order, table):
            plan = plan_only(order, table)
        return Reply(plan, lambda: show_plan(plan))
    if wish is not None:
        extensions = load_extensions(overlay)
        order, table = ordered(order, table, extensions, wish, folder=Path(order.work_dir), note=console.say)
    try:
        result = build_family(order, table, note=console.say)
    except CommandFailed as problem:
        report = last_report(order)
        if report is not None and report.cache is not None:
            console.say(report.cache.line)
        console.error(problem)
        raise SystemExit(passed_on(problem.status)) from None
    return Reply(result, lambda: show_result(result, order))


@contextmanager
def _sketched(
    order: Order, table: RecipeTable, overlay: Overlay | None, wish: Wish | None
) -> Iterator[tuple[Order, RecipeTable]]:
    """The order with what is wished for, whose sources are looked at and forgotten."""
    if wish is None:
        yield order, table
        return
    with TemporaryDirectory(prefix="rocwright-sources-") as folder:
        order, table = ordered(
            order, table, load_extensions(overlay), wish, folder=Path(folder), note=console.say
        )
        for problem in order.problems:
            console.say(f"in the way: {problem}")
        for note in order.notes:
            console.say(note)
        yield order, table


def passed_on(status: int) -> int:
    """A failed command's exit code as a shell tells it: 128 and the number of the signal that killed it."""
    return 128 - status if status < 0 else status


# -- how plans and results of builds look


# Of the sources that were not compiled, so many of a directory are named.
_NAMED = 4


def show_plan(plan: FamilyPlan) -> None:
    """A plan: ROCm and targets, a table of builds, then each build's commands and variables."""
    console.out(f"ROCm     {_rocm(plan.rocm)}")
    console.out(f"targets  {' '.join(plan.targets)}")
    console.out(f"for      {plan.platform}, release type {plan.release_type}")
    console.out("")
    rows = [(build.project, build.python, _version(build), build.directory) for build in plan.builds]
    console.table("Builds, in this order", ("project", "python", "version", "directory"), rows)
    for project, reason in plan.left_out.items():
        console.out(f"not built: {project}: {reason}")
    for note in plan.notes:
        console.out(f"note: {note}")
    common = _common([build.env for build in plan.builds])
    if len(plan.builds) > 1 and common:
        console.out("\nVariables of every build")
        for line in _variables(common):
            console.out(f"  {line}")
    shared = common if len(plan.builds) > 1 else {}
    first: dict[str, tuple[str, list[str]]] = {}
    for build in plan.builds:
        lines = list(_build(build, shared))
        python, known = first.setdefault(build.project, (build.python, lines))
        console.out("")
        if known is lines:
            console.out(_head(build))
        else:
            console.out(f"{_head(build)}: as for {python}{', but' if set(lines) - set(known) else ''}")
            lines = [line for line in lines if line not in known]
        for line in lines:
            console.out(line)


def _rocm(rocm: Rocm) -> str:
    if rocm.origin == "unknown":
        return f"{rocm.version}, not looked at: its paths begin with {rocm.root}"
    kind = "packages" if rocm.origin == "packages" else "installation"
    return f"{rocm.version}, {kind} in {rocm.root}"


def _version(build: BuildPlan) -> str:
    return build.version or "its own"


def _common(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Variables that all builds see with the same value."""
    first, *others = environments or [{}]
    return {name: value for name, value in first.items() if all(env.get(name) == value for env in others)}


def _variables(env: Mapping[str, str]) -> Iterator[str]:
    return (f"{name}={shlex.quote(value) if value else ''}" for name, value in sorted(env.items()))


def _head(build: BuildPlan) -> str:
    version = f" {build.version}" if build.version else ""
    return f"{build.project}{version}" + (f" for Python {build.python}" if build.python else "")


def _build(build: BuildPlan, shared: Mapping[str, str]) -> Iterator[str]:
    """One build: what is installed, removed and written first, its variables, its command."""
    steps = (
        ("install", " ".join(shlex.quote(each) for each in build.requirements)),
        ("install", " ".join(f"-r {name}" for name in build.requirements_files)),
        ("uninstall", " ".join(build.uninstalled)),
        ("remove", " ".join(build.removed)),
        ("write", " ".join(build.generated)),
        ("copy", " ".join(build.copied)),
    )
    for word, what in steps:
        if what:
            yield f"  {word:<9}  {what}"
    for line in _variables({name: value for name, value in build.env.items() if shared.get(name) != value}):
        yield f"  set        {line}"
    yield f"  run        {shlex.join(build.argv)}"
    if build.pins:
        yield f"  require    {', '.join(build.pins)}"
    seen = "install for what follows" if build.install or build.shown else ""
    after = "install in place" if build.editable else seen
    for word in filter(None, (after, "split into host and device wheels" if build.split else "")):
        yield f"  then       {word}"


def show_result(result: FamilyResult, order: Order) -> None:
    """Wheels with their sizes and times, what compilers cost, and what to do next."""
    rows = [_row(wheel, set(result.resumed)) for wheel in result.wheels]
    console.table("Wheels", ("project", "size", "seconds", "CPU s", "wheel"), rows, right=(1, 2, 3))
    devices = [Path(name).name for wheel in result.wheels for name in wheel.device]
    if devices:
        console.out("\nDevice wheels")
        for name in devices:
            console.out(name)
    if result.report is not None:
        show_report(result.report)
    console.out("")
    if result.resumed:
        console.out(f"finished by an earlier run: {' '.join(result.resumed)}")
    if result.proven:
        console.out(f"imported in a fresh environment: {' '.join(result.proven)}")
    console.out(f"logs: {Path(order.work_dir) / 'log'}")
    if any(wheel.sha256 for wheel in result.wheels):
        console.out(f"next: rocwright check {shlex.quote(order.output_dir)}/*.whl")


def _row(wheel: BuiltWheel, resumed: set[str]) -> tuple[str, ...]:
    if not wheel.sha256:
        return (wheel.project, "-", f"{wheel.wall_s:.1f}", f"{wheel.cpu_s:.1f}", f"{wheel.path} (in place)")
    spent = (f"{wheel.wall_s:.1f}", f"{wheel.cpu_s:.1f}")
    if f"cp{wheel.python.replace('.', '')}-{wheel.project}" in resumed:
        # What it once cost was not spent now.
        spent = ("-", "-")
    return (wheel.project, console.human_bytes(wheel.size), *spent, Path(wheel.path).name)


def show_report(report: BuildReport, *, most: int = 10) -> None:
    """The slowest translation units, seconds by kind and target, and what a compiler cache answered."""
    if report.slowest:
        slow = [
            (unit.project, unit.kind, f"{unit.wall_s:.1f}", _memory(unit.peak_rss), unit.source)
            for unit in report.slowest[:most]
        ]
        console.out("")
        columns = ("project", "kind", "seconds", "memory", "translation unit")
        console.table("Slowest translation units", columns, slow, right=(2, 3))
        kinds = [
            f"{name} {total.cpu_s:.1f} s in {total.calls} calls"
            for name, total in report.kinds.items()
            if total.calls
        ]
        console.out("")
        console.out(f"CPU time: {', '.join(kinds)}; largest {_memory(report.peak_rss)}")
    if report.targets:
        spent = dict(report.targets)
        host = spent.pop("host", 0.0)
        said = [f"{target} {seconds:.1f} s" for target, seconds in spent.items()]
        console.out(f"device code: {', '.join([*said, f'host code beside it {host:.1f} s'])}")
    if report.cache is not None:
        console.out(report.cache.line)
    for project, places in report.uncompiled.items():
        if places:
            console.out(f"no compiler saw these device sources of {project}:")
        for place in places:
            names = ", ".join(place.sources[:_NAMED]) + (", …" if len(place.sources) > _NAMED else "")
            console.out(f"  {place.directory or '.'}: {len(place.sources)} of {place.of} ({names})")


def _memory(size: int) -> str:
    return console.human_bytes(size) if size else "-"
