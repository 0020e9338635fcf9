// Miniature: Python sequences of numbers to std::vector<float> and back, C++ exceptions to Python's.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <exception>
#include <stdexcept>
#include <vector>

namespace torch {

// Thrown when a Python error is already set.
struct python_error : std::exception {};

inline std::vector<float> to_vector(PyObject* values) {
  PyObject* items = PySequence_Fast(values, "expected a sequence of numbers");
  if (items == nullptr) {
    throw python_error();
  }
  std::vector<float> out(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(items)));
  for (std::size_t i = 0; i < out.size(); ++i) {
    double value = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(items, static_cast<Py_ssize_t>(i)));
    if (value == -1.0 && PyErr_Occurred() != nullptr) {
      Py_DECREF(items);
      throw python_error();
    }
    out[i] = static_cast<float>(value);
  }
  Py_DECREF(items);
  return out;
}

inline PyObject* to_list(const std::vector<float>& values) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(values.size()));
  for (std::size_t i = 0; list != nullptr && i < values.size(); ++i) {
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), PyFloat_FromDouble(values[i]));
  }
  return list;
}

inline PyObject* none() {
  Py_INCREF(Py_None);
  return Py_None;
}

// (code, name, values or None)
template <class Result>
PyObject* to_tuple(const Result& result) {
  PyObject* values = result.code == 0 ? to_list(result.values) : none();
  return values == nullptr ? nullptr : Py_BuildValue("(isN)", result.code, result.name.c_str(), values);
}

// Runs a function that returns a new reference; no C++ exception crosses into the interpreter.
template <class Function>
PyObject* guarded(Function function) {
  try {
    return function();
  } catch (const python_error&) {
  } catch (const std::invalid_argument& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

}  // namespace torch
