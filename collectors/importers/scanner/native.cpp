#include <Python.h>
static PyModuleDef m={PyModuleDef_HEAD_INIT,"_native",nullptr,-1,nullptr};PyMODINIT_FUNC PyInit__native(){return PyModule_Create(&m);}
