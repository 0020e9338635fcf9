"""`rocwright-detect`: print the GPUs of this machine and the lines that install PyTorch for them."""

import argparse
import os
import sys

from ._answer import answer, show, text_of
from ._install import KINDS
from ._table import INDEXES


def main(arguments=None):
    """Exit status: 0 all GPUs are identified and served, 1 none, 2 usage, 3 one is not, 5 no index."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == ["view"]:
        return _view(arguments[1:])
    parser = _parser()
    options = parser.parse_args(arguments)

    def found():
        return answer(
            **_machine(options),
            **_index(options),
            torch=options.torch,
            pre=options.pre,
            python=options.python,
            offline=options.offline,
        )

    return _told(parser, options.json, found, show)


def _view(arguments):
    # It loads what talks to servers.
    from . import _view as view

    parser = _view_parser()
    options = parser.parse_args(arguments)

    def found():
        return view.answer(options.index, options.directory, **_machine(options))

    return _told(parser, options.json, found, view.show)


def _machine(options):
    return {
        "root": options.root,
        "text": text_of(options.from_windows),
        "targets": options.target or (),
    }


def _told(parser, as_json, find, show_found):
    """Print what is found; what cannot be used is a mistake in the options."""
    try:
        report = find()
    except (OSError, ValueError) as error:
        parser.error(str(error))
    try:
        if as_json:
            import json

            print(json.dumps(report, indent=2))
        else:
            show_found(report)
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
    parser = _new_parser(
        "rocwright-detect",
        "AMD GPUs of this machine, and the lines that install PyTorch for them. "
        "`rocwright-detect view INDEX` makes a view of an index, from which uv takes the right device.",
        "a GPU is not known or has no packages",
    )
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
    return parser


def _view_parser():
    parser = _new_parser(
        "rocwright-detect view",
        "Write a view of an index with wheel variants for this machine: a small directory of pages that "
        "lead to the index's files, and say which GPUs there are. Prints the line for uv.",
        "a GPU is not known or has no variants",
    )
    parser.add_argument("index", metavar="INDEX", help="address of the index, or a directory")
    parser.add_argument(
        "--directory",
        default="rocwright-view",
        metavar="DIR",
        help="where to write it; an earlier view is replaced (default: rocwright-view)",
    )
    return parser


def _new_parser(name, description, not_served):
    parser = argparse.ArgumentParser(
        prog=name,
        # Without a width argparse asks for the terminal's, by modules that take longer to load than all else.
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100),
        description=description,
        epilog=f"exit status: 0 all identified, 1 no GPU, 2 usage, 3 {not_served}, "
        "5 the index cannot be asked or is none",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--target", action="append", metavar="TARGET", help="for this target instead of this machine's GPUs"
    )
    parser.add_argument(
        "--from-windows", metavar="FILE", help="text with PnP device ids of display adapters (- is stdin)"
    )
    parser.add_argument("--root", default="/", metavar="DIR", help="look at the /sys and /dev below DIR")
    return parser
