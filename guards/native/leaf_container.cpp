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

/* An OrderedDict counts the changes of its order, which no version tag shows, in the sixth word behind its dict (odictobject.c: od_state). */
static bool counts_changes = false;

const void *order_of(PyObject *ordered_dict) {
    return counts_changes ? reinterpret_cast<const char *>(ordered_dict) + sizeof(PyDictObject) + 5 * sizeof(void *) : nullptr;
}

/* Finds out whether that is so. 0, or -1 with an exception set. */
int init_leaf_container() {
    PyObject *collections = PyImport_ImportModule("collections");
    PyObject *ordered = collections == nullptr ? nullptr : PyObject_CallMethod(collections, "OrderedDict", "({s:i,s:i})", "a", 1, "b", 2);
    Py_XDECREF(collections);
    if (ordered == nullptr) return -1;
    counts_changes = PyODict_CheckExact(ordered);
    for (int i = 0; i < 4 && counts_changes; i++) {
        uint64_t before = load(order_of(ordered));
        PyObject *none = i < 2 ? PyObject_CallMethod(ordered, "move_to_end", "si", "a", 1 - i) : PyObject_CallMethod(ordered, "popitem", "i", i - 2);
        if (none == nullptr) break;
        Py_DECREF(none);
        counts_changes = load(order_of(ordered)) > before;
    }
    Py_DECREF(ordered);
    return PyErr_Occurred() ? -1 : 0;
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
