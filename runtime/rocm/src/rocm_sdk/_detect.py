"""The one GPU detector: AMD GPUs as the Linux kernel driver (KFD) lists them; no tool or GPU access needed.

Self-contained on purpose: the build backends, the self test and rocwright itself use this very file.
"""

import os
import re

NODES = "/sys/class/kfd/kfd/topology/nodes"
KFD = "/dev/kfd"
RENDER = "/dev/dri"


class DetectionError(RuntimeError):
    """The driver lists GPUs that could not be read, so the answer would be a guess."""


def target_name(version):
    """Target of a KFD `gfx_target_version`: major * 10000 + minor * 100 + step, minor and step in hex.

    90010 is gfx90a, 90402 is gfx942, 100300 is gfx1030.
    """
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    if major == 0 or minor > 15 or step > 15:
        raise ValueError(f"gfx_target_version {version} names no GPU target")
    return f"gfx{major}{minor:x}{step:x}"


def scan(root=NODES):
    """(GPUs, problems): what could be read, and one sentence for each node that could not.

    A GPU is {"index", "node", "target", "name", "device_id", "location", "render_minor", "unique_id"}, in the
    order of the nodes; `index` counts GPUs from 0. No driver or no GPU gives ([], []). A container that is
    given some of the machine's GPUs sees the others as unreadable nodes: problems beside GPUs are normal.
    """
    try:
        nodes = sorted(int(name) for name in os.listdir(root) if name.isdigit())
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"cannot list {root}: {error.strerror}"]
    gpus, problems = [], []
    for node in nodes:
        try:
            found = _gpu(os.path.join(root, str(node)), node)
        except OSError as error:
            problems.append(f"cannot read {error.filename}: {error.strerror}")
        except ValueError as error:
            problems.append(f"node {node}: {error}")
        else:
            if found is not None:
                found["index"] = len(gpus)
                gpus.append(found)
    return gpus, problems


def detect_gpus(root=NODES):
    """The GPUs of `scan`; `DetectionError` when none could be read although some may be there."""
    gpus, problems = scan(root)
    if problems and not gpus:
        raise DetectionError("AMD GPUs could not be identified: " + "; ".join(problems))
    return gpus


def visible(gpus, environ):
    """The GPUs that a HIP program with this environment sees, with the targets that it takes them for.

    `index` counts the visible ones, `physical` is the index among all. `ValueError`: the variable that
    replaces targets names none.

    ROCR_VISIBLE_DEVICES chooses among the driver's GPUs, HIP_VISIBLE_DEVICES (or CUDA_VISIBLE_DEVICES, as HIP
    reads it too) among those left. HSA_OVERRIDE_GFX_VERSION (`10.3.0`) replaces every target.
    """
    gpus = [dict(gpu, physical=gpu["index"]) for gpu in gpus]
    chosen = environ.get("ROCR_VISIBLE_DEVICES")
    if chosen is not None:  # empty hides all
        gpus = _pick(gpus, chosen)
    chosen = environ.get("HIP_VISIBLE_DEVICES") or environ.get("CUDA_VISIBLE_DEVICES")
    if chosen:  # empty is as good as not set
        gpus = _pick(gpus, chosen)
    instead = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", environ.get("HSA_OVERRIDE_GFX_VERSION", ""))
    if instead:
        major, minor, step = (int(part) for part in instead.groups())
        gpus = [dict(gpu, target=target_name(major * 10000 + minor * 100 + step)) for gpu in gpus]
    return gpus


def _pick(gpus, chosen):
    """GPUs by index or `GPU-<unique id>`; the first entry that names none ends the list, as in HIP."""
    picked = []
    for word in chosen.split(","):
        word = word.strip().lower()
        if word.isdigit():
            fitting = [gpu for gpu in gpus if gpu["index"] == int(word)]
        else:
            fitting = [gpu for gpu in gpus if gpu["unique_id"].replace("0x", "gpu-") == word]
        if not fitting:
            break
        picked += fitting
    return [dict(gpu, index=index) for index, gpu in enumerate(picked)]


def base(target):
    """A target without its features: `gfx90a:xnack+` is `gfx90a`."""
    return target.partition(":")[0]


def serving(target, offers):
    """Names in `offers` (name to its targets) that serve a target: the most specific first, then by name."""
    fitting = [name for name in offers if target in {base(served) for served in offers[name]}]
    return sorted(fitting, key=lambda name: (len(offers[name]), name))


def near(target, known):
    """The targets of `known` that share the longest beginning with `target`, at least its generation."""
    common = {other: _common_length(target, other) for other in known}
    longest = max(common.values(), default=0)
    # The last two characters of a target are its minor version and step.
    return sorted(other for other in common if common[other] == longest >= len(target) - 2)


def _common_length(one, two):
    length = 0
    while one[length : length + 1] == two[length : length + 1] != "":
        length += 1
    return length


def _gpu(directory, node):
    """The GPU of one topology node, None for a CPU node."""
    values = _properties(os.path.join(directory, "properties"))
    if values.get("simd_count", 0) == 0:
        return None
    if "gfx_target_version" not in values:
        raise ValueError("the kernel driver reports no gfx_target_version (it is too old)")
    bus = values.get("location_id", 0)
    return {
        "index": None,
        "node": node,
        "target": target_name(values["gfx_target_version"]),
        "name": _first_line(os.path.join(directory, "name")),
        "device_id": "0x{:04x}".format(values.get("device_id", 0)),
        "location": "{:04x}:{:02x}:{:02x}.{:x}".format(
            values.get("domain", 0), bus >> 8 & 0xFF, bus >> 3 & 0x1F, bus & 7
        ),
        "render_minor": values.get("drm_render_minor"),
        "unique_id": "0x{:016x}".format(values.get("unique_id", 0)),
    }


def _properties(path):
    """`key value` lines; values that are no number are left out."""
    values = {}
    for line in _read(path).splitlines():
        key, _, value = line.partition(" ")
        if value.strip().isdigit():
            values[key] = int(value)
    if "simd_count" not in values:
        raise ValueError("its properties have no simd_count")
    return values


def _first_line(path):
    try:
        return _read(path).strip() or None
    except OSError:
        return None  # a name is for people; nothing is decided by it


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError as error:
        error.filename = path  # the driver refuses reading, not opening, and then the error has no name
        raise
