// The Python face of the native scanner: blocks of a file in, columns out. native_scanner.py wraps it.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>
#include <new>
#include <random>

#include "document.hpp"

namespace stallscope {
namespace {

struct ScannerObject {
    PyObject_HEAD
    KnownIntegers* known;
    Document* document;
    size_t handed_strings, handed_metadata;
};

PyObject* to_bytes(const void* data, size_t size) {
    return PyBytes_FromStringAndSize(static_cast<const char*>(data), static_cast<Py_ssize_t>(size));
}

template <class Value>
PyObject* to_bytes(const std::vector<Value>& values) {
    return to_bytes(values.data(), values.size() * sizeof(Value));
}

PyObject* to_text(View text) { return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr); }

// Adds an object that was just made to a dict, and gives it up; false with an error set if either failed.
bool put(PyObject* dict, const char* key, PyObject* value) {
    if (!value) return false;
    const int failed = PyDict_SetItemString(dict, key, value);
    Py_DECREF(value);
    return failed == 0;
}

void scanner_dealloc(PyObject* self) {
    auto* scanner = reinterpret_cast<ScannerObject*>(self);
    delete scanner->document;
    delete scanner->known;
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

// Reads [(key, column), ...] where a negative column means that the member is dropped.
bool read_known(PyObject* list, KnownIntegers& known) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
        const char* key = nullptr;
        int column = 0;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "si", &key, &column)) return false;
        if (column >= kMaxColumns) {
            PyErr_SetString(PyExc_ValueError, "too many columns of integers");
            return false;
        }
        known.add(key, column < 0 ? KnownIntegers::kDropped : column);
        known.columns = std::max(known.columns, column + 1);
    }
    return true;
}

uint64_t random_seed() {
    std::random_device device;
    return static_cast<uint64_t>(device()) << 32 | device();
}

PyObject* scanner_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject* list = nullptr;
    int address = 0;
    Py_ssize_t event, repair, strings, string_bytes, metadata, events, bytes;
    if (!PyArg_ParseTuple(args, "O!i(nnnnnnn)", &PyList_Type, &list, &address, &event, &repair, &strings, &string_bytes, &metadata,
                          &events, &bytes)) {
        return nullptr;
    }
    auto* self = reinterpret_cast<ScannerObject*>(type->tp_alloc(type, 0));
    if (!self) return nullptr;
    auto size = [](Py_ssize_t limit) { return static_cast<size_t>(std::max<Py_ssize_t>(0, limit)); };
    try {
        self->known = new KnownIntegers;
        self->known->address_column = address;
        if (read_known(list, *self->known)) {
            const Limits limits{size(event), size(repair), size(strings), size(string_bytes), size(metadata), size(events), size(bytes)};
            self->document = new Document(limits, *self->known, random_seed());
            return reinterpret_cast<PyObject*>(self);
        }
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_MemoryError, error.what());
    }
    Py_DECREF(self);
    return nullptr;
}

// add_strings(texts): begins the table of strings with these.
PyObject* scanner_add_strings(PyObject* self, PyObject* list) {
    auto* scanner = reinterpret_cast<ScannerObject*>(self);
    if (!PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "expected a list of texts");
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
        Py_ssize_t size = 0;
        const char* text = PyUnicode_AsUTF8AndSize(PyList_GET_ITEM(list, i), &size);
        if (!text) return nullptr;
        StringIndex& strings = scanner->document->strings;
        const View view(text, static_cast<size_t>(size));
        try {
            strings.add(view, strings.hash(view));
        } catch (const std::bad_alloc&) {
            return PyErr_NoMemory();
        }
    }
    scanner->handed_strings = scanner->document->strings.size();
    Py_RETURN_NONE;
}

// feed(block): adds a piece of the file.
PyObject* scanner_feed(PyObject* self, PyObject* block) {
    Py_buffer buffer;
    if (PyObject_GetBuffer(block, &buffer, PyBUF_SIMPLE) != 0) return nullptr;
    bool fits = true;
    try {
        reinterpret_cast<ScannerObject*>(self)->document->feed(static_cast<const char*>(buffer.buf), static_cast<size_t>(buffer.len));
    } catch (const std::exception&) {
        fits = false;
    }
    PyBuffer_Release(&buffer);
    if (!fits) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

PyObject* scanner_finish(PyObject* self, PyObject*) {
    reinterpret_cast<ScannerObject*>(self)->document->finish();
    Py_RETURN_NONE;
}

// run() -> 0 if it needs more of the file, 1 if the batch is full, 2 at the end.
PyObject* scanner_run(PyObject* self, PyObject*) {
    Document* const document = reinterpret_cast<ScannerObject*>(self)->document;
    auto progress = Document::Progress::kEnded;
    bool fits = true;
    Py_BEGIN_ALLOW_THREADS;
    try {
        progress = document->run();
    } catch (const std::exception&) {
        fits = false;
    }
    Py_END_ALLOW_THREADS;
    if (!fits) return PyErr_NoMemory();
    return PyLong_FromLong(static_cast<long>(progress));
}

bool put_numbers(PyObject* batch, const Rows& rows) {
    PyObject* list = PyList_New(static_cast<Py_ssize_t>(rows.numbers.size()));
    if (!list) return false;
    for (size_t i = 0; i < rows.numbers.size(); ++i) {
        const NumberColumn& column = rows.numbers[i];
        PyObject* pair = column.used ? Py_BuildValue("NN", to_bytes(column.values.data(), rows.size() * sizeof(int64_t)),
                                                     to_bytes(column.present.data(), rows.size()))
                                     : Py_NewRef(Py_None);
        if (!pair) {
            Py_DECREF(list);
            return false;
        }
        PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), pair);
    }
    return put(batch, "numbers", list);
}

bool put_rest(PyObject* batch, const Rows& rows) {
    const std::vector<int32_t> offsets(rows.texts.starts().begin(), rows.texts.starts().end());
    return put(batch, "rest", to_bytes(rows.rest)) && put(batch, "rest_offsets", to_bytes(offsets)) &&
           put(batch, "rest_data", to_bytes(rows.texts.text().data(), rows.texts.bytes()));
}

bool put_columns(PyObject* batch, const Rows& rows) {
    static constexpr const char* kLabelNames[kLabels] = {"name", "category", "process", "thread", "flow_id", "scope"};
    for (int i = 0; i < kLabels; ++i) {
        if (!put(batch, kLabelNames[i], i == kFlowId ? to_bytes(rows.flow_id) : to_bytes(rows.label[i]))) return false;
    }
    return put(batch, "phase", to_bytes(rows.phase)) && put(batch, "ts", to_bytes(rows.ts)) && put(batch, "dur", to_bytes(rows.dur)) &&
           put(batch, "has_ts", to_bytes(rows.has_ts)) && put(batch, "has_dur", to_bytes(rows.has_dur)) &&
           put(batch, "offset", to_bytes(rows.offset));
}

// take() -> the columns of the batch as bytes by name, and begins the next batch.
PyObject* scanner_take(PyObject* self, PyObject*) {
    Rows& rows = reinterpret_cast<ScannerObject*>(self)->document->rows;
    PyObject* batch = PyDict_New();
    if (!batch) return nullptr;
    try {
        if (put_columns(batch, rows) && put_numbers(batch, rows) && put_rest(batch, rows)) {
            rows.clear();
            return batch;
        }
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    }
    Py_DECREF(batch);
    return nullptr;
}

// new_strings() -> the texts that were added to the table since the last call.
PyObject* scanner_new_strings(PyObject* self, PyObject*) {
    auto* scanner = reinterpret_cast<ScannerObject*>(self);
    const StringIndex& strings = scanner->document->strings;
    PyObject* list = PyList_New(static_cast<Py_ssize_t>(strings.size() - scanner->handed_strings));
    if (!list) return nullptr;
    for (size_t code = scanner->handed_strings; code < strings.size(); ++code) {
        PyObject* text = to_text(strings.view(static_cast<int32_t>(code)));
        if (!text) {
            Py_DECREF(list);
            return nullptr;
        }
        PyList_SET_ITEM(list, static_cast<Py_ssize_t>(code - scanner->handed_strings), text);
    }
    scanner->handed_strings = strings.size();
    return list;
}

// new_metadata() -> [(key, JSON text), ...] of the members of the top level since the last call.
PyObject* scanner_new_metadata(PyObject* self, PyObject*) {
    auto& metadata = reinterpret_cast<ScannerObject*>(self)->document->metadata;
    PyObject* list = PyList_New(static_cast<Py_ssize_t>(metadata.size()));
    if (!list) return nullptr;
    for (size_t i = 0; i < metadata.size(); ++i) {
        PyObject* pair = Py_BuildValue("NN", to_text(metadata[i].first), to_text(metadata[i].second));
        if (!pair) {
            Py_DECREF(list);
            return nullptr;
        }
        PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), pair);
    }
    metadata.clear();
    return list;
}

// damage() -> {kind: (count, offset of the first)}.
PyObject* scanner_damage(PyObject* self, PyObject*) {
    const Document& document = *reinterpret_cast<ScannerObject*>(self)->document;
    PyObject* result = PyDict_New();
    if (!result) return nullptr;
    for (int kind = 0; kind < kDamageKinds; ++kind) {
        if (document.damage[kind] == 0) continue;
        PyObject* pair = Py_BuildValue("KL", static_cast<unsigned long long>(document.damage[kind]),
                                       static_cast<long long>(document.damage_offset[kind]));
        if (!put(result, kDamageNames[kind], pair)) {
            Py_DECREF(result);
            return nullptr;
        }
    }
    return result;
}

PyMethodDef kMethods[] = {
    {"add_strings", scanner_add_strings, METH_O, "Begins the table of strings with these."},
    {"feed", scanner_feed, METH_O, "Adds a piece of the file."},
    {"finish", scanner_finish, METH_NOARGS, "Says that the file ends after the pieces so far."},
    {"run", scanner_run, METH_NOARGS, "0 if more of the file is needed, 1 if the batch is full, 2 at the end."},
    {"take", scanner_take, METH_NOARGS, "The columns of the batch as bytes by name; begins the next batch."},
    {"new_strings", scanner_new_strings, METH_NOARGS, "The texts added to the table of strings since the last call."},
    {"new_metadata", scanner_new_metadata, METH_NOARGS, "(key, JSON text) of the top level since the last call."},
    {"damage", scanner_damage, METH_NOARGS, "Kind -> (count, offset of the first)."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot kSlots[] = {
    {Py_tp_new, reinterpret_cast<void*>(scanner_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(scanner_dealloc)},
    {Py_tp_methods, kMethods},
    {0, nullptr},
};

PyType_Spec kSpec = {"stallscope.collectors.importers.scanner._native.Scanner", sizeof(ScannerObject), 0, Py_TPFLAGS_DEFAULT, kSlots};

PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "_native", "Scans JSON traces.", -1, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace stallscope

PyMODINIT_FUNC PyInit__native() {
    PyObject* module = PyModule_Create(&stallscope::kModule);
    PyObject* type = module ? PyType_FromSpec(&stallscope::kSpec) : nullptr;
    if (!type || PyModule_AddObject(module, "Scanner", type) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(module);
        return nullptr;
    }
    return module;
}
