"""`rocwright build`: from checkouts to wheels of the PyTorch family."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rocwright.builder.decide.plan import BuildRequest
from rocwright.builder.decide.recipe import load_recipes
from rocwright.builder.family import build_family, last_report
from rocwright.builder.order import Order, find_sources, plan_only
from rocwright.builder.rocm.place import RocmPlace, decide_place
from rocwright.cli import show_build
from rocwright.cli.build_options import OutputDir, Packages, Product, Trees, Where, Work, words
from rocwright.cli.family_help import names_family
from rocwright.cli.reply import Reply, replies
from rocwright.data import load_table
from rocwright.data.overlay import Overlay, read_overlay
from rocwright.errors import CommandFailed, UsageError
from rocwright.model.gpu import parse_targets
from rocwright.model.platforms import this_platform
from rocwright.model.project import ProjectTable
from rocwright.sources.changes import verify_checkouts
from rocwright.sources.lock import read_lock
from rocwright.system import console

PACKAGES, WHERE, TREES, PRODUCT, WORK = Packages(), Where(), Trees(), Product(), Work()


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

    def place(self, door: Door) -> RocmPlace:
        """Which ROCm; raises `UsageError` for several."""
        packages, where = self.packages, self.where
        return decide_place(
            index_url=packages.index_url,
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
        folders = {row.name: row.directory for row in table.projects}
        if trees.lock is not None:
            held = read_lock(trees.lock)
            folders = {source.project: source.directory for source in held.sources}
            foreign = sorted(set(trees.given()) - set(folders))
            if foreign:
                raise UsageError(
                    f"{trees.lock} does not hold {', '.join(foreign)}", next_step="leave the directory out"
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
    if asked.work.dry_run:
        plan = plan_only(order, table)
        return Reply(plan, lambda: show_build.show_plan(plan))
    try:
        result = build_family(order, table, note=console.say)
    except CommandFailed as problem:
        report = last_report(order)
        if report is not None and report.cache is not None:
            console.say(show_build.cache_line(report.cache))
        console.error(problem)
        raise SystemExit(passed_on(problem.status)) from None
    return Reply(result, lambda: show_build.show_result(result, order))


def passed_on(status: int) -> int:
    """A failed command's exit code as a shell tells it: 128 and the number of the signal that killed it."""
    return 128 - status if status < 0 else status


@names_family
@replies
def build(
    *,
    output_dir: OutputDir,
    packages: Packages = PACKAGES,
    where: Where = WHERE,
    trees: Trees = TREES,
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
    return run(Asked(output_dir, packages, where, trees, product, work), Door(beside=Path()))
