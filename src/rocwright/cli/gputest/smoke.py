"""`rocwright test smoke`, also known as `run_pytorch_smoke_tests.py`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from rocwright.cli.emulate import EMULATE, Emulate
from rocwright.cli.gputest.emulate import require_alone, smoke_emulated
from rocwright.cli.gputest.options import GPUS, OUTPUT, Gpus, Output
from rocwright.cli.gputest.show import end, records_reply, runs_reply
from rocwright.cli.options import Files, OptionalAmount, Place
from rocwright.cli.reply import Reply, replies
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.gputest.devices import parse_wanted, probe, select
from rocwright.gputest.environment import fresh_cache
from rocwright.gputest.isolate.plan import check_arguments
from rocwright.gputest.isolate.run import Teller, run_recorded
from rocwright.gputest.setting import shown_facts
from rocwright.gputest.skips.entries import load_entries
from rocwright.gputest.smoke import (
    SmokeSetting,
    chosen,
    plan_smoke,
    shown_smoke,
    smoke_tests,
)
from rocwright.model.platforms import this_platform
from rocwright.model.testing import TorchFacts
from rocwright.system import console
from rocwright.system.days import today
from rocwright.system.interpreters import find_python


@replies(within="output")
def gputest_smoke(
    *pytest_args: str,
    python: Place = None,
    gpus: Gpus = GPUS,
    skips: Files = (),
    test_timeout: OptionalAmount = None,
    emulate: Emulate = EMULATE,
    compiler: Place = None,
    output: Output = OUTPUT,
) -> Iterator[Reply]:
    """Run the smoke tests against the installed torch: on the host, then on each architecture's first GPU.

    They need nothing but torch and pytest, and run alone, too: `pytest -v smoke-tests`. Without a GPU nothing
    runs, and the command ends with 1; --cpu runs the tests of the host alone. Ends as pytest does: 0 passed,
    1 failed, 2 a mistake in the options or stopped before the end, 5 nothing ran.

    With --emulate the tests of the GPU run on one that an emulator plays, of a target that it has a
    configuration for. Where there is no torch, ROCm's packages test themselves there (`rocm-sdk test
    --device`), and operators of an onnxruntime for ROCm are compared with those of its CPU provider. The
    emulator is calibrated first: what fails where it is known to be wrong is skipped. A run in which no
    kernel was executed has failed.

    Parameters
    ----------
    pytest_args
        Options for pytest, behind `--`: `-- --log-cli-level=INFO -v`.
    python
        The interpreter, or the environment, that torch is installed in (default: the one that runs this).
    skips
        A TOML file with skip entries; may be given several times.
    test_timeout
        Seconds that one test may take (default: 300).
    compiler
        With --emulate, the hipcc that builds the calibration, which is asked anew then (default: that of the
        ROCm, or the one on PATH; its answers are kept).
    """
    table = output.table()
    test_s = table.limits.smoke_s if test_timeout is None else test_timeout
    if test_s <= 0:
        raise UsageError(f"a test cannot end within {test_s:g} seconds", next_step="give more than 0")
    check_arguments(pytest_args)
    parse_wanted(gpus.amdgpu_family, output.families())
    require_alone(emulate, gpus)
    entries = load_entries(skips, read_overlay(output.config))
    if emulate.emulate:
        asked = SmokeSetting(
            python=Path(sys.executable),
            facts=TorchFacts(""),
            platform=this_platform(),
            test_s=test_s,
            reports=output.reports,
            miopen_cache=Path(),
            inherited=os.environ,
            today=today(),
            pytest_args=pytest_args,
            entries=entries,
        )
        yield from smoke_emulated(emulate, asked, table, output, python, compiler)
        return
    interpreter = find_python(python, sys.executable)
    facts = probe(interpreter, drop_env=table.environment.removed, note=console.say)
    console.say(shown_facts(facts))
    groups = (
        ()
        if gpus.cpu
        else select(
            facts,
            gpus.amdgpu_family,
            output.families(),
            query=gpus.device_query,
            policy=gpus.gpu_policy,
            generic=output.generic(),
        )
    )
    with fresh_cache() as cache:
        setting = SmokeSetting(
            python=interpreter,
            facts=facts,
            platform=this_platform(),
            test_s=test_s,
            reports=output.reports,
            miopen_cache=Path(cache),
            inherited=os.environ,
            today=today(),
            pytest_args=pytest_args,
            entries=entries,
        )
        runs = plan_smoke(smoke_tests(), setting, groups, table, output.families())
        if output.dry_run:
            yield runs_reply([shown_smoke(run) for run in runs])
            return
        records = []
        for run in runs:
            console.say(f"{run.ran.key}: {', '.join(run.isolation.files)}")
            teller = Teller.of(console.say, pytest_args)
            records.append(run_recorded(run.ran, run.isolation, run.directory, teller))
    kept = chosen(records)
    yield records_reply(kept, output.reports_dir)
    end(kept, output.reports_dir)
