"""`rocwright hipify`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rocwright.cli.numbers import Count
from rocwright.cli.reply import Reply, replies
from rocwright.cli.show_sources import hipified_reply
from rocwright.cli.source_options import Cache, Head, Leave, project_table
from rocwright.sources.checkout import checked_out, found
from rocwright.sources.hipify import HipifiedTree
from rocwright.sources.hipify import hipify as hipify_tree
from rocwright.system import console

_HEAD, _LEAVE, _CACHE = Head(), Leave(), Cache()


@replies
def hipify(
    directory: Path,
    /,
    *,
    head: Head = _HEAD,
    hip_clang: bool = False,
    jobs: Count = 10,
    leave: Leave = _LEAVE,
    cache: Cache = _CACHE,
) -> Reply:
    """Hipify a checkout that is there: its own script, on the pristine upstream files, as one commit.

    Any git clone will do. Its commit stays as it is; the result is the same wherever and however often it is
    made.

    Parameters
    ----------
    directory
        The checkout.
    hip_clang
        Let the script write kernel launches for hip-clang.
    jobs
        Repositories at once.
    json
        Print the result as JSON.
    """
    tree = hipified(directory, head=head, hip_clang=hip_clang, jobs=jobs, leave=leave, cache=cache)
    return hipified_reply(tree)


def hipified(
    directory: Path, *, head: Head, hip_clang: bool, jobs: int, leave: Leave, cache: Cache
) -> HipifiedTree:
    """Hipify what lies in a directory; nothing is fetched but submodules that are missing."""
    work, mirrors = leave.work(), cache.mirrors()
    locked = found(directory, project_table())
    with console.Progress(total=0).shown() as progress:
        tree = checked_out(locked, directory, jobs=jobs, mirrors=mirrors, work=work, watch=progress)
        done = hipify_tree(
            tree.checkout,
            head=head.stays(),
            hip_clang=hip_clang,
            jobs=jobs,
            mirrors=mirrors,
            work=work,
            watch=progress,
            surveys=tree.surveys,
        )
    return msgspec.structs.replace(done, kept=tree.checkout.kept + done.kept)
