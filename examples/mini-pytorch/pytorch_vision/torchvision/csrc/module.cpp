// Miniature of torchvision's extension module.
#include <torch/csrc/python_values.h>

#ifdef USE_ROCM
#include <c10/cuda/CUDAFunctions.h>
#include <torchvision/csrc/ops/cuda/box_area.h>

static PyObject* mini_launch(PyObject*, PyObject*) {
  return torch::guarded([] {
    return torch::to_tuple(c10::cuda::launch(torchvision::launch_box_area, {{0, 0, 2, 3, 1, 1, 5, 2}}, 2));
  });
}
#endif

static PyObject* box_area(PyObject*, PyObject* corners) {
  return torch::guarded([&] {
    std::vector<float> boxes = torch::to_vector(corners);
    if (boxes.size() % 4 != 0) {
      throw std::invalid_argument("a box has four numbers: x1, y1, x2, y2");
    }
    std::vector<float> areas;
    for (std::size_t i = 0; i < boxes.size(); i += 4) {
      areas.push_back((boxes[i + 2] - boxes[i]) * (boxes[i + 3] - boxes[i + 1]));
    }
    return torch::to_list(areas);
  });
}

static PyMethodDef methods[] = {
    {"box_area", box_area, METH_O, "areas of boxes on the CPU"},
#ifdef USE_ROCM
    {"mini_launch", mini_launch, METH_NOARGS, "launch the kernel: (code, name, values)"},
#endif
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "torchvision._C", "Miniature; not torchvision.", -1, methods, nullptr, nullptr, nullptr,
    nullptr,
};

PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&module); }
