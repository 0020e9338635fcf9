// Miniature of libtriton: two integer functions that the real package has in Python.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject* cdiv(PyObject*, PyObject* args) {
  long long x = 0, y = 0;
  if (!PyArg_ParseTuple(args, "LL", &x, &y)) {
    return nullptr;
  }
  if (x < 0 || y <= 0) {
    PyErr_SetString(PyExc_ValueError, "cdiv wants a non-negative dividend and a positive divisor");
    return nullptr;
  }
  return PyLong_FromLongLong(x / y + (x % y != 0 ? 1 : 0));
}

static PyObject* next_power_of_2(PyObject*, PyObject* args) {
  long long n = 0;
  if (!PyArg_ParseTuple(args, "L", &n)) {
    return nullptr;
  }
  if (n < 1 || n > (1LL << 62)) {
    PyErr_SetString(PyExc_ValueError, "next_power_of_2 wants a number from 1 to 2**62");
    return nullptr;
  }
  long long power = 1;
  while (power < n) {
    power *= 2;
  }
  return PyLong_FromLongLong(power);
}

static PyMethodDef methods[] = {
    {"cdiv", cdiv, METH_VARARGS, "division rounded up"},
    {"next_power_of_2", next_power_of_2, METH_VARARGS, "smallest power of two that is not below n"},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "triton._C.libtriton", "Miniature; not Triton.", -1, methods, nullptr, nullptr, nullptr,
    nullptr,
};

PyMODINIT_FUNC PyInit_libtriton() { return PyModule_Create(&module); }
