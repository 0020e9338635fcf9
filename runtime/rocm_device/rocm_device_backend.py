"""PEP 517 backend of the sdist `rocm-sdk-device`, behind the extra `rocm[device]`: it installs nothing.

Which device package is right depends on the machine, and installers cache what they built on another one. So
the choice is the user's; this backend says what there is to choose from and what this machine needs.
"""

import importlib.util
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SUMMARY = "Says which device package of ROCm to install; cannot be installed itself."


def metadata_lines(rocm):
    """The lines of this sdist's PKG-INFO for a set (the content of rocm_set.json).

    Requirements are marked as dynamic, so that every installer runs the backend instead of reading on.
    """
    return [
        "Metadata-Version: 2.2",
        "Name: " + rocm["packages"]["device_refusal"]["distribution"],
        "Version: " + rocm["version"],
        "Summary: " + SUMMARY,
        "Requires-Python: >=3.8",
        "Dynamic: Requires-Dist",
    ]


def get_requires_for_build_wheel(config_settings=None):
    """Nothing: no build requirement can be missing from an index."""
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Refuse, with the choices."""
    refuse()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Refuse, with the choices."""
    refuse()


def refuse():
    """Print the choices to stderr and exit with status 1."""
    with open(os.path.join(HERE, "rocm_set.json"), encoding="utf-8") as stream:
        rocm = json.load(stream)
    path = os.path.join(HERE, "_detect.py")
    spec = importlib.util.spec_from_file_location("rocm_device_detect", path)
    detect = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(detect)
    print(explanation(rocm, detect), file=sys.stderr)
    raise SystemExit(1)


def explanation(rocm, detect):
    """Why nothing is installed, what there is, what this machine has, and the line to run instead."""
    offers = {word: device["serves"] for word, device in rocm["devices"].items()}
    gpus, problems = detect.scan(detect.NODES)
    targets = list(dict.fromkeys(gpu["target"] for gpu in gpus))
    words = [detect.serving(target, offers)[:1] for target in targets]
    lines = [
        'rocm: the extra "device" chooses nothing: which device code is right depends on the GPU.',
        "Extras of rocm {}: {}".format(
            rocm["version"], " ".join(["device-" + word for word in sorted(offers)] + ["device-all"])
        ),
    ]
    lines += problems
    if not gpus:
        lines += [
            "No AMD GPU was found on this machine. On the machine with the GPU, run:",
            '    pip install "rocm=={}" && rocm-sdk targets --detect'.format(rocm["version"]),
        ]
        return "\n".join(lines)
    lines.append("This machine has: " + " ".join(targets))
    for target, found in zip(targets, words):
        if not found:
            known = {detect.base(served) for members in offers.values() for served in members}
            near = " ".join(detect.near(target, known))
            lines.append(f"No device package serves {target}" + (f"; the nearest: {near}" if near else ""))
    chosen = ",".join(dict.fromkeys("device-" + word for found in words for word in found))
    if chosen:
        # On a line of its own: uv breaks long ones, and then they cannot be copied.
        lines += ["Run instead:", '    pip install "rocm[libraries,{}]=={}"'.format(chosen, rocm["version"])]
    return "\n".join(lines)
