"""What all tests stand on: commands under test hear of Ctrl-C, however the tests were started."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # So a shell starts what runs in the background; every child would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
