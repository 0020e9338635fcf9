"""The GPUs that this process sees, and whether the installed packages have device code for them."""

import os

from . import _detect, _dist, _set

OFF_VARIABLE = "ROCM_SDK_NO_GPU_CHECK"

_warned = False


def visible():
    """(GPUs, problems) of the detector, less those that this process's environment hides."""
    gpus, problems = _detect.scan(_detect.NODES)
    return _detect.visible(gpus, os.environ), problems


def offers():
    """What this set has for GPUs: extras' words (kpack) or families (legacy), each with its targets."""
    if _set.MODE == "kpack":
        return {word: _set.DEVICES[word]["serves"] for word in _set.DEVICES}
    return _set.FAMILIES


def installed_targets():
    """Base targets that the installed packages serve, sorted."""
    if _set.MODE == "kpack":
        found = [marker["serves"] for marker in _dist.installed_devices().values()]
    else:
        families = _dist.installed_families()
        found = [
            _dist.module_fact(_set.PACKAGES["libraries"][name]["module"], "TARGETS") for name in families
        ]
    return sorted({_detect.base(target) for targets in found for target in targets})


def install_line(targets):
    """The command that installs what serves these targets, of which each must be served by the set."""
    words = [_detect.serving(target, offers())[0] for target in dict.fromkeys(targets)]
    words = list(dict.fromkeys(words))
    if _set.MODE == "kpack":
        return _dist.pip_hint("libraries", *("device-" + word for word in words))
    if len(words) == 1:
        # Installers cache the wheel built from the rocm sdist, with the family that was chosen then.
        return (
            f"pip cache remove rocm; ROCM_SDK_TARGET_FAMILY={words[0]} "
            f'pip install --force-reinstall --no-cache-dir "rocm[libraries]=={_set.VERSION}"'
        )
    return " or ".join(install_line([target]) for target in targets)


def advice(target):
    """(whether the set serves a target, one line: the command that installs it, or what the set has)."""
    if _detect.serving(target, offers()):
        return True, install_line([target])
    known = {_detect.base(served) for targets in offers().values() for served in targets}
    near = _detect.near(target, known)
    line = f"ROCm {_set.VERSION} as Python packages has no device code for {target}"
    if near:
        return False, f"{line}; the nearest it has: {' '.join(near)}"
    return False, f"{line}; it has: {' '.join(sorted(known)) or 'none'}"


def warn_of_unserved(stacklevel):
    """Warn, once per process, of visible GPUs that the installed libraries have no device code for."""
    global _warned
    if _warned or os.environ.get(OFF_VARIABLE, "0") not in ("", "0"):
        return
    try:
        message = _message()
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        message = f"cannot tell whether ROCm serves the GPUs of this machine: {error}"
    if message:
        import warnings

        _warned = True
        text = f"{message} ({OFF_VARIABLE}=1 switches this check off)"
        warnings.warn(text, RuntimeWarning, stacklevel=stacklevel + 1)


def _message():
    gpus, _ = visible()
    if not gpus or _dist.directory("libraries") is None:
        return None
    served = installed_targets()
    if _set.MODE == "legacy" and not served:
        return None  # the package does not say what it serves
    unserved = list(dict.fromkeys(gpu["target"] for gpu in gpus if gpu["target"] not in served))
    if not unserved:
        return None
    named = [
        "GPU {} ({})".format(" ".join(str(gpu["index"]) for gpu in gpus if gpu["target"] == target), target)
        for target in unserved
    ]
    text = "the installed ROCm libraries have no device code for " + ", ".join(named)
    offered = [target for target in unserved if advice(target)[0]]
    if offered:
        text += ". Install it with: " + install_line(offered)
    return ". ".join([text, *(advice(target)[1] for target in unserved if target not in offered)])
