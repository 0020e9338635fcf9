"""What a result under an emulator says: right, refused, wrong, or wrong where the emulator is known to be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from rocwright.emulator.calibrate import WRONG, Calibration
from rocwright.emulator.values import EmulatorTable
from rocwright.model.patterns import fits

# `unsure`: it is wrong, and the emulator is wrong about something that it rests on.
EmulatedVerdict = Literal["right", "refused", "wrong", "unsure"]
Shown = Literal["right", "refused", "wrong"]


class Judgement(msgspec.Struct, frozen=True):
    """A verdict with the operations of the calibration that speak for it, and a sentence for people."""

    verdict: EmulatedVerdict
    because: tuple[str, ...] = ()
    says: str = ""


def rests_on(name: str, table: EmulatorTable) -> tuple[str, ...]:
    """The operations of the calibration that an operator, a test or a kernel of this name rests on."""
    found: dict[str, None] = {}
    for row in table.rests:
        if fits(name.lower(), row.names):
            found.update(dict.fromkeys(row.on))
    return tuple(found)


def judge(
    name: str, shown: Shown, calibration: Calibration | None, table: EmulatorTable, on: Sequence[str] = ()
) -> Judgement:
    """What it says that `name` came out as `shown`; `on` are operations it rests on beside the table's.

    Without a calibration it is not known whose fault something wrong or refused is.
    """
    operations = tuple(dict.fromkeys((*rests_on(name, table), *on)))
    if shown == "right":
        return Judgement("right", (), table.verdict["right"])
    if calibration is None:
        return Judgement("unsure", (), table.verdict["uncalibrated"])
    failed = tuple(one for one in operations if calibration.state_of(one) in WRONG)
    if failed:
        return Judgement("unsure", failed, table.verdict["unsure"])
    return Judgement(shown, (), table.verdict[shown])
