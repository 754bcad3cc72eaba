/* caches.cpp: what a cache of functools.lru_cache holds under a key, read without asking the cache, which would count that. */
#include "tree.h"

namespace framejit {

namespace {

PyTypeObject *cached_function = nullptr, *link = nullptr;
Py_ssize_t cache_at = 0, result_at = 0; /* offsets: of the dict in a cached function, of the result in a link of a cache that has a limit */

PyObject *object_at(PyObject *object, Py_ssize_t offset) { return *reinterpret_cast<PyObject **>(reinterpret_cast<char *>(object) + offset); }

/* The key that `parts` stands for: a tuple in which weak references stand for their referents. A new reference; NULL where one is gone. */
PyObject *key_of(PyObject *parts) {
    if (!PyTuple_CheckExact(parts)) return Py_NewRef(parts);
    Py_ssize_t size = PyTuple_GET_SIZE(parts);
    PyObject *key = PyTuple_New(size);
    for (Py_ssize_t i = 0; key != nullptr && i < size; i++) {
        PyObject *part = PyTuple_GET_ITEM(parts, i), *object = PyWeakref_CheckRefExact(part) ? FJ_Weakref_Object(part) : part;
        if (part != object && object == Py_None) {
            Py_CLEAR(key);
        } else {
            PyTuple_SET_ITEM(key, i, Py_NewRef(object));
        }
    }
    return key;
}

/* Parts of a key are constants, and objects that are compared by identity: the lookup runs no user's Python, unless another key has the same hash by chance. */
PyObject *result_in_cache(GuardTree &, Node &node, PyObject *base, const CallView &) {
    if (Py_TYPE(base) != cached_function) return nullptr;
    PyObject *key = key_of(node.object);
    PyObject *found = key == nullptr ? nullptr : PyDict_GetItemWithError(object_at(base, cache_at), key);
    Py_XDECREF(key);
    return found != nullptr && Py_TYPE(found) == link ? Py_NewRef(object_at(found, result_at)) : Py_XNewRef(found);
}

const Registered<AccessorKind> cached({.name = "cached", .read = read_object, .step = result_in_cache, .creates = true});

/* A cached function, the dict in it, a link that this holds, and the link's result. */
constexpr const char *example =
    "import functools, gc\n"
    "result = object()\n"
    "function = functools.lru_cache(lambda key: result)\n"
    "function(1)\n"
    "cache = next(found for found in gc.get_referents(function) if type(found) is dict and 1 in found)\n"
    "found = function, cache, cache[1], result\n";

/* The offset of a pointer to an object in another one; -1, with an exception set, where the object has no such pointer. */
Py_ssize_t offset_of(PyObject *object, PyObject *in) {
    Py_ssize_t size = Py_TYPE(in)->tp_basicsize, word = sizeof(PyObject *);
    for (Py_ssize_t offset = sizeof(PyObject); offset + word <= size; offset += word) {
        if (object_at(in, offset) == object) return offset;
    }
    PyErr_Format(PyExc_SystemError, "framejit does not know the layout of a %s of this Python", Py_TYPE(in)->tp_name);
    return -1;
}

}  // namespace

/* Finds the types, and where they have what is read. */
int init_caches() {
    PyObject *globals = Py_BuildValue("{s:O}", "__builtins__", PyEval_GetBuiltins());
    PyObject *run = globals == nullptr ? nullptr : PyRun_String(example, Py_file_input, globals, globals);
    PyObject *function, *cache, *linked, *result;
    if (run != nullptr && PyArg_ParseTuple(PyDict_GetItemString(globals, "found"), "OO!OO", &function, &PyDict_Type, &cache, &linked, &result)) {
        cached_function = reinterpret_cast<PyTypeObject *>(Py_NewRef(Py_TYPE(function)));
        link = reinterpret_cast<PyTypeObject *>(Py_NewRef(Py_TYPE(linked)));
        cache_at = offset_of(cache, function);
        result_at = offset_of(result, linked);
    }
    Py_XDECREF(run);
    Py_XDECREF(globals);
    return PyErr_Occurred() ? -1 : 0;
}

}  // namespace framejit
