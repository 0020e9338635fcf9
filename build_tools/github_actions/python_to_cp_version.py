#!/usr/bin/env python3
"""The documented name of `rocwright wheel cp-version`; needs rocwright installed."""

from rocwright.cli.documented import run

if __name__ == "__main__":
    run(__file__)
