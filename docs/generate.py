"""Write the parts of the documentation that follow from the code: commands, errors, tables, rules.

It writes the files as well that follow from the tables of facts and ship without them.

``python docs/generate.py`` replaces, in every page, the text between ``<!-- generated: NAME -->`` and
``<!-- end -->``; everything else is written by hand. ``--check`` changes nothing and exits with 1 when a page
is stale, naming it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from blocks import commands, detect_table
from blocks.compat import render_detect_table
from blocks.every import BLOCKS
from blocks.growth import scale_files

DOCS = Path(__file__).resolve().parent
_BLOCK = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def regenerate(text: str) -> str:
    """A page with all its generated blocks as they should be; raises `KeyError` for an unknown block."""
    return _BLOCK.sub(lambda match: f"{match[1]}\n{BLOCKS[match['name']]().strip()}\n\n{match[3]}", text)


def pages() -> list[Path]:
    """Every page of the documentation, and the README where there is one."""
    found = [path for path in DOCS.rglob("*.md") if "_build" not in path.parts]
    return sorted([*found, *DOCS.parent.glob("README.md")])


# Files that are generated whole.
FILES = {
    DOCS.parent / "runtime" / detect_table.PATH: render_detect_table,
    DOCS.parent / commands.HELP: commands.render_help,
    **scale_files(),
}


def wanted_files() -> Iterator[tuple[Path, str, str]]:
    """Every page and generated file with its text as it is and as it should be."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        yield page, text, regenerate(text)
    for path, render in FILES.items():
        yield path, path.read_text(encoding="utf-8") if path.exists() else "", render()


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 when all pages are current (afterwards, without ``--check``), 1 for stale ones."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 for a stale page")
    check: bool = parser.parse_args(arguments).check
    stale = 0
    for page, text, wanted in wanted_files():
        if wanted == text:
            continue
        stale += 1
        name = page.relative_to(DOCS.parent)
        if check:
            print(f"{name} is stale; run: python docs/generate.py", file=sys.stderr)
        else:
            page.write_text(wanted, encoding="utf-8")
            print(f"wrote {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
