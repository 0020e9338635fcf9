#!/usr/bin/env python3
"""The documented name of `rocwright wheel sanity-check`; needs rocwright installed."""

from rocwright.cli.documented import run

if __name__ == "__main__":
    run(__file__)
