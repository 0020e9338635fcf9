"""AMD GPUs by their PCI ids, from sysfs and from what Windows prints. Reads and parses, decides nothing."""

import os
import re

from ._known import VENDOR

DEVICES = "sys/bus/pci/devices"
# Display controllers; the accelerators without a display (MI200, MI300) are processing accelerators.
CLASSES = ("03", "12")

# PCI\VEN_1002&DEV_744C&SUBSYS_0E3B1002&REV_C8\6&18d4e9b8&0&00000019
_PNP = re.compile(
    r"PCI\\VEN_(?P<vendor>[0-9A-F]{4})&DEV_(?P<device>[0-9A-F]{4})"
    r"(?:&SUBSYS_[0-9A-F]{8})?(?:&REV_(?P<revision>[0-9A-F]{2}))?(?P<instance>(?:\\[^\s\"',;]+)?)",
    re.IGNORECASE,
)


def linux(root="/"):
    """(GPUs, problems) of sysfs below `root`, in the order of their addresses.

    A GPU is {"device", "revision", "location"}: lowercase hex; `revision` is None where it cannot be read. No
    PCI bus gives ([], []).
    """
    directory = os.path.join(root, DEVICES)
    try:
        addresses = sorted(os.listdir(directory))
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"cannot list {directory}: {error.strerror}"]
    gpus, problems = [], []
    for address in addresses:
        try:
            found = _device(os.path.join(directory, address))
        except (OSError, ValueError) as error:
            problems.append(f"PCI device {address}: {_told(error)}")
        else:
            if found is not None:
                gpus.append(dict(found, location=address))
    return gpus, problems


def revision_at(location, root="/"):
    """The PCI revision of the device at an address such as `0000:03:00.0`; None where it cannot be read."""
    try:
        return _hex(os.path.join(root, DEVICES, location, "revision"), 2)
    except (OSError, ValueError):
        return None


def windows(text):
    """The AMD display adapters in text that holds their PnP device ids, in the text's order.

    Takes whatever holds them: list, table or JSON of `Get-CimInstance Win32_VideoController`, the output of
    `pnputil /enum-devices /class Display`, ids alone. An adapter whose whole id comes again is the same one;
    where there are whole ids, those without an instance are what the adapters are compatible with.
    """
    # Windows PowerShell's JSON writes & as \u0026 and \ as \\.
    text = text.replace("\\u0026", "&").replace("\\\\", "\\")
    found = [match for match in _PNP.finditer(text) if match["vendor"] == VENDOR]
    whole = {}
    for match in found:
        if match["instance"]:
            whole.setdefault(match.group(0).upper(), match)
    gpus = []
    for match in list(whole.values()) or found:
        revision = match["revision"]
        gpus.append(
            {
                "device": match["device"].lower(),
                "revision": revision.lower() if revision else None,
                "location": None,
            }
        )
    return gpus


def decoded(data):
    """Text of bytes that Windows wrote: UTF-16 with a mark, as PowerShell's `>` writes it, or UTF-8."""
    for mark, encoding in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig")):
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    return data.decode("utf-8", "replace")


def _device(directory):
    """What one directory of sysfs says; None for what is no AMD GPU."""
    if _hex(os.path.join(directory, "vendor"), 4) != VENDOR:
        return None
    if _hex(os.path.join(directory, "class"), 6)[:2] not in CLASSES:
        return None
    revision = os.path.join(directory, "revision")
    return {
        "device": _hex(os.path.join(directory, "device"), 4),
        "revision": _hex(revision, 2) if os.path.exists(revision) else None,
    }


def _hex(path, digits):
    """The number in a file such as `vendor`, as so many lowercase hex digits."""
    # A machine has hundreds of such files; the streams of `open` would take most of the time.
    handle = os.open(path, os.O_RDONLY)
    try:
        text = os.read(handle, 64).decode("ascii", "replace").strip()
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(handle)
    match = re.fullmatch(rf"0x([0-9a-fA-F]{{{digits}}})", text)
    if match is None:
        raise ValueError(f"its file {os.path.basename(path)} says {text[:20]!r}")
    return match[1].lower()


def _told(error):
    if isinstance(error, OSError) and error.filename:
        return f"cannot read {os.path.basename(error.filename)}: {error.strerror}"
    return str(error)
