"""Takes the detector of the package rocm into rocwright-detect: one file, in both."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = os.path.join("src", "rocwright_detect", "_detect.py")


class DetectorHook(BuildHookInterface):
    def initialize(self, version, build_data):
        if os.path.isfile(os.path.join(self.root, NAME)):
            return  # an unpacked sdist, which has it already
        source = os.path.join(os.path.dirname(self.root), "rocm", "src", "rocm_sdk", "_detect.py")
        inside = "rocwright_detect/_detect.py" if self.target_name == "wheel" else NAME
        build_data["force_include"][source] = inside
