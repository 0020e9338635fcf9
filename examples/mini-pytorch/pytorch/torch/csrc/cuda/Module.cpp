// Miniature of torch/csrc/cuda/Module.cpp: what torch.cuda and device tensors call.
#include <torch/csrc/cuda/Module.h>

#include <cstring>
#include <memory>

#include <cuda_runtime_api.h>

#include <ATen/cuda/CUDAContext.h>
#include <ATen/native/cuda/Kernels.h>
#include <c10/cuda/CUDAFunctions.h>

using c10::cuda::DeviceBuffer;

static const char* const kBuffer = "torch._C.DeviceBuffer";

static PyObject* wrap(std::unique_ptr<DeviceBuffer> buffer) {
  PyObject* capsule = PyCapsule_New(buffer.get(), kBuffer, [](PyObject* self) {
    delete static_cast<DeviceBuffer*>(PyCapsule_GetPointer(self, kBuffer));
  });
  if (capsule != nullptr) {
    (void)buffer.release();
  }
  return capsule;
}

static DeviceBuffer& unwrap(PyObject* capsule) {
  void* pointer = PyCapsule_GetPointer(capsule, kBuffer);
  if (pointer == nullptr) {
    throw torch::python_error();
  }
  return *static_cast<DeviceBuffer*>(pointer);
}

static PyObject* device_count(PyObject*, PyObject*) { return PyLong_FromLong(c10::cuda::device_count()); }

static PyObject* device_count_error(PyObject*, PyObject*) {
  cudaError_t code = c10::cuda::device_count_error();
  return Py_BuildValue("(is)", static_cast<int>(code), c10::cuda::error_name(code).c_str());
}

static PyObject* arch_flags(PyObject*, PyObject*) { return PyUnicode_FromString(at::cuda::arch_flags()); }

static PyObject* device_name(PyObject*, PyObject* args) {
  int device = 0;
  if (!PyArg_ParseTuple(args, "i", &device)) {
    return nullptr;
  }
  return torch::guarded([&] { return PyUnicode_FromString(c10::cuda::device_name(device).c_str()); });
}

static PyObject* synchronize(PyObject*, PyObject*) {
  return torch::guarded([] {
    c10::cuda::device_synchronize();
    return torch::none();
  });
}

static PyObject* to_device(PyObject*, PyObject* values) {
  return torch::guarded([&] {
    // Asked first, because every later call on a machine without a GPU says "invalid device" instead.
    C10_CUDA_CHECK(c10::cuda::device_count_error());
    return wrap(std::make_unique<DeviceBuffer>(torch::to_vector(values)));
  });
}

static PyObject* to_host(PyObject*, PyObject* capsule) {
  return torch::guarded([&] { return torch::to_list(unwrap(capsule).to_host()); });
}

static PyObject* saxpy(PyObject*, PyObject* args) {
  float alpha = 0;
  PyObject *x = nullptr, *y = nullptr;
  if (!PyArg_ParseTuple(args, "fOO", &alpha, &x, &y)) {
    return nullptr;
  }
  return torch::guarded([&] {
    DeviceBuffer &left = unwrap(x), &right = unwrap(y);
    auto out = std::make_unique<DeviceBuffer>(left.count());
    C10_CUDA_CHECK(at::native::launch_saxpy(alpha, left.data(), right.data(), out->data(),
                                            static_cast<int>(left.count())));
    return wrap(std::move(out));
  });
}

static PyObject* mm(PyObject*, PyObject* args) {
  PyObject *a = nullptr, *b = nullptr;
  int m = 0, k = 0, n = 0;
  if (!PyArg_ParseTuple(args, "OOiii", &a, &b, &m, &k, &n)) {
    return nullptr;
  }
  return torch::guarded([&] {
    DeviceBuffer &left = unwrap(a), &right = unwrap(b);
    auto out = std::make_unique<DeviceBuffer>(static_cast<std::size_t>(m) * static_cast<std::size_t>(n));
    C10_CUDA_CHECK(at::native::launch_mm(left.data(), right.data(), out->data(), m, k, n));
    return wrap(std::move(out));
  });
}

// One small problem per kernel; the values are exact in float.
static PyObject* mini_launch(PyObject*, PyObject* args) {
  const char* kernel = nullptr;
  if (!PyArg_ParseTuple(args, "s", &kernel)) {
    return nullptr;
  }
  return torch::guarded([&]() -> PyObject* {
    if (std::strcmp(kernel, "fill") == 0) {
      return torch::to_tuple(c10::cuda::launch(
          [](const float* const*, float* out, int count) { return at::native::launch_fill(out, 2.5F, count); }, {}, 4));
    }
    if (std::strcmp(kernel, "saxpy") == 0) {
      return torch::to_tuple(c10::cuda::launch(
          [](const float* const* in, float* out, int count) {
            return at::native::launch_saxpy(2.0F, in[0], in[1], out, count);
          },
          {{1, 2, 3, 4}, {0.5F, 0.5F, 0.5F, 0.5F}}, 4));
    }
    if (std::strcmp(kernel, "mm") == 0) {
      return torch::to_tuple(c10::cuda::launch(
          [](const float* const* in, float* out, int count) {
            int side = count == 0 ? 0 : 2;
            return at::native::launch_mm(in[0], in[1], out, side, side, side);
          },
          {{1, 2, 3, 4}, {5, 6, 7, 8}}, 4));
    }
    throw std::invalid_argument("no such kernel; there are: fill, saxpy, mm");
  });
}

static PyMethodDef methods[] = {
    {"_cuda_getDeviceCount", device_count, METH_NOARGS, "devices that the runtime sees"},
    {"_cuda_getDeviceCountError", device_count_error, METH_NOARGS, "(code, name) of asking for devices"},
    {"_cuda_getArchFlags", arch_flags, METH_NOARGS, "compiled-in targets, separated by blanks"},
    {"_cuda_getDeviceName", device_name, METH_VARARGS, "name of a device"},
    {"_cuda_synchronize", synchronize, METH_NOARGS, "wait for the device"},
    {"_cuda_to_device", to_device, METH_O, "floats to device memory"},
    {"_cuda_to_host", to_host, METH_O, "floats from device memory"},
    {"_cuda_saxpy", saxpy, METH_VARARGS, "alpha * x + y on the device"},
    {"_cuda_mm", mm, METH_VARARGS, "matrix product on the device"},
    {"_cuda_miniLaunch", mini_launch, METH_VARARGS, "launch one kernel: (code, name, values)"},
    {nullptr, nullptr, 0, nullptr},
};

namespace torch::cuda {

PyMethodDef* module_methods() { return methods; }

}  // namespace torch::cuda
