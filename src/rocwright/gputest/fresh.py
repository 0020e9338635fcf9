"""What a run sets up for its processes alone, and takes away again."""

from __future__ import annotations

import tempfile


def fresh_cache() -> tempfile.TemporaryDirectory[str]:
    """A new directory for what MIOpen compiles: kernels that an earlier ROCm left would be tested instead.

    Processes of a test that were left behind may still write there while it is being removed.
    """
    return tempfile.TemporaryDirectory(prefix="rocwright-miopen-", ignore_cleanup_errors=True)
