// Miniature of torchaudio's extension module.
#include <torch/csrc/python_values.h>

#ifdef USE_ROCM
#include <c10/cuda/CUDAFunctions.h>
#include <torchaudio/csrc/cuda/preemphasis.h>

static PyObject* mini_launch(PyObject*, PyObject*) {
  return torch::guarded(
      [] { return torch::to_tuple(c10::cuda::launch(torchaudio::launch_preemphasis, {{1, 2, 3, 4}}, 4)); });
}
#endif

static PyObject* preemphasis(PyObject*, PyObject* args) {
  PyObject* waveform = nullptr;
  float coefficient = 0;
  if (!PyArg_ParseTuple(args, "Of", &waveform, &coefficient)) {
    return nullptr;
  }
  return torch::guarded([&] {
    std::vector<float> x = torch::to_vector(waveform), y = x;
    for (std::size_t i = 1; i < x.size(); ++i) {
      y[i] = x[i] - coefficient * x[i - 1];
    }
    return torch::to_list(y);
  });
}

static PyMethodDef methods[] = {
    {"preemphasis", preemphasis, METH_VARARGS, "pre-emphasis on the CPU"},
#ifdef USE_ROCM
    {"mini_launch", mini_launch, METH_NOARGS, "launch the kernel: (code, name, values)"},
#endif
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "torchaudio._torchaudio", "Miniature; not torchaudio.", -1, methods, nullptr, nullptr,
    nullptr, nullptr,
};

PyMODINIT_FUNC PyInit__torchaudio() { return PyModule_Create(&module); }
