// Miniature of torch._C: CPU operators here, device functions in cuda/Module.cpp.
#include <torch/csrc/python_values.h>

#include <ATen/native/cpu/Ops.h>
#ifdef USE_CUDA
#include <torch/csrc/cuda/Module.h>
#endif

static PyObject* saxpy(PyObject*, PyObject* args) {
  float alpha = 0;
  PyObject *x = nullptr, *y = nullptr;
  if (!PyArg_ParseTuple(args, "fOO", &alpha, &x, &y)) {
    return nullptr;
  }
  return torch::guarded(
      [&] { return torch::to_list(at::native::saxpy_cpu(alpha, torch::to_vector(x), torch::to_vector(y))); });
}

static PyObject* mm(PyObject*, PyObject* args) {
  PyObject *a = nullptr, *b = nullptr;
  Py_ssize_t m = 0, k = 0, n = 0;
  if (!PyArg_ParseTuple(args, "OOnnn", &a, &b, &m, &k, &n)) {
    return nullptr;
  }
  return torch::guarded([&] {
    return torch::to_list(at::native::mm_cpu(torch::to_vector(a), torch::to_vector(b), static_cast<std::size_t>(m),
                                             static_cast<std::size_t>(k), static_cast<std::size_t>(n)));
  });
}

static PyObject* third_party_platform(PyObject*, PyObject*) {
  return PyUnicode_FromString(at::native::third_party_platform().c_str());
}

static PyMethodDef methods[] = {
    {"_saxpy", saxpy, METH_VARARGS, "alpha * x + y on the CPU"},
    {"_mm", mm, METH_VARARGS, "matrix product on the CPU"},
    {"_third_party_platform", third_party_platform, METH_NOARGS, "platform the submodule was prepared for"},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "torch._C", "Miniature of torch._C; not PyTorch.", -1, methods, nullptr, nullptr, nullptr,
    nullptr,
};

PyMODINIT_FUNC PyInit__C() {
  PyObject* self = PyModule_Create(&module);
#ifdef USE_CUDA
  if (self != nullptr && PyModule_AddFunctions(self, torch::cuda::module_methods()) < 0) {
    Py_DECREF(self);
    return nullptr;
  }
#endif
  return self;
}
