// Miniature of apex's amp_C.
#include <torch/csrc/python_values.h>

#ifdef USE_ROCM
#include <c10/cuda/CUDAFunctions.h>
#include <csrc/cuda/multi_tensor_scale.h>

static PyObject* mini_launch(PyObject*, PyObject*) {
  return torch::guarded(
      [] { return torch::to_tuple(c10::cuda::launch(apex::launch_multi_tensor_scale, {{1, 2, 3, 4}}, 4)); });
}
#endif

static PyObject* multi_tensor_scale(PyObject*, PyObject* args) {
  PyObject* values = nullptr;
  float scale = 0;
  if (!PyArg_ParseTuple(args, "Of", &values, &scale)) {
    return nullptr;
  }
  return torch::guarded([&] {
    std::vector<float> out = torch::to_vector(values);
    for (float& value : out) {
      value *= scale;
    }
    return torch::to_list(out);
  });
}

static PyMethodDef methods[] = {
    {"multi_tensor_scale", multi_tensor_scale, METH_VARARGS, "scaling on the CPU"},
#ifdef USE_ROCM
    {"mini_launch", mini_launch, METH_NOARGS, "launch the kernel: (code, name, values)"},
#endif
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "amp_C", "Miniature; not apex.", -1, methods, nullptr, nullptr, nullptr, nullptr,
};

PyMODINIT_FUNC PyInit_amp_C() { return PyModule_Create(&module); }
