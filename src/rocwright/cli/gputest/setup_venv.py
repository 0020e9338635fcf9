"""`rocwright test setup-venv`."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.options import OutputDir, Repeated, Text, meant_index
from rocwright.cli.reply import Reply, replies
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.gputest.install import INDEX_WAIT_S, RETRY_EVERY_S, Install, links_pages, package_words
from rocwright.gputest.setup_venv import Made, VenvRequest, activate_in_steps
from rocwright.gputest.setup_venv import setup_venv as setup
from rocwright.model.gpu import Families
from rocwright.model.indexes import IndexTable
from rocwright.model.project import TORCH
from rocwright.pipeline.options import default_cache
from rocwright.system import console, files
from rocwright.system.redact import without_login

_Pages = Annotated[
    tuple[str, ...],
    Parameter(name=("--find-links", "--find-links-url"), negative_iterable=(), show_default=False),
]
_Flag = Annotated[bool, Parameter(negative=())]


@replies
def gputest_setup_venv(
    venv_dir: Annotated[OutputDir, Parameter(name="VENV_DIR")],
    /,
    *,
    packages: Repeated = (),
    index_url: str | None = None,
    index_name: Text = "",
    index_subdir: Text = "",
    find_links: _Pages = (),
    pre: _Flag = False,
    python: Text = "",
    use_uv: _Flag = False,
    clean: _Flag = False,
    disable_cache: _Flag = False,
    install_retry_timeout_seconds: float = INDEX_WAIT_S,
    install_retry_wait_between_seconds: float = RETRY_EVERY_S,
    activate_in_future_github_actions_steps: _Flag = False,
    config: Path | None = None,
) -> Reply:
    """Make a virtual environment with the wheels under test, or install them into an existing one.

    An index that does not show an upload yet is tried again. Where an index is named, only it and the given
    pages are used; without one, the pages are used in addition to the user's own index.

    Parameters
    ----------
    venv_dir
        The environment. A directory that is not an environment is refused.
    packages
        What is installed, separated by spaces: "torch[device-gfx942]==2.13.0 pytest". May be given several
        times.
    index_url
        Index to install from, instead of the user's own. Empty (--index-url=): none, and source packages are
        built with what the environment holds.
    index_name
        The index by its name: stable, prerelease, nightly, dev, an older one such as nightly-per-family, or
        one of rocwright.toml. A GPU is an extra there: torch[device-gfx942].
    index_subdir
        Directory below the index, such as a family of GPUs: gfx94X-dcgpu. With --index-name, the older index
        that has such directories is meant.
    find_links
        A further page or directory with packages; may be given several times: ROCm from one, PyTorch from
        another.
    pre
        Accept pre-releases.
    python
        Version or path of the Python to make it with (default: the one this runs in).
    use_uv
        Install with uv; a new environment has no pip then.
    clean
        Make it anew. Only an environment is removed, never one with other files in it.
    disable_cache
        Neither use nor keep cached downloads.
    install_retry_timeout_seconds
        Seconds that an index may take to show what was just uploaded; 0 tries once.
    install_retry_wait_between_seconds
        Seconds between two tries.
    activate_in_future_github_actions_steps
        Write $GITHUB_PATH and VIRTUAL_ENV into $GITHUB_ENV, for the later steps of the job.
    config
        A rocwright.toml with further indexes (default: that of the current directory, if there is one).
    json
        Print the result as JSON.
    """
    if install_retry_timeout_seconds < 0 or install_retry_wait_between_seconds <= 0:
        raise UsageError(
            "the time to wait for an index is negative, or there is no pause between two tries",
            next_step="wait 0 or more seconds in all, and more than 0 between two tries",
        )
    index = meant_index(index_url, index_name, index_subdir, config=config)
    wanted = VenvRequest(
        venv_dir.expanduser().absolute(),
        Install(
            package_words(packages),
            index,
            links_pages(find_links),
            pre=pre,
            cache=not disable_cache,
            uv=use_uv,
            wait_s=install_retry_timeout_seconds,
            every_s=install_retry_wait_between_seconds,
        ),
        python=python.strip(),
        clean=clean,
    )
    _tell_places(wanted.install, index_subdir, config)
    log = default_cache() / "log" / "setup-venv.log"
    files.make_directory(log.parent)
    files.write_text(log, "")
    made = setup(wanted, log=log, note=console.say)
    if activate_in_future_github_actions_steps:
        for name in activate_in_steps(wanted.root):
            console.say(f"warning: ${name} is not set, so later steps do not see the environment")
    return _made_reply(made)


def _tell_places(install: Install, subdir: str, config: Path | None) -> None:
    families = load_table("families", Families, read_overlay(config)).families
    near = get_close_matches(subdir, families, n=1) if subdir and subdir.strip("/") not in families else []
    if near:
        console.say(f"note: {subdir} is not a known family; perhaps {near[0]}")
    if not install.packages:
        return
    places = [*filter(None, [install.index]), *install.find_links]
    own = ["your own index"] if install.index is None else []
    console.say(f"installing {' '.join(install.packages)} from {without_login(', '.join([*own, *places]))}")
    row = load_table("indexes", IndexTable, read_overlay(config)).at(install.index or "")
    projects = {re.split(r"[\[=<>!~;]", word)[0] for word in install.packages}
    chosen = any("device-" in word for word in install.packages)
    if row and row.extras and not chosen and not projects.isdisjoint(("rocm", TORCH)):
        console.say(
            f"note: in {row.name} code for GPUs is apart: name the extra of yours, as in torch[device-TARGET]"
        )
    if own and places:
        console.say(
            "note: newer packages on your own index win; name exact versions, or give --index-url= for none"
        )


def _made_reply(made: Made) -> Reply:

    def show() -> None:
        rows = [("environment", f"{made.environment} ({'new' if made.created else 'already there'})")]
        rows += [
            ("python", made.version),
            ("activate", f". {made.environment}/bin/activate"),
            ("log", made.log),
        ]
        console.table("Environment", ("what", "is"), rows)
        if made.installed:
            console.table("Installed", ("project", "version"), list(made.installed.items()))

    return Reply(made, show)
