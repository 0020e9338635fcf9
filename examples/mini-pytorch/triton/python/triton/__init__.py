"""Miniature of Triton: a stand-in for tests and demonstrations of rocwright. Not Triton."""

from ._C import libtriton
from ._version import __version__

cdiv = libtriton.cdiv
next_power_of_2 = libtriton.next_power_of_2

__all__ = ["__version__", "cdiv", "next_power_of_2"]
