"""What `rocm-sdk test --device` does with one GPU; runs in a process of its own, as it may crash or hang."""

import array
import ctypes
import json
import re

from ._checks import tell

TO_DEVICE, TO_HOST = 1, 2
NO_TRANSPOSE = 111  # HIPBLAS_OP_N
COUNT = 1 << 16
BLOCK = 256
ORDER = 32
SOURCE = b"""
extern "C" __global__ void scale(float *out, const float *in, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = 3.0f * in[i] + 1.0f;
}
"""


class Failed(Exception):
    """A call of the runtime failed, or its result is wrong."""


class Skipped(Exception):
    """What the step needs is not installed."""


def main(task):
    """Run the steps of a task (JSON) and tell the result of each."""
    task = json.loads(task)
    gpu = Gpu(task["libraries"])
    if "steps" not in task:
        tell("enumerate", "passed", targets=gpu.targets())
        return
    gpu.call("hipSetDevice", 0)
    for step in task["steps"]:
        try:
            getattr(gpu, step)()
        except Failed as error:
            tell(step, "failed", str(error))
        except Skipped as error:
            tell(step, "skipped", str(error))
        else:
            tell(step, "passed")


class Gpu:
    """The first GPU that this process sees, through the HIP runtime of the installed package."""

    def __init__(self, libraries):
        self.paths = libraries
        self.hip = ctypes.CDLL(libraries["amdhip64"], mode=ctypes.RTLD_GLOBAL)
        self.hip.hipGetErrorString.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        code = getattr(self.hip, name)(*arguments)
        if code:
            raise Failed("{}: {}".format(name, self.hip.hipGetErrorString(code).decode("utf-8", "replace")))

    def targets(self):
        """Targets of all GPUs that HIP sees, with their features."""
        count = ctypes.c_int()
        code = self.hip.hipGetDeviceCount(ctypes.byref(count))
        if code:
            count.value = 0  # HIP says "no device" by an error
        return [self._target(index) for index in range(count.value)]

    def _target(self, index):
        # The layout of this structure differs between versions; its last text of this form is the target.
        properties = ctypes.create_string_buffer(1 << 14)
        known = hasattr(self.hip, "hipGetDevicePropertiesR0600")
        self.call("hipGetDevicePropertiesR0600" if known else "hipGetDeviceProperties", properties, index)
        found = re.findall(rb"gfx[0-9a-f]+(?:-[a-z]+)*(?::[a-z]+[+-])*", properties.raw)
        if not found:
            raise Failed("the properties of the device name no target")
        return found[-1].decode()

    def allocate(self, size):
        pointer = ctypes.c_void_p()
        self.call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def copy(self, to, source, size, direction):
        self.call("hipMemcpy", to, source, ctypes.c_size_t(size), direction)

    def upload(self, values):
        """Device memory with an array of floats."""
        size = len(values) * values.itemsize
        pointer = self.allocate(size)
        self.copy(pointer, ctypes.c_void_p(values.buffer_info()[0]), size, TO_DEVICE)
        return pointer

    def download(self, pointer, count):
        values = array.array("f", bytes(4 * count))
        self.copy(ctypes.c_void_p(values.buffer_info()[0]), pointer, 4 * count, TO_HOST)
        return values

    def memory(self):
        """What is copied to the GPU comes back the same."""
        values = array.array("f", [index % 1013 for index in range(COUNT)])
        pointer = self.upload(values)
        if self.download(pointer, COUNT) != values:
            raise Failed("what came back from the GPU is not what was copied to it")
        self.call("hipFree", pointer)

    def kernel(self):
        """A kernel compiled here and now computes what the CPU computes."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("hipModuleLoadData", ctypes.byref(module), self._compiled())
        self.call("hipModuleGetFunction", ctypes.byref(function), module, b"scale")
        values = array.array("f", [index % 1013 for index in range(COUNT)])
        out, source, count = self.allocate(4 * COUNT), self.upload(values), ctypes.c_int(COUNT)
        slots = [ctypes.cast(ctypes.byref(item), ctypes.c_void_p) for item in (out, source, count)]
        parameters = (ctypes.c_void_p * 3)(*slots)
        grid = (COUNT // BLOCK, 1, 1, BLOCK, 1, 1)
        self.call("hipModuleLaunchKernel", function, *grid, 0, None, parameters, None)
        self.call("hipDeviceSynchronize")
        if self.download(out, COUNT) != array.array("f", [3 * value + 1 for value in values]):
            raise Failed("the kernel's result differs from the CPU's")

    def _compiled(self):
        # In older versions the compiler is part of the runtime.
        rtc = ctypes.CDLL(self.paths["hiprtc"]) if self.paths["hiprtc"] else self.hip
        if not hasattr(rtc, "hiprtcCreateProgram"):
            raise Skipped("hiprtc is not installed")
        program = ctypes.c_void_p()
        arguments = (ctypes.byref(program), SOURCE, b"scale.hip", 0, None, None)
        self._check_rtc(rtc, "hiprtcCreateProgram", rtc.hiprtcCreateProgram(*arguments))
        options = (ctypes.c_char_p * 1)(b"--offload-arch=" + self._target(0).encode())
        code = rtc.hiprtcCompileProgram(program, 1, options)
        if code:
            log = self._rtc_bytes(rtc, program, "hiprtcGetProgramLogSize", "hiprtcGetProgramLog")
            lines = log.value.decode("utf-8", "replace").strip().splitlines() or [f"status {code}"]
            raise Failed("hiprtcCompileProgram: " + lines[0])
        return self._rtc_bytes(rtc, program, "hiprtcGetCodeSize", "hiprtcGetCode")

    def _rtc_bytes(self, rtc, program, ask_size, ask):
        size = ctypes.c_size_t()
        self._check_rtc(rtc, ask_size, getattr(rtc, ask_size)(program, ctypes.byref(size)))
        data = ctypes.create_string_buffer(size.value)
        self._check_rtc(rtc, ask, getattr(rtc, ask)(program, data))
        return data

    def _check_rtc(self, rtc, name, code):
        if code:
            rtc.hiprtcGetErrorString.restype = ctypes.c_char_p
            raise Failed("{}: {}".format(name, rtc.hiprtcGetErrorString(code).decode("utf-8", "replace")))

    def gemm(self):
        """A matrix product by hipBLAS is that of the CPU; small whole numbers, so both are exact."""
        if not self.paths["hipblas"]:
            raise Skipped("hipBLAS is not installed")
        blas = ctypes.CDLL(self.paths["hipblas"])
        left = array.array("f", [index % 7 - 3 for index in range(ORDER * ORDER)])
        right = array.array("f", [index % 5 - 2 for index in range(ORDER * ORDER)])
        handle, result = ctypes.c_void_p(), self.allocate(4 * ORDER * ORDER)
        one, zero, order = ctypes.c_float(1), ctypes.c_float(0), ctypes.c_int(ORDER)
        code = blas.hipblasCreate(ctypes.byref(handle))
        if code:
            raise Failed(f"hipblasCreate: status {code}")
        code = blas.hipblasSgemm(
            handle,
            NO_TRANSPOSE,
            NO_TRANSPOSE,
            *(order, order, order),
            ctypes.byref(one),
            *(self.upload(left), order),
            *(self.upload(right), order),
            ctypes.byref(zero),
            *(result, order),
        )
        if code:
            raise Failed(f"hipblasSgemm: status {code}")
        self.call("hipDeviceSynchronize")
        expected = [  # columns first, as BLAS has it
            sum(left[k * ORDER + row] * right[column * ORDER + k] for k in range(ORDER))
            for column in range(ORDER)
            for row in range(ORDER)
        ]
        if self.download(result, ORDER * ORDER) != array.array("f", expected):
            raise Failed("hipblasSgemm: the result differs from the CPU's")
