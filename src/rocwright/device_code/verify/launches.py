"""Compare what a library launches with what its code defines, where archives do not name a build."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rocwright.device_code.kernels import strange_wrapper
from rocwright.device_code.verify.report import FindingLog

# (an archive's name, a library's, a wrapper's number) → the kernels that the code for it defines; None where
# they cannot be read.
Kernels = dict[tuple[str, str, int], frozenset[str] | None]


def gather(kernels: Kernels, more: Kernels) -> None:
    """Join what code objects define; one that cannot be read leaves all of its wrapper unknown."""
    for key, names in more.items():
        before = kernels.get(key, frozenset())
        kernels[key] = None if before is None or names is None else before | names


def check_launches(
    library: tuple[str, str],
    launches: Mapping[int, frozenset[str]],
    archives: Sequence[str],
    kernels: Kernels,
    log: FindingLog,
) -> None:
    """Report archives of another build than a library, by its name in messages and that in archives.

    `launches` are the kernels that it registers, by wrapper; `archives` those with code of it that name no
    build. Not every target needs to have all kernels: what a library leaves out there, it does not launch.
    """
    name, kernel = library
    defined = {key: names for key, names in kernels.items() if key[0] in archives and key[1] == kernel}
    registered = frozenset[str]().union(*launches.values())
    known = [names for names in defined.values() if names is not None]
    lacking = sorted(registered - frozenset().union(*known))
    if not lacking or not known:
        return
    some = f"{len(lacking)} of {len(registered)} kernels that it launches, such as {lacking[0]}"
    whole = len(known) == len(defined)
    if whole and len(lacking) == len(registered):
        for archive in archives:
            log.add("kpack-stranger", archive, f"{name} finds none of {some}, in it")
        return
    by_wrapper: defaultdict[int, list[frozenset[str] | None]] = defaultdict(list)
    for (_, _, number), names in defined.items():
        by_wrapper[number].append(names)
    strange = strange_wrapper(launches, by_wrapper)
    if strange is not None:
        for archive in [archive for archive, _, number in defined if number == strange.number]:
            cause = (
                f"for wrapper {strange.number} of {name} it defines {strange.defined}, and {strange.launched}"
            )
            log.add("kpack-stranger", archive, f"{cause} is launched")
    elif whole:
        log.add("kpack-launch", name, f"no archive that is here defines {some}")
