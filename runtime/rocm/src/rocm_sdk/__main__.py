"""`python -m rocm_sdk` is `rocm-sdk`, for environments whose scripts are not on PATH."""

import sys

from ._cli import main

if __name__ == "__main__":
    sys.exit(main())
