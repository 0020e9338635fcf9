"""The `rocm-sdk` command. What builds call again and again is answered here, without an option parser."""

import sys

from . import _set

# (command, its only option) of the calls that need no parser
QUICK = (["version"], ["path", "--root"], ["path", "--bin"], ["path", "--cmake"])


def main(arguments=None):
    """Run one command; returns the exit status.

    0: done. 1: failed (the reason is on stderr), or a static check failed. 2: wrong usage. 3: a GPU without
    device code, or a device check failed. 4: a torch check failed.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments in QUICK:
            if arguments == ["version"]:
                print(_set.VERSION)
                return 0
            from . import _places

            print(_places.path(arguments[1][2:]))
            return 0
        from . import _commands

        return _commands.run(arguments)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        print(f"rocm-sdk: {error}", file=sys.stderr)
        return 1
