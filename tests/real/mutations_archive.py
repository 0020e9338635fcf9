"""Ways to break a wheel as an archive: members, RECORD, names, the file itself."""

from __future__ import annotations

import bz2

from real.mutations_base import KPACK, LEGACY, WINDOWS, Workbench, breaks, breaks_set
from real.wheel_edit import DESCRIPTOR, ENCRYPTED, FILE, LINK, STORED, WheelEdit, open_wheel

# -- members


@breaks("member-names", LEGACY, "triton", "a member has an absolute name")
def absolute_name(wheel: WheelEdit) -> None:
    wheel.put("/etc/profile.d/triton.sh", "true\n")


@breaks("member-names", LEGACY, "triton", "a member climbs out of the directory it is unpacked in")
def climbing_name(wheel: WheelEdit) -> None:
    wheel.put("triton/../../sitecustomize.py", "")


@breaks(
    "member-names", LEGACY, "triton", "a member's name has a backslash, which one system takes for a folder"
)
def backslash_name(wheel: WheelEdit) -> None:
    wheel.put("triton\\backend.py", "")


@breaks(
    "member-twice",
    LEGACY,
    "torch",
    "a member is there twice; which one is installed depends on the installer",
)
def member_twice(wheel: WheelEdit) -> None:
    wheel.parts.insert(0, wheel.part("torch/version.py"))


@breaks("member-links", LEGACY, "torch", "a member is a symbolic link, which no installer makes")
def symbolic_link(wheel: WheelEdit) -> None:
    wheel.put("torch/lib/libtorch.so", "libtorch_hip.so", method=STORED, mode=LINK | 0o777)


@breaks("member-modes", LEGACY, "torch", "a member would be installed with the set-user-ID bit")
def set_user_id(wheel: WheelEdit) -> None:
    wheel.part("torch/_launch.py").mode = FILE | 0o4755


@breaks("member-modes", LEGACY, "torch", "a member may be written by everybody")
def world_writable(wheel: WheelEdit) -> None:
    wheel.part("torch/version.py").mode = FILE | 0o666


@breaks("member-modes", LEGACY, "torch", "a member may not be read, not even by its owner")
def unreadable_mode(wheel: WheelEdit) -> None:
    wheel.part("torch/version.py").mode = FILE | 0o200


@breaks_set("member-modes", LEGACY, "a program has no right to be executed")
def program_not_executable(bench: Workbench) -> None:
    launcher = open_wheel(bench.paths["rocm-sdk-core"]).read("_rocm_sdk_core/bin/amdclang")
    with bench.edit("triton") as wheel:
        wheel.put("triton/_C/clang", launcher, mode=FILE | 0o644)


@breaks("member-method", LEGACY, "torch", "a member is encrypted")
def encrypted_member(wheel: WheelEdit) -> None:
    wheel.part("torch/__init__.py").flags |= ENCRYPTED


@breaks(
    "member-method", LEGACY, "torch", "a member is compressed with bzip2, which installers need not support"
)
def bzip2_member(wheel: WheelEdit) -> None:
    part = wheel.part("torch/__init__.py")
    part.method, part.packed = 12, bz2.compress(part.data)


@breaks("stored-descriptor", LEGACY, "torch", "a stored member is followed by a data descriptor")
def stored_with_descriptor(wheel: WheelEdit) -> None:
    wheel.put("torch/__init__.py", wheel.read("torch/__init__.py"), method=STORED).flags |= DESCRIPTOR


@breaks("member-damaged", LEGACY, "torch", "the check sum of a member is wrong")
def wrong_check_sum(wheel: WheelEdit) -> None:
    wheel.part("torch/cuda/__init__.py").crc ^= 1


@breaks("member-damaged", LEGACY, "torch", "the compressed bytes of a member are destroyed")
def destroyed_bytes(wheel: WheelEdit) -> None:
    part = wheel.part("torch/include/minifmt/format.h")
    part.packed = b"\xff" * len(part.packed)


@breaks("member-damaged", LEGACY, "torch", "a member is longer than its header says")
def longer_than_said(wheel: WheelEdit) -> None:
    wheel.part("torch/_tensor.py").size -= 1


# -- RECORD


@breaks("record", LEGACY, "torch", "RECORD lacks a member")
def missing_row(wheel: WheelEdit) -> None:
    wheel.rows = [row for row in wheel.record() if row[0] != "torch/__init__.py"]


@breaks("record", LEGACY, "torch", "RECORD lists a file that is not in the wheel")
def row_without_member(wheel: WheelEdit) -> None:
    wheel.rows = [["torch/gone.py", wheel.record()[0][1], "1"], *wheel.record()]


@breaks("record", LEGACY, "torch", "RECORD has another digest than the member")
def wrong_digest(wheel: WheelEdit) -> None:
    rows = {row[0]: row for row in wheel.record()}
    rows["torch/__init__.py"][1] = rows["torch/_launch.py"][1]


@breaks("record", LEGACY, "torch", "RECORD has another size than the member")
def wrong_size(wheel: WheelEdit) -> None:
    rows = {row[0]: row for row in wheel.record()}
    rows["torch/__init__.py"][2] += "0"


@breaks("record", KPACK, "amd-torch-device-gfx906", "RECORD's digests are hexadecimal instead of base64")
def hexadecimal_digest(wheel: WheelEdit) -> None:
    wheel.record()[0][1] = "sha256=" + "0123456789abcdef" * 4


@breaks("record", LEGACY, "torch", "RECORD gives a member without a digest")
def row_without_digest(wheel: WheelEdit) -> None:
    {row[0]: row for row in wheel.record()}["torch/__init__.py"][1:] = ["", ""]


@breaks("record", LEGACY, "torch", "RECORD is missing")
def no_record(wheel: WheelEdit) -> None:
    wheel.record()
    wheel.parts.remove(wheel.part("{info}/RECORD"))


# -- names


@breaks("dist-info", LEGACY, "triton", "the wheel has a second dist-info directory")
def second_dist_info(wheel: WheelEdit) -> None:
    wheel.put("pytorch_triton_rocm-3.5.0.dist-info/INSTALLER", "pip\n")


@breaks("dist-info", LEGACY, "triton", "the dist-info directory is of another version than the file's name")
def other_dist_info(wheel: WheelEdit) -> None:
    before, wheel.info = wheel.info, "triton-3.4.0.dist-info"
    wheel.rename_below(before, wheel.info)


@breaks("windows-names", WINDOWS, "rocm-sdk-core", "a member's name is one that Windows keeps for a device")
def reserved_name(wheel: WheelEdit) -> None:
    wheel.put("_rocm_sdk_core/include/aux.h", "")


@breaks("windows-names", WINDOWS, "rocm-sdk-core", "a member's name has a colon")
def colon_in_name(wheel: WheelEdit) -> None:
    wheel.put("_rocm_sdk_core/share/notes:old.txt", "")


@breaks("windows-names", WINDOWS, "rocm-sdk-core", "two members differ in the case of a letter only")
def names_differ_in_case(wheel: WheelEdit) -> None:
    wheel.put("_rocm_sdk_core/include/hip/HIP_version.h", "")


@breaks(
    "windows-lengths",
    WINDOWS,
    "rocm-sdk-core",
    "a member's path is longer than Windows allows below a prefix",
)
def long_path(wheel: WheelEdit) -> None:
    wheel.put("_rocm_sdk_core/include/" + "/".join(["directory"] * 15) + "/a.h", "")


# -- what belongs to the environment


@breaks("startup-code", LEGACY, "triton", "a .pth file runs a program at every start of Python")
def pth_that_runs_code(wheel: WheelEdit) -> None:
    wheel.put("triton.pth", "import os; os.system('true')\n")


@breaks("startup-code", LEGACY, "triton", "a .pth file adds a directory of the build machine")
def pth_that_leads_outside(wheel: WheelEdit) -> None:
    wheel.put("triton.pth", "/opt/build/triton/python\n")


@breaks("startup-code", LEGACY, "triton", "the wheel brings a sitecustomize of its own")
def own_sitecustomize(wheel: WheelEdit) -> None:
    wheel.put("sitecustomize.py", "")


@breaks("startup-hook", LEGACY, "triton", "a .pth file imports the package at every start of Python")
def pth_that_imports_the_package(wheel: WheelEdit) -> None:
    wheel.put("triton.pth", "import triton\n")


@breaks("shadowed-modules", LEGACY, "triton", "a module has the name of one of Python's own")
def module_of_python(wheel: WheelEdit) -> None:
    wheel.put("json.py", "")


@breaks("shadowed-modules", LEGACY, "triton", "the wheel brings a numpy")
def module_of_another_project(wheel: WheelEdit) -> None:
    wheel.put("numpy/__init__.py", "")


@breaks("installed-places", LEGACY, "triton", "the wheel replaces the interpreter")
def replaced_interpreter(wheel: WheelEdit) -> None:
    data = wheel.info.removesuffix(".dist-info") + ".data"
    wheel.put(f"{data}/scripts/python", "#!/bin/sh\n", mode=FILE | 0o755)


@breaks("script-names", LEGACY, "triton", "an entry point's script has the name of pip")
def script_named_pip(wheel: WheelEdit) -> None:
    wheel.put("triton/_main.py", "def main():\n    return 0\n")
    wheel.put("{info}/entry_points.txt", "[console_scripts]\npip = triton._main:main\n")


@breaks("name-clash", LEGACY, "triton", "a file has the name of a folder")
def file_and_folder(wheel: WheelEdit) -> None:
    wheel.put("triton/_C", "")


@breaks("member-names", LEGACY, "triton", "a mark in a member's name turns the direction of what follows")
def direction_mark(wheel: WheelEdit) -> None:
    wheel.put("triton/\u202eyp.txt", "")


@breaks_set("archive-layout", LEGACY, "a script stands in front of the archive")
def script_in_front(bench: Workbench) -> None:
    bench.overwrite("apex", lambda data: b"#!/bin/sh\nexit\n" + data)


@breaks_set("archive-layout", LEGACY, "two archives stand behind one another in the file")
def two_archives(bench: Workbench) -> None:
    bench.overwrite("apex", lambda data: data + data)


@breaks_set("archive-layout", LEGACY, "bytes follow behind the end of the archive")
def bytes_behind(bench: Workbench) -> None:
    bench.overwrite("apex", lambda data: data + b"more")


# -- the file


@breaks_set("readable", LEGACY, "the file ends in the middle, as after an interrupted upload")
def truncated_file(bench: Workbench) -> None:
    bench.overwrite("apex", lambda data: data[: len(data) // 2])


@breaks_set("readable", LEGACY, "the file consists of zeros")
def file_of_zeros(bench: Workbench) -> None:
    bench.overwrite("apex", lambda data: bytes(200_000))


@breaks_set("readable", LEGACY, "a directory has the name of a wheel")
def directory_named_like_a_wheel(bench: Workbench) -> None:
    path = bench.scratch / "apex" / bench.paths["apex"].name
    path.mkdir(parents=True)
    bench.paths["apex"] = path


@breaks("archive-bomb", LEGACY, "apex", "several members share the same compressed bytes")
def overlapping_members(wheel: WheelEdit) -> None:
    first = wheel.part("apex/__init__.py")
    for number in range(3):
        wheel.put(f"apex/copy{number}.py", first.data).shares = first


@breaks("archive-bomb", LEGACY, "apex", "a member of a kilobyte says that it unpacks to three gigabytes")
def too_much_inside(wheel: WheelEdit) -> None:
    wheel.part("apex/__init__.py").size = 3 << 30


@breaks_set("empty-folder", LEGACY, "a folder that is given holds no wheel")
def empty_folder(bench: Workbench) -> None:
    place = bench.scratch / "dist"
    place.mkdir(parents=True)
    bench.places.append(place)


@breaks("structure", LEGACY, "triton", "the wheel has no WHEEL file, so installers refuse it")
def no_wheel_file(wheel: WheelEdit) -> None:
    wheel.remove("{info}/WHEEL")
