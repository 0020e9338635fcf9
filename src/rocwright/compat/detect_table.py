"""The compact table inside the detector's own wheel, written from the tables of GPUs and families."""

from __future__ import annotations

from rocwright.model.gpu import Families
from rocwright.model.gpus import Chip, GpuTable

# Where it lies, below the directory `runtime`.
PATH = "detect/src/rocwright_detect/_table.py"
_HEAD = '''\
"""Generated from rocwright's tables gpus.toml and families.toml by docs/generate.py; not to be edited."""

# fmt: off
'''
# Revisions in one line of the names.
_IN_LINE = 24


def render_table(gpus: GpuTable, families: Families) -> str:
    """The text of the module: chips with their ids, names by device and revision, published families."""
    chips = [
        f'    ("{chip.name}", "{chip.target}", {int(chip.integrated)}, "{" ".join(chip.ids)}"),\n'
        for chip in gpus.chip
    ]
    published = []
    for row in families.family:
        members = families.families.get(row.name, (row.name,))
        where = " ".join(platform for platform in ("linux", "windows") if row.on(platform) is not None)
        published.append(f'    "{row.name}": ("{where}", "{" ".join(members)}"),\n')
    return "".join(
        [
            _HEAD,
            "\n# chip, target, whether it is part of a processor, PCI device ids\nCHIPS = (\n",
            *chips,
            ")\n\n# device:revisions|name\nNAMES = '''\\\n",
            *(line for chip in gpus.chip for line in _names(chip)),
            "'''\n\n# family: platforms that packages are published for, targets\nFAMILIES = {\n",
            *published,
            "}\n",
        ]
    )


def _names(chip: Chip) -> list[str]:
    lines = []
    for key, name in chip.names.items():
        device, _, told = key.partition(":")
        revisions = told.split()
        pieces = [revisions[at : at + _IN_LINE] for at in range(0, len(revisions), _IN_LINE)]
        lines += [f"{device}:{' '.join(piece)}|{name}\n" for piece in pieces]
    return lines
