"""A run that is begun again, elsewhere or in another process, knows its results again: every kind of cell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocwright.pipeline.steps.of_cell import _OWN


@pytest.mark.slow
def test_every_cell_has_the_same_inputs_in_any_process_and_directory(tmp_path: Path) -> None:
    found = []
    for seed, name in (("1", "here"), ("2", "some-where-else")):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        program = [sys.executable, "-m", "unit.pipeline.cells.digests", str(tmp_path / name)]
        done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    first, second = found
    assert [id_ for id_ in first if first[id_] != second.get(id_)] == []
    assert first.keys() == second.keys()
    kinds = {id_.split()[1].partition("/")[0] for id_ in first}
    assert {*_OWN, "summary", "build-torch"} <= kinds, "no kind is left out"
    # Equal because they are known, not because nothing is looked at.
    assert len({first[id_] for id_ in first if id_.startswith("plain ")}) == len(
        [id_ for id_ in first if id_.startswith("plain ")]
    )
