"""Rules about an import of torch that was tried: did it work, and with whose libraries?"""

from __future__ import annotations

from collections.abc import Iterator

from rocwright.compat.doctor.explain import explain
from rocwright.compat.doctor.facts import Case
from rocwright.compat.doctor.rules.libraries import is_own
from rocwright.compat.doctor.values import Finding

_SHOWN = 3


def imports(case: Case) -> Iterator[Finding]:
    """Whether torch can be imported; else why not."""
    if case.imported is None or case.environment is None or case.environment.torch is None:
        return
    if case.imported.version is not None and not case.imported.ended:
        detail = f"torch {case.imported.version} can be imported"
        yield Finding("import", "ok", detail, section="environment")
        return
    cause, step = explain(case, case.imported)
    yield Finding("import", "wrong", cause, step, section="environment")


def loaded(case: Case) -> Iterator[Finding]:
    """Whether the libraries that the process then had are the environment's."""
    if case.imported is None or not case.imported.loaded:
        return
    foreign = [path for path in case.imported.loaded if not is_own(path, case)]
    if foreign:
        more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
        detail = f"loaded from outside of the environment: {', '.join(foreign[:_SHOWN])}{more}"
        names = [name for name in ("LD_LIBRARY_PATH", "LD_PRELOAD") if case.machine.variables.get(name)]
        step = (
            f"unset {' '.join(names)}" if names else "look at ldconfig -p, and take the directory out of it"
        )
        yield Finding("loaded", "wrong", detail, step, section="environment")
