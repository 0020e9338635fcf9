"""The plugin of skip entries under the oldest pytest that it is for, and under others than this Python's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from unit.gputest.skips.skips_suite import EXPECTED, run_suite


@pytest.mark.parametrize("version", ["7.1.3", "8.4.2", "9.0.2"])
def test_entries_apply_under_every_pytest(tmp_path, version):
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True, timeout=120)
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"pytest=={version}"]
    subprocess.run(install, check=True, timeout=300)
    found, printed, _ = run_suite(str(python), tmp_path)
    assert found == EXPECTED
    assert f"pytest-{version}" in printed
    assert "skip entries: 1 hang, 1 skip, 5 xfail, 1 flaky" in printed
