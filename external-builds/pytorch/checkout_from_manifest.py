#!/usr/bin/env python3
"""The documented name of `rocwright sources checkout-manifest`; needs rocwright installed."""

import sys
from pathlib import Path

try:
    from rocwright.cli.documented import run
except ModuleNotFoundError as error:
    install = f"{sys.executable} -m pip install {Path(__file__).resolve().parents[2]}"
    sys.exit(f"error: this Python has no {error.name}\n  next: {install}")

if __name__ == "__main__":
    run(__file__)
