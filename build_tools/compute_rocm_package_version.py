#!/usr/bin/env python3
"""The documented name of `rocwright sdk compute-version`; needs rocwright installed."""

import sys

from rocwright.cli import main

if __name__ == "__main__":
    main(["sdk", "compute-version", *sys.argv[1:]])
