"""What the table knows of a PCI device id, and which targets packages are published for."""

from ._detect import base, near, serving
from ._table import CHIPS, FAMILIES, NAMES, OWNERS

VENDOR = "1002"


def chip_of(device):
    """(chip, target, whether it is part of a processor) of a device id (four hex digits); None if unknown."""
    for name, target, integrated, ids in CHIPS:
        if device in ids.split():
            return name, target, bool(integrated)
    return None


def name_of(device, revision):
    """What a device is sold as; without a known revision only where all revisions are called the same."""
    names = {}
    for line in NAMES.splitlines():
        if line.startswith(device):
            revisions, _, name = line[5:].partition("|")
            names.update(dict.fromkeys(revisions.split(), name))
    if revision in names:
        return names[revision]
    return next(iter(names.values())) if len(set(names.values())) == 1 else None


def neighbours(device):
    """Targets of the known ids that share the first three digits with an unknown one, sorted."""
    return sorted({t for _, t, _, ids in CHIPS if any(one[:3] == device[:3] for one in ids.split())})


def package_of(target):
    """The target whose packages have the code of this one: mostly itself."""
    return OWNERS.get(target, target)


def offers(platform):
    """Families that packages are published for on `linux` or `windows`, each with its targets."""
    return {name: targets.split() for name, (where, targets) in FAMILIES.items() if platform in where}


def published(platform):
    """All targets that packages are published for on a platform, sorted."""
    return sorted({target for targets in offers(platform).values() for target in targets})


def family_for(target, platform):
    """The family that serves a target, the most specific one; None if there is none."""
    fitting = serving(target, offers(platform))
    return fitting[0] if fitting else None


def advice(target, platform):
    """One line on a target that nothing is published for: what is near it."""
    known = published(platform)
    close = near(base(target), known)
    line = f"no packages are published for {target} on {platform.capitalize()}"
    if close:
        return f"{line}; near it are: {' '.join(close)}, whose code it does not run"
    return f"{line}; there are some for: {' '.join(known)}"
