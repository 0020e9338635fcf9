"""Whether the index that a plan takes ROCm from has what the plan builds for, before anything is begun."""

from __future__ import annotations

from collections.abc import Callable

from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.errors import InvalidInput, RocwrightError, Unreachable
from rocwright.model.gpu import Families
from rocwright.model.plan import Group, Plan
from rocwright.pipeline.steps.index import index_address, rocm_offered, what_lacks
from rocwright.store.adopt.offered import SetChoice
from rocwright.store.adopt.pages import Reading
from rocwright.system.http import Refused, Web


def require_offered(plan: Plan, overlay: Overlay | None = None, *, note: Callable[[str], None]) -> None:
    """Raise `InvalidInput` naming every group of the plan that the index or page has no ROCm for.

    An index that cannot be reached now is noted. ROCm from elsewhere is looked at when it is there.
    """
    rocm = plan.rocm
    if not rocm.by_others:
        return
    families = load_table("families", Families, overlay)
    read: dict[str, Reading | RocwrightError] = {}

    def problem(group: Group) -> str:
        try:
            address = index_address(rocm, group.families)
        except InvalidInput as error:
            return error.what
        if address not in read:
            read[address] = _read(web, plan, address)
        index = read[address]
        if isinstance(index, RocwrightError):
            return index.what
        version, platform = rocm.version or None, group.platform or "linux"
        wanted = SetChoice("rocm", version, platform=platform, targets=group.targets)
        return what_lacks(index, wanted, families)

    with Web(pauses=(0.5,)) as web:
        try:
            found = {group: problem(group) for group in plan.groups}
        except Unreachable as error:
            note(f"warning: whether ROCm is there for all of this cannot be asked now: {error.what}")
            return
    lines = [f"{group.name} on {group.platform}: {why}" for group, why in found.items() if why]
    if lines:
        raise InvalidInput(
            "ROCm is not there for what is to be built:\n" + "\n".join(f"  - {line}" for line in lines),
            where=rocm.at,
            next_step="leave these families or the platform out, or say where else ROCm comes from: --rocm",
        )


def _read(web: Web, plan: Plan, address: str) -> Reading | RocwrightError:
    """What is offered there, or why nothing is; raises `Unreachable` where that cannot be known now."""
    try:
        return rocm_offered(web, plan.rocm, address)
    except Refused as error:
        if error.status in (404, 410):
            return error
        raise
    except InvalidInput as error:
        return error
