// What the two halves of _stacks_native share.

#ifndef STALLSCOPE_STACKS_HPP
#define STALLSCOPE_STACKS_HPP

#define PY_SSIZE_T_CLEAN
#include <Python.h>

// A new dict from threading.get_ident() to the bytes that stand for the thread's stack, without the threads of a set.
// Needs the interpreter; null with an exception where it fails.
PyObject* read_stacks(PyObject* ignored);

extern const char* const kLooksText;
PyObject* looks(PyObject*, PyObject* arguments);
PyObject* begin(PyObject*, PyObject*);
PyObject* cancel(PyObject*, PyObject* number);
PyObject* hold(PyObject*, PyObject*);
PyObject* release(PyObject*, PyObject*);

#endif
