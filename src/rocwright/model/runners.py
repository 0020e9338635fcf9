"""Where families are built and tested: tiers, runners and bypasses, the rows of `data/families.toml`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from fnmatch import fnmatchcase

import msgspec

from rocwright.errors import InvalidData
from rocwright.model.plan import TIERS, Tier
from rocwright.model.platforms import PLATFORMS

# A variable of the organisation: JSON, family -> label, or family -> {platform: label}.
OVERRIDE = "ROCM_THEROCK_TEST_RUNNERS"


class Pool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Machines of one label; of several pools each is chosen as often as its weight says."""

    label: str
    weight: int = 1


class Bypass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why releases need not wait for a test on this family, and the last day on which that holds."""

    reason: str
    until: date


class OnPlatform(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A family on one platform.

    `pools` are the machines with a GPU of the family, none where there are none; `multi_gpu`, `benchmark` and
    `kernels` are labels of special ones. `bypass` lifts the want of tests for releases. `sanity_only`: only
    the first tests are run; `nightly_only`: tests run in nightly runs only; `bump_only`: where ROCm itself
    changed. `without_refs` are patterns of branches of PyTorch that do not support the family;
    `expect_failure`: that its build fails is known. `variants` are those of ROCm's own build.
    """

    pools: tuple[Pool, ...] = ()
    multi_gpu: str = ""
    benchmark: str = ""
    kernels: dict[str, str] = {}
    bypass: Bypass | None = None
    sanity_only: bool = False
    nightly_only: bool = False
    bump_only: bool = False
    expect_failure: bool = False
    without_refs: tuple[str, ...] = ()
    variants: tuple[str, ...] = ("release",)
    fetch_targets: tuple[str, ...] = ()


class FamilyRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A family or target that the pipeline builds: from which tier on, and on which platforms."""

    name: str
    tier: Tier
    linux: OnPlatform | None = None
    windows: OnPlatform | None = None

    def on(self, platform: str) -> OnPlatform | None:
        """What holds on a platform; None where the family is not built there."""
        return {"linux": self.linux, "windows": self.windows}.get(platform)


def check_rows(rows: Sequence[FamilyRow], families: Mapping[str, Collection[str]]) -> None:
    """Raises `InvalidData` for rows that contradict each other or the table of families, naming the row."""
    known = {*families, *(target for members in families.values() for target in members)}
    meaning: dict[str, str] = {}
    for row in rows:
        if row.name not in known:
            near = get_close_matches(row.name, sorted(known), n=1)
            raise InvalidData(
                f"[[families.family]] {row.name} is not a known family or target",
                next_step=f"perhaps {near[0]}" if near else "add its targets to [families.families]",
            )
        if row.linux is None and row.windows is None:
            raise InvalidData(
                f"[[families.family]] {row.name} has no platform", next_step="give linux or windows"
            )
        for platform in PLATFORMS:
            here = row.on(platform)
            if here is not None:
                _check_platform(row.name, platform, here)
                for label, means in _labels(row.name, platform, here):
                    other = meaning.setdefault(label, means)
                    if other != means:
                        raise InvalidData(
                            f"the runner {label} is given for {other} and for {means}",
                            next_step="a label stands for machines of one kind: give one another label",
                        )


def _check_platform(name: str, platform: str, here: OnPlatform) -> None:
    where = f"[[families.family]] {name} on {platform}"
    labels = [pool.label for pool in here.pools]
    if not all(labels) or len(set(labels)) < len(labels):
        raise InvalidData(
            f"{where} has a pool without a label, or one twice", next_step="give each pool its own label"
        )
    if any(pool.weight < 1 for pool in here.pools):
        raise InvalidData(f"{where} has a pool with a weight below 1", next_step="leave the pool out instead")
    if here.bypass is not None and not here.bypass.reason.strip():
        raise InvalidData(f"{where} bypasses its tests and does not say why", next_step="give bypass.reason")
    if here.nightly_only and not here.pools:
        raise InvalidData(f"{where} is tested in nightly runs and has no runner", next_step="give pools")


def _labels(name: str, platform: str, here: OnPlatform) -> Iterator[tuple[str, str]]:
    for pool in here.pools:
        yield pool.label, f"{name} on {platform}"
    # Machines with several GPUs are also what benchmarks run on; a benchmark may share those of the tests.
    if here.multi_gpu:
        yield here.multi_gpu, f"several GPUs of {name} on {platform}"
    for kernel, label in here.kernels.items():
        yield label, f"{name} on {platform} with the kernel {kernel}"


def parse_override(text: str) -> dict[tuple[str, str], str]:
    """Labels by family and platform ("" for each) of the organisation's variable; "" as label: no runner.

    Raises `InvalidData` naming the variable for text that is no such JSON.
    """
    if not text.strip():
        return {}
    example = '{"FAMILY": "LABEL"} or {"FAMILY": {"linux": "LABEL"}}'
    try:
        values = msgspec.json.decode(text, type=dict[str, str | dict[str, str]])
    except msgspec.MsgspecError as error:
        raise InvalidData(
            f"{OVERRIDE} is not JSON of families and labels: {error}",
            where=OVERRIDE,
            next_step=f"write {example}",
        ) from error
    found: dict[tuple[str, str], str] = {}
    for family, said in values.items():
        for platform, label in ({"": said} if isinstance(said, str) else said).items():
            if platform and platform not in PLATFORMS:
                raise InvalidData(
                    f"{OVERRIDE} gives {family} a runner on {platform!r}; platforms: {' '.join(PLATFORMS)}",
                    where=OVERRIDE,
                    next_step=f"write {example}",
                )
            found[family, platform] = label.strip()
    return found


class Runners(msgspec.Struct, frozen=True):
    """The rows, and the labels that take the place of theirs (`parse_override`).

    Raises `InvalidData` for labels of a family that has no row.
    """

    rows: tuple[FamilyRow, ...]
    override: Mapping[tuple[str, str], str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        names = {row.name for row in self.rows}
        unknown = sorted({family for family, _ in self.override} - names)
        if unknown:
            raise InvalidData(
                f"{OVERRIDE} names {', '.join(unknown)}, which the pipeline does not build",
                where=OVERRIDE,
                next_step=f"families: {' '.join(sorted(names))}",
            )

    def row(self, family: str) -> FamilyRow | None:
        """The row of a family; the last one of the name, so that an overlay can replace one."""
        return next((row for row in reversed(self.rows) if row.name == family), None)

    def on(self, family: str, platform: str) -> OnPlatform | None:
        """A family on a platform, with the labels that the organisation gave; None where it is not built."""
        row = self.row(family)
        here = None if row is None else row.on(platform)
        label = self.override.get((family, platform), self.override.get((family, "")))
        if here is None or label is None:
            return here
        return msgspec.structs.replace(here, pools=(Pool(label),) if label else ())

    def tier_families(self, platform: str, tier: Tier) -> tuple[str, ...]:
        """Families of a tier and of those before it that are built on a platform, in the table's order."""
        tiers = TIERS[: TIERS.index(tier) + 1]
        names = dict.fromkeys(row.name for row in self.rows)
        rows = [row for name in names if (row := self.row(name)) is not None]
        return tuple(row.name for row in rows if row.tier in tiers and row.on(platform) is not None)

    def runner_of(
        self, family: str, platform: str, tier: Tier = "nightly", seed: str = "", bump: bool = True
    ) -> tuple[str, str]:
        """The label of a machine for the tests of a family, and why there is none.

        Of several pools `seed` (a run's id) chooses one by weight, the same for the same seed. `bump` says
        whether ROCm itself changed.
        """
        here = self.on(family, platform)
        if here is None:
            return "", f"{family} is not tested on {platform}"
        if not here.pools:
            return "", f"there is no runner for {family} on {platform}"
        if here.nightly_only and tier != "nightly":
            return "", f"{family} is tested on {platform} in nightly runs only"
        if here.bump_only and not bump:
            return "", f"{family} is tested on {platform} only where ROCm changed"
        return _chosen(here.pools, f"{seed}/{platform}/{family}"), ""

    def untested(self, family: str, platform: str) -> bool:
        """Whether a release waits for tests that no runner can do, and no bypass stands for."""
        here = self.on(family, platform)
        return here is None or not (here.pools or here.bypass)

    def multi_gpu_of(self, family: str, platform: str) -> str:
        """The label of a machine with several GPUs; "" for none.

        Of an organisation's own machines nobody says how many they have.
        """
        here = self.on(family, platform)
        own = (family, platform) in self.override or (family, "") in self.override
        return "" if here is None or own else here.multi_gpu

    def of_run(
        self, tier: Tier, seed: str = "", *, bump: bool = True
    ) -> Callable[[str, str], tuple[str, str]]:
        """`runner_of` for the cells of one run."""
        return lambda family, platform: self.runner_of(family, platform, tier, seed, bump)

    def bypass_of(self, family: str, platform: str) -> Bypass | None:
        """Why a release need not wait for this family's tests; None where it must."""
        here = self.on(family, platform)
        return None if here is None else here.bypass

    def unsupported(self, family: str, platform: str, ref: str) -> bool:
        """Whether a branch of PyTorch is known not to support a family."""
        here = self.on(family, platform)
        return here is not None and any(fnmatchcase(ref, pattern) for pattern in here.without_refs)


def _chosen(pools: Sequence[Pool], seed: str) -> str:
    """The same pool for the same seed; over many seeds each as often as its weight says."""
    total = sum(pool.weight for pool in pools)
    point = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") % total
    for pool in pools:
        point -= pool.weight
        if point < 0:
            return pool.label
    raise AssertionError("weights add up to the total")
