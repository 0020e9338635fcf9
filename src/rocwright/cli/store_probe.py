"""`rocwright store probe`."""

from __future__ import annotations

from collections.abc import Iterator

from rocwright.cli.answer import Answer, answers
from rocwright.cli.store_options import StoreOptions
from rocwright.errors import InvalidInput
from rocwright.store.objects.probe import probe
from rocwright.system import console

_DEFAULTS = StoreOptions()
_WORDS = {True: "yes", False: "no", None: "-"}


@answers
def store_probe(
    *,
    options: StoreOptions = _DEFAULTS,
) -> Iterator[Answer]:
    """Try what a store honours (creation only, parts, headers, its clock), and say what that means.

    Writes a few objects below _probe/, 5 MB in all, and removes them. Exit code 0 when the store does all
    that publishing needs, 3 otherwise.

    Parameters
    ----------
    options
        The store.
    json
        Print the result as JSON.
    """
    found = probe(options.opened(new=True))

    def show() -> None:
        rows = [(one.id, _WORDS[one.holds], one.means) for one in found.findings]
        console.table(found.place, ("what", "holds", "so"), rows)

    yield Answer(found, show)
    if found.missing:
        raise InvalidInput(
            f"nothing can be published to {found.place}: it lacks {', '.join(found.missing)}",
            next_step="use another server, or another setting of this one",
        )
