"""`python -m rocwright_detect`."""

import sys

from ._cli import main

sys.exit(main())
