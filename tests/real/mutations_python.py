"""Ways to break Python sources, what they import, entry points, scripts, and versions that modules say."""

from __future__ import annotations

from real.mutations_base import LEGACY, breaks
from real.wheel_edit import WheelEdit

INIT, VERSION, TENSOR = "torch/__init__.py", "torch/version.py", "torch/_tensor.py"
MERGE = "<<<<<<< HEAD\nLIMIT = 1\n=======\nLIMIT = 2\n>>>>>>> upstream/main\n"


@breaks("merge-marks", LEGACY, "torch", "a source has the marks of a merge")
def merge_in_source(wheel: WheelEdit) -> None:
    wheel.put(TENSOR, wheel.read(TENSOR).decode() + MERGE)


@breaks("merge-marks", LEGACY, "torch", "entry_points.txt has the marks of a merge")
def merge_in_entry_points(wheel: WheelEdit) -> None:
    wheel.put("{info}/entry_points.txt", MERGE)


@breaks("python-syntax", LEGACY, "torch", "a source is cut in the middle of a line")
def source_cut(wheel: WheelEdit) -> None:
    data = wheel.read(TENSOR)
    wheel.put(TENSOR, data[: data.rindex(b"(") + 1])


@breaks("python-syntax", LEGACY, "triton", "a template was not filled in: triton/_version.py")
def template_left(wheel: WheelEdit) -> None:
    wheel.put("triton/_version.py", "__version__ = {{ version }}\n__version__ = @VERSION@\n")


@breaks("python-compiles", LEGACY, "torch", "a module that torch does not import at once is cut")
def late_source_cut(wheel: WheelEdit) -> None:
    wheel.put("torch/utils/cpp_extension.py", "def load(name,\n")


@breaks(
    "python-newer", LEGACY, "rocm-sdk-core", "a source has syntax of a Python newer than the wheel asks for"
)
def newer_syntax(wheel: WheelEdit) -> None:
    name = "rocm_sdk_core/__init__.py"
    wheel.drop_lines("{info}/METADATA", "Requires-Python: ")
    wheel.substitute("{info}/METADATA", "Name: ", "Requires-Python: >=3.9\nName: ", 1)
    text = "def kind(code):\n    match code:\n        case 0:\n            return None\n"
    wheel.put(name, wheel.read(name).decode() + text)


@breaks("import-missing", LEGACY, "torch", "a module that torch imports was left out")
def module_left_out(wheel: WheelEdit) -> None:
    wheel.remove("torch/_launch.py")


@breaks("import-missing", LEGACY, "torch", "a package lost the file that makes it one")
def subpackage_without_init(wheel: WheelEdit) -> None:
    wheel.rename("torch/cuda/__init__.py", "torch/cuda/_init.py")
    wheel.put(INIT, wheel.read(INIT).decode() + "from .cuda import is_available\n")


@breaks("import-missing", LEGACY, "torch", "a module lost a function that another one imports by name")
def name_of_a_module_lost(wheel: WheelEdit) -> None:
    wheel.put(TENSOR, wheel.read(TENSOR).decode() + "from ._launch import launch_all\n")


@breaks("import-outside", LEGACY, "torch", "a module imports setuptools_v2, which nobody has")
def import_of_nobody(wheel: WheelEdit) -> None:
    wheel.put(TENSOR, wheel.read(TENSOR).decode() + "import setuptools_v2\n")


@breaks("module-hidden", LEGACY, "torch", "an empty package was left behind beside a module of its name")
def module_behind_a_package(wheel: WheelEdit) -> None:
    wheel.put("torch/utils/bundled.py", "TABLES = {}\n")
    wheel.put("torch/utils/bundled/__init__.py", "")


@breaks(
    "python-unread", LEGACY, "torch", "a table is nested too deeply for any interpreter", severity="warning"
)
def table_without_bottom(wheel: WheelEdit) -> None:
    wheel.put("torch/utils/bundled.py", f"TABLE = {'not ' * 60_000}None\n")


@breaks(
    "import-later", LEGACY, "torch", "a module that is imported on demand lacks another", severity="warning"
)
def late_module_left_out(wheel: WheelEdit) -> None:
    wheel.put("torch/utils/bundled.py", "from ._bundle_tables import TABLES\n")


@breaks("commands", LEGACY, "torch", "a command leads to a module that is not there")
def command_without_module(wheel: WheelEdit) -> None:
    wheel.put("{info}/entry_points.txt", "[console_scripts]\ntorchrun = torch.distributed.run:main\n")


@breaks("commands", LEGACY, "torch", "a command leads to a function that is not there")
def command_without_function(wheel: WheelEdit) -> None:
    wheel.put("{info}/entry_points.txt", "[console_scripts]\nlaunch = torch._launch:main\n")


@breaks("commands", LEGACY, "torch", "entry_points.txt has a line outside of any group")
def entry_points_without_group(wheel: WheelEdit) -> None:
    wheel.put("{info}/entry_points.txt", "launch = torch._launch:mini_launch\n")


@breaks("plugins", LEGACY, "triton", "a backend that triton lists is not there")
def plugin_without_module(wheel: WheelEdit) -> None:
    wheel.put("{info}/entry_points.txt", "[triton.backends]\namd = triton.backends.amd\n")


@breaks("script-interpreter", LEGACY, "torch", "a script starts the interpreter of the build")
def script_of_the_build(wheel: WheelEdit) -> None:
    name = wheel.info.replace(".dist-info", ".data/scripts/convert-weights")
    wheel.put(name, "#!/build/venv/bin/python3.11\nprint('converted')\n", mode=0o100755)


@breaks("torch-hip", LEGACY, "torch", "torch was built for another ROCm than it requires")
def hip_of_another_rocm(wheel: WheelEdit) -> None:
    wheel.substitute(VERSION, "hip = '5.2.21153'", "hip = '6.4.43483'")


@breaks("torch-hip", LEGACY, "torch", "version.py names another ROCm than the wheel requires")
def rocm_of_another_minor(wheel: WheelEdit) -> None:
    wheel.put(VERSION, wheel.read(VERSION).decode() + "rocm = '5.4.0'\n")


@breaks("module-version", LEGACY, "triton", "triton/_version.py is of another release")
def triton_of_another_release(wheel: WheelEdit) -> None:
    wheel.put("triton/_version.py", "__version__ = '3.4.0'\n")
