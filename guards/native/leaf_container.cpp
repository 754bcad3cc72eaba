/* leaf_container.cpp: lengths, keys and elements of the builtin containers, or of that part of their subclasses. */
#include "tree.h"

namespace framejit {

/* Length: by the memory of the builtin type, so that a subclass's __len__ isn't called. */
bool has_length(PyObject *value, Py_ssize_t length) {
    if (PyDict_Check(value)) return PyDict_GET_SIZE(value) == length;
    if (PyTuple_Check(value)) return PyTuple_GET_SIZE(value) == length;
    if (PyList_Check(value)) return PyList_GET_SIZE(value) == length;
    if (PyUnicode_Check(value)) return PyUnicode_GET_LENGTH(value) == length;
    if (PyBytes_Check(value)) return PyBytes_GET_SIZE(value) == length;
    if (PyAnySet_Check(value)) return PySet_GET_SIZE(value) == length;
    if (PyObject_TypeCheck(value, deque_type())) return Py_SIZE(value) == length;
    return false;
}

/* An OrderedDict has an order of its own, which only its iterator knows. The iterator looks keys up again: constants only. */
static bool has_ordered_keys(PyObject *dict, PyObject *keys) {
    Py_ssize_t position = 0;
    PyObject *key;
    while (PyDict_Next(dict, &position, &key, nullptr)) {
        if (!is_immutable_constant(key)) return false;
    }
    PyObject *iterator = PyODict_Type.tp_iter(dict);
    if (iterator == nullptr) {
        PyErr_Clear();
        return false;
    }
    Py_ssize_t count = 0;
    bool same = true;
    while (same && (key = Py_TYPE(iterator)->tp_iternext(iterator)) != nullptr) {
        same = count < PyTuple_GET_SIZE(keys) && same_constant(key, PyTuple_GET_ITEM(keys, count));
        count++;
        Py_DECREF(key);  /* the dict holds it */
    }
    if (PyErr_Occurred()) PyErr_Clear();
    Py_DECREF(iterator);
    return same && count == PyTuple_GET_SIZE(keys);
}

/* DictKeys: these keys in this order. */
bool has_keys(PyObject *dict, PyObject *keys) {
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return false;
    if (PyODict_Check(dict)) return has_ordered_keys(dict, keys);
    Py_ssize_t position = 0, count = 0;
    PyObject *key;
    while (PyDict_Next(dict, &position, &key, nullptr)) {
        if (!same_constant(key, PyTuple_GET_ITEM(keys, count++))) return false;
    }
    return true;
}

/* SetEquals: exactly these elements, in this order of iteration. */
bool has_elements(PyObject *set, PyObject *elements) {
    if (!PyAnySet_Check(set) || PySet_GET_SIZE(set) != PyTuple_GET_SIZE(elements)) return false;
    Py_ssize_t position = 0, count = 0;
    PyObject *element;
    Py_hash_t hash;
    while (_PySet_NextEntry(set, &position, &element, &hash)) {
        if (!same_constant(element, PyTuple_GET_ITEM(elements, count++))) return false;
    }
    return true;
}

}  // namespace framejit
