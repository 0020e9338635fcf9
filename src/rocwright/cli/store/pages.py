"""`rocwright store index | landing`: pages of packages for installers and for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.reply import Reply, replies
from rocwright.cli.store.options import StoreOptions
from rocwright.errors import UsageError
from rocwright.store.index.landing import write_landing
from rocwright.store.runs.upload import folder_page, write_folder_page
from rocwright.system import console


def _refuse_verbose(given: Mapping[str, object]) -> None:
    if given["verbose"]:
        raise UsageError("--json and --verbose contradict each other", next_step="give one of them")


@replies(refuse=_refuse_verbose)
def store_index(
    *folders: Path,
    patterns: Annotated[
        tuple[str, ...],
        Parameter(name=("--filter", "-f"), consume_multiple=True, negative=(), show_default=False),
    ] = (),
    output_file: Annotated[Path | None, Parameter(name=("--output-file", "-o"))] = None,
    recursive: Annotated[bool, Parameter(name=("--recursive", "-r"))] = False,
    verbose: Annotated[bool, Parameter(name=("--verbose", "-v"))] = False,
) -> Reply:
    """Write index.html for the packages in folders: what `pip install --find-links FOLDER/index.html` takes.

    Of several folders the packages stand on one page, which lies in the first of them.

    Parameters
    ----------
    folders
        Folders of wheels and sdists (default: the current one).
    patterns
        Names to list, such as "*.whl" "*.tar.gz" (default: every wheel and sdist).
    output_file
        The page; a name without a directory is one in the first folder.
    recursive
        List packages of the folders below, too.
    verbose
        Say which files are listed, and which ones are no packages.
    json
        Print the result as JSON.
    """
    page = folder_page(folders or (Path(),), patterns, output_file, recursive=recursive)
    write_folder_page(page)

    def show() -> None:
        if verbose:
            for entry in page.files:
                console.say(f"listed: {entry.name}")
            for path in page.ignored:
                console.say(f"no package: {path.name}")
        console.out(f"{page.path}: {len(page.files)} files")

    return Reply({"page": str(page.path), "files": page.files, "ignored": list(map(str, page.ignored))}, show)


_DEFAULTS = StoreOptions()


@replies
def store_landing(
    *channels: str,
    options: StoreOptions = _DEFAULTS,
) -> Reply:
    """Write the page that shows people which line installs what: CHANNEL/index.html, and the same as JSON.

    Publishing writes it too; this brings it into line when the address of the store has changed
    (ROCWRIGHT_PUBLIC_URL). A page that is right already is not written again.

    Parameters
    ----------
    channels
        Channels, by name or prefix (default: all).
    json
        Print the keys of what was written as JSON.
    """
    table = options.channels()
    chosen = [table.named(name) for name in channels] if channels else list(table.channel)
    store = options.opened()
    written = [key for channel in chosen for key in write_landing(store, channel)]

    def show() -> None:
        for key in written:
            console.out(store.url(key))
        if not written:
            console.say("every page is right already")

    return Reply({"written": written}, show)
