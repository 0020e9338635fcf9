"""Ask one tree's rocwright what it finds in sets of files: lines of JSON in, lines of JSON out.

Run with that tree on PYTHONPATH, so that a set can be shown to two of them, and with the folder of the good
set as its argument: what was read of its files is kept, since most files of a sample are among them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rocwright.check.context import Request
from rocwright.check.contract import ContractTable
from rocwright.check.facts import Facts
from rocwright.check.gather import gather_all
from rocwright.check.run import expand, judge
from rocwright.data import load_table


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
        report = judge(files, request=request, contract=contract, findings=findings)
        errors = sorted({finding.rule for finding in report.findings if finding.severity == "error"})
        print(json.dumps(errors), flush=True)


main()
