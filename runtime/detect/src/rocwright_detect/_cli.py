"""`rocwright-detect`: print the GPUs of this machine and the lines that install PyTorch for them."""

import argparse
import os
import sys

from ._answer import answer, show, text_of
from ._install import KINDS
from ._table import INDEXES


def main(arguments=None):
    """Exit status: 0 all GPUs are identified and served, 1 none, 2 usage, 3 one is not, 5 no index."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        report = answer(
            root=options.root,
            text=text_of(options.from_windows),
            targets=options.target or (),
            **_index(options),
            torch=options.torch,
            pre=options.pre,
            python=options.python,
            offline=options.offline,
        )
    except (OSError, ValueError) as error:
        parser.error(str(error))
    try:
        if options.json:
            import json

            print(json.dumps(report, indent=2))
        else:
            show(report)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away (| head); that is no error, and Python shall not find out again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return report["exit_status"]


def _index(options):
    if not options.index_name:
        return {"index": options.index, "kind": options.kind}
    if options.index:
        raise ValueError("--index and --index-name both say where packages are: give one of them")
    address, kind = INDEXES[options.index_name]
    return {"index": address, "kind": options.kind or kind}


def _parser():
    parser = argparse.ArgumentParser(
        prog="rocwright-detect",
        # Without a width argparse asks for the terminal's, by modules that take longer to load than all else.
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100),
        description="AMD GPUs of this machine, and the lines that install PyTorch for them.",
        epilog="exit status: 0 all identified, 1 no GPU, 2 usage, 3 a GPU is not known or has no packages, "
        "5 the index cannot be asked or is none",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--index", metavar="URL", help="ask this index (or directory), and print what installs torch from it"
    )
    parser.add_argument("--index-name", choices=sorted(INDEXES), help="ask AMD's index of this name")
    parser.add_argument("--offline", action="store_true", help="print the lines without asking the index")
    parser.add_argument(
        "--kind",
        choices=KINDS,
        help="multi-arch: an extra for each target; family: a directory for each family (default: as the "
        "index is; with --offline: multi-arch)",
    )
    parser.add_argument("--python", metavar="VERSION", help="for this Python, as 3.12 (default: this one)")
    parser.add_argument("--torch", metavar="VERSION", help="this version: 2.9 or 2.9.0")
    parser.add_argument("--pre", action="store_true", help="the index holds pre-releases (nightlies)")
    parser.add_argument(
        "--target", action="append", metavar="TARGET", help="for this target instead of this machine's GPUs"
    )
    parser.add_argument(
        "--from-windows", metavar="FILE", help="text with PnP device ids of display adapters (- is stdin)"
    )
    parser.add_argument("--root", default="/", metavar="DIR", help="look at the /sys and /dev below DIR")
    return parser
