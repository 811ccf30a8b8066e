// The stacks of all threads of this process, read while no thread of Python can run.
//
// A stack is told as bytes: of each frame, innermost first, the address of its code and the offset of its instruction.
// Equal bytes are equal stacks, so a stack that was seen before costs no more than reading it. Code whose address was
// given out is kept alive, so that an address never means another code.
//
// Frames are looked at through sys._current_frames and PyFrame_GetBack (https://docs.python.org/3/c-api/frame.html).
// From the first to the last look nothing runs that could hand the interpreter to another thread: no bytecode, and no
// garbage collection, which is held back. So no frame can end while an object for it is held here.

#include "stacks.hpp"

#ifdef Py_GIL_DISABLED
#error "without the interpreter's lock, frames end while they are read"
#endif

#include <cstdint>
#include <cstring>
#include <new>
#include <unordered_set>

namespace {

constexpr int kMostFrames = 256;
constexpr size_t kMostCodes = size_t{1} << 20;

struct Place {
  std::uint64_t code;
  std::int64_t offset;
};

std::unordered_set<PyCodeObject*>* codes_kept = nullptr;
PyObject* current_frames = nullptr;

// Keeps a code alive; false where too many are kept already. Takes the reference.
bool keep(PyCodeObject* code) {
  if (codes_kept->count(code) != 0) {
    Py_DECREF(code);  // not the last: the set has one
    return true;
  }
  if (codes_kept->size() >= kMostCodes) {
    Py_DECREF(code);
    return false;
  }
  codes_kept->insert(code);
  return true;
}

// The places of a stack, innermost first; -1 where one of its codes cannot be kept.
int places_of(PyFrameObject* frame, Place* places) {
  int count = 0;
  Py_INCREF(frame);
  while (frame != nullptr && count < kMostFrames) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (!keep(code)) {
      count = -1;
      break;
    }
    places[count].code = reinterpret_cast<std::uintptr_t>(code);
    places[count].offset = PyFrame_GetLasti(frame);
    ++count;
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return count;
}

PyObject* stacks_from(PyObject* frames, PyObject* ignored) {
  PyObject* stacks = PyDict_New();
  PyObject *thread, *frame;
  Py_ssize_t position = 0;
  Place places[kMostFrames];
  while (stacks != nullptr && PyDict_Next(frames, &position, &thread, &frame)) {
    int skip = PySet_Contains(ignored, thread);
    if (skip < 0) Py_CLEAR(stacks);
    if (skip != 0) continue;
    int count = places_of(reinterpret_cast<PyFrameObject*>(frame), places);
    if (count <= 0) continue;
    PyObject* stack = PyBytes_FromStringAndSize(reinterpret_cast<char*>(places), count * sizeof(Place));
    if (stack == nullptr || PyDict_SetItem(stacks, thread, stack) < 0) Py_CLEAR(stacks);
    Py_XDECREF(stack);
  }
  return stacks;
}

PyObject* described(const Place& place) {
  auto* code = reinterpret_cast<PyCodeObject*>(static_cast<std::uintptr_t>(place.code));
  if (codes_kept->count(code) == 0) {
    PyErr_SetString(PyExc_ValueError, "these bytes are no stack that was read here");
    return nullptr;
  }
  int line = PyCode_Addr2Line(code, static_cast<int>(place.offset));
  return Py_BuildValue("(OiO)", code->co_filename, line < 0 ? 0 : line, code->co_name);
}

PyObject* frames_in(PyObject*, PyObject* stack) {
  char* bytes;
  Py_ssize_t length;
  if (PyBytes_AsStringAndSize(stack, &bytes, &length) < 0) return nullptr;
  if (length % static_cast<Py_ssize_t>(sizeof(Place)) != 0) {
    PyErr_SetString(PyExc_ValueError, "these bytes are no stack that was read here");
    return nullptr;
  }
  PyObject* frames = PyList_New(0);
  for (Py_ssize_t at = 0; frames != nullptr && at < length; at += sizeof(Place)) {
    Place place;
    std::memcpy(&place, bytes + at, sizeof(Place));
    PyObject* frame = described(place);
    if (frame == nullptr || PyList_Append(frames, frame) < 0) Py_CLEAR(frames);
    Py_XDECREF(frame);
  }
  return frames;
}

PyMethodDef methods[] = {
    {"frames_in", frames_in, METH_O, "File, line and function of each frame of a stack, innermost first."},
    {"looks", looks, METH_VARARGS, kLooksText},
    {"begin", begin, METH_NOARGS, "A new turn, for looks(); every earlier one is over."},
    {"cancel", cancel, METH_O, "Ends a turn."},
    {"hold", hold, METH_NOARGS, "Until release(), nothing is queued for the main thread."},
    {"release", release, METH_NOARGS, "Takes hold() back."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_stacks_native", "Stacks of all threads.", -1, methods, nullptr, nullptr, nullptr, nullptr,
};

}  // namespace

PyObject* read_stacks(PyObject* ignored) {
  int collected = PyGC_Disable();
  PyObject* stacks = nullptr;
  PyObject* frames = PyObject_CallNoArgs(current_frames);
  if (frames != nullptr) {
    try {
      stacks = stacks_from(frames, ignored);
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
      Py_CLEAR(stacks);
    }
    Py_DECREF(frames);
  }
  if (collected) PyGC_Enable();
  return stacks;
}

PyMODINIT_FUNC PyInit__stacks_native() {
  PyObject* found = PySys_GetObject("_current_frames");  // borrowed
  if (found == nullptr) {
    PyErr_SetString(PyExc_ImportError, "sys._current_frames is not there");
    return nullptr;
  }
  if (codes_kept == nullptr) codes_kept = new (std::nothrow) std::unordered_set<PyCodeObject*>();
  if (codes_kept == nullptr) return PyErr_NoMemory();
  Py_XSETREF(current_frames, Py_NewRef(found));
  return PyModule_Create(&module);
}
