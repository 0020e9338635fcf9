"""Torch's smoke tests of a GPU on one that an emulator plays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from rocwright.emulator.session import emulated
from rocwright.gputest.devices import probe, select
from rocwright.gputest.emulated.played import Played
from rocwright.gputest.environment import fresh_cache
from rocwright.gputest.isolate.run import Teller, run_recorded
from rocwright.gputest.setting import shown_facts
from rocwright.gputest.smoke import SmokeSetting, plan_smoke
from rocwright.model.emulated import Emulated
from rocwright.model.suites import SuiteTable
from rocwright.model.testing import CaseResult, RunRecord

Families = Mapping[str, tuple[str, ...]]


def test_torch(
    played: Played,
    tests: Path,
    setting: SmokeSetting,
    table: SuiteTable,
    families: Families,
    generic: Families,
    *,
    say: Callable[[str], None],
) -> list[RunRecord]:
    """The records of the tests in `tests`; torch is asked in one session of the emulator, tested in another.

    `setting` is that of a run on a GPU, without what torch says. Raises what `probe` and `select` raise.
    """
    with emulated(played.emulator, played.target, played.runtime) as session:
        facts = probe(
            setting.python,
            env=session.env,
            drop_env=(*table.environment.removed, *session.drop_env),
            before=session.words(()),
            note=say,
        )
    say(shown_facts(facts))
    groups = select(facts, played.target, families, generic=generic)
    records = []
    with fresh_cache() as cache, emulated(played.emulator, played.target, played.runtime) as session:
        here = msgspec.structs.replace(setting, facts=facts, miopen_cache=Path(cache), session=session)

        def weigh(results: tuple[CaseResult, ...]) -> tuple[tuple[CaseResult, ...], Emulated]:
            record = session.record()
            return played.weighed(results, record), record

        for run in plan_smoke(tests, here, groups, table, families):
            say(f"{run.ran.key}: {', '.join(run.isolation.files)}")
            teller = Teller.of(say, setting.pytest_args)
            records.append(
                run_recorded(run.ran, run.isolation, run.directory, teller, notes=played.notes, weigh=weigh)
            )
    return records
