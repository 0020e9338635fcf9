"""The command line, in this process."""

from __future__ import annotations

import pytest

from rocwright import cli


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    try:
        cli.main(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    else:
        code = 0
    said = capsys.readouterr()
    return code, said.out, said.err
