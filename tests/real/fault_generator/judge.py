"""Ask one tree's rocwright what it finds in sets of files: lines of JSON in, lines of JSON out.

Run with that tree on PYTHONPATH, so that a set can be shown to two of them, and with the folder of the good
set and one for work as its arguments: what was read of the good files is kept, since most files of a sample
are among them. Else this is `rocwright check --set`, or with `--install`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from rocwright.check.context import Request
from rocwright.check.contract import ContractTable
from rocwright.check.facts import Facts
from rocwright.check.gather import gather_all
from rocwright.check.install import prove
from rocwright.check.run import Gathered, expand, judge
from rocwright.data import load_table
from rocwright.pipeline.check_set import serve_files


def main() -> None:
    good = [path.resolve() for path in expand([Path(sys.argv[1])])[0]]
    kept: dict[Path, Facts] = dict(zip(good, gather_all(good), strict=True))
    contract = load_table("contract", ContractTable)
    for line in sys.stdin:
        asked = json.loads(line)
        paths, findings = expand([Path(asked["folder"])])
        real = [path.resolve() for path in paths]
        new = [path for path in real if path not in kept]
        facts = {**kept, **dict(zip(new, gather_all(new), strict=True))}
        request = Request(closed=True, expect=tuple(asked["expect"]), targets=frozenset(asked["targets"]))
        files = tuple(facts[path] for path in real)
        installations = ()
        if asked["install"]:
            context = Gathered(files, (), request, contract, tuple(findings)).context
            with tempfile.TemporaryDirectory(dir=sys.argv[2]) as work:
                installations = prove(context, serve_files, Path(work), note=lambda _: None)
        report = judge(
            files, request=request, contract=contract, findings=findings, installations=installations
        )
        errors = sorted({finding.rule for finding in report.findings if finding.severity == "error"})
        print(json.dumps(errors), flush=True)


main()
