"""`rocwright store index | landing | serve | verify | probe`: a store's pages for installers and people, to
write, serve and verify; and what the store itself honours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.options import Count, Port
from rocwright.cli.reply import Reply, replies
from rocwright.cli.store.options import StoreOptions
from rocwright.errors import InvalidInput
from rocwright.store.index.landing import write_landing
from rocwright.store.index.verify import ServedView, verify_served
from rocwright.store.objects.probe import probe
from rocwright.store.objects.protocol import beneath
from rocwright.store.objects.serve import ServedIndex, address_of, make_server, served_indexes, serving
from rocwright.store.runs.upload import folder_page, write_folder_page
from rocwright.system import console

_DEFAULTS = StoreOptions()


@replies
def store_index(
    *folders: Path,
    patterns: Annotated[
        tuple[str, ...],
        Parameter(name=("--filter", "-f"), consume_multiple=1, negative=(), show_default=False),
    ] = (),
    output_file: Annotated[Path | None, Parameter(name=("--output-file", "-o"))] = None,
    recursive: Annotated[bool, Parameter(name=("--recursive", "-r"))] = False,
) -> Reply:
    """Write index.html for the packages in folders: what `pip install --find-links FOLDER/index.html` takes.

    The packages of several folders go on one page, in the first of them. -v says which files are listed, and
    which are not packages.

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
    json
        Print the result as JSON.
    """
    page = folder_page(folders or (Path(),), patterns, output_file, recursive=recursive)
    write_folder_page(page)

    def show() -> None:
        for entry in page.files:
            console.detail(f"listed: {entry.name}")
        for path in page.ignored:
            console.detail(f"no package: {path.name}")
        console.out(f"{page.path}: {len(page.files)} files")

    return Reply({"page": str(page.path), "files": page.files, "ignored": list(map(str, page.ignored))}, show)


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
            console.say("every page is up to date")

    return Reply({"written": written}, show)


def _show_served(base: str, found: Sequence[ServedIndex]) -> None:
    console.out(base)
    for one in found:
        console.out(one.pip)
    for url in dict.fromkeys(one.page for one in found if one.page):
        console.say(f"in a browser: {url}")


@replies
def store_serve(
    *,
    options: StoreOptions = _DEFAULTS,
    port: Port = 8000,
) -> Iterator[Reply]:
    """Serve a store to pip, uv and browsers of this machine, until Ctrl-C.

    On 127.0.0.1 only, without encryption or login: to try what is published. Nothing is written.

    Parameters
    ----------
    options
        The store.
    port
        The port; 0 takes a free one.
    json
        Print the address and the indexes as JSON.
    """
    store, channels = options.opened(), options.channels()
    with make_server(beneath(store), port=port, max_age=channels.max_age) as server:
        base = address_of(server)
        found = served_indexes(store, channels, base)
        yield Reply({"url": base, "indexes": found}, lambda: _show_served(base, found))
        console.say("serving until Ctrl-C")
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            console.say("stopped")


@replies
def store_verify(
    place: str,
    /,
    *,
    options: StoreOptions = _DEFAULTS,
    threads: Count = 8,
) -> Iterator[Reply]:
    """Check an index as installers read it: every page and link, sizes and METADATA; no wheel is downloaded.

    HTML and JSON pages have to say the same, each with its Content-Type; of an index that rocwright did not
    write, only the HTML pages are checked. Exit code 6 when anything is wrong.

    Parameters
    ----------
    place
        The URL of an index, such as https://host/v2/gfx94X-dcgpu/; or a place in the store, such as
        v2/gfx94X-dcgpu/ or sets/ID/, which is then served on this machine during the check.
    options
        The store.
    threads
        Requests at the same time.
    json
        Print what was found as JSON.
    """
    with ExitStack() as stack:
        own = "://" not in place
        url = stack.enter_context(serving(beneath(options.opened()))) + place if own else place
        found = verify_served(url, threads=threads, own=own, note=console.say)
    yield Reply(found, lambda: _show_faults(found))
    found.require_sound(listed=0)


def _show_faults(found: ServedView) -> None:
    for fault in found.faults:
        console.out(f"{fault.url}: {fault.what}")
    console.out(f"{found.files} files on {found.pages} pages; faults: {len(found.faults)}")


_WORDS = {True: "yes", False: "no", None: "-"}


@replies
def store_probe(
    *,
    options: StoreOptions = _DEFAULTS,
) -> Iterator[Reply]:
    """Test what a store supports (create-only writes, parts, headers, its clock), and say what that means.

    Writes a few objects below _probe/, 5 MB in all, and removes them. Exit code 0 when the store does all
    that publishing needs, 3 otherwise.

    Parameters
    ----------
    options
        The store.
    json
        Print the result as JSON.
    """
    found = probe(beneath(options.opened(new=True)))

    def show() -> None:
        rows = [(one.id, _WORDS[one.holds], one.means) for one in found.findings]
        console.table(found.place, ("what", "holds", "so"), rows)

    yield Reply(found, show)
    if found.missing:
        raise InvalidInput(
            f"nothing can be published to {found.place}: it lacks {', '.join(found.missing)}",
            next_step="use another server, or another setting of this one",
        )
