"""What every record of a run under an emulator says of it, so that nobody takes it for a GPU's."""

from __future__ import annotations

from typing import Literal

import msgspec


class Emulated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The emulator of a run: its name, version and digest, the configuration, the runtime, the target.

    `digest` is the sha256 of its library or program, `configuration` the file's name and
    `configuration_digest` its sha256 (both empty for one that is a program), `runtime` HIP's version as its
    file says it. `dispatches` is how many kernels were handed to the emulated GPU.
    """

    name: str
    target: str
    version: str = ""
    digest: str = ""
    configuration: str = ""
    configuration_digest: str = ""
    runtime: str = ""
    dispatches: int = 0
    # Written into each record: the word stands where the result does.
    emulated: Literal[True] = True

    def told(self) -> str:
        """In a line: `rocjitsu 0.2.0 as gfx942 (emulated), HIP 6.4.43484, gfx942_cdna3_kmd.json`."""
        name = f"{self.name} {self.version}".rstrip() if self.version else f"{self.name} {self.digest[:12]}"
        parts = [f"{name.rstrip()} as {self.target} (emulated)"]
        parts += [f"HIP {self.runtime}"] if self.runtime else []
        parts += [self.configuration] if self.configuration else []
        return ", ".join(parts)
