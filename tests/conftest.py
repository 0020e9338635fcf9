"""For all tests: signals as a terminal gives them.

What a shell starts in the background, or under nohup, ignores Ctrl-C or the end of the terminal, and so do
its children: commands that a test interrupts would go on for ever.
"""

from __future__ import annotations

import signal
import threading

if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for _name in ("SIGHUP", "SIGQUIT"):
        if hasattr(signal, _name):
            signal.signal(getattr(signal, _name), signal.SIG_DFL)
