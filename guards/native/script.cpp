/* script.cpp: the code of a scripted module's method, as guards/script_code.py tells it. */
#include "tree.h"

namespace framejit {

/* What the table says of a method. Borrowed; NULL where it isn't known yet. */
static PyObject *known_code(PyObject *codes, PyObject *method) {
    PyObject *owner = PyObject_GetAttrString(method, "owner");
    PyObject *type = owner == nullptr ? nullptr : PyObject_CallMethod(owner, "_type", nullptr);
    PyObject *name = PyObject_GetAttrString(method, "name");
    PyObject *key = type == nullptr || name == nullptr ? nullptr : PyLong_FromVoidPtr(type);
    PyObject *of_type = key == nullptr ? nullptr : PyDict_GetItemWithError(codes, key);
    PyObject *found = of_type == nullptr ? nullptr : PyDict_GetItemWithError(PyTuple_GET_ITEM(of_type, 1), name);
    Py_XDECREF(owner);
    Py_XDECREF(type);
    Py_XDECREF(name);
    Py_XDECREF(key);
    return found;
}

/* The payload: the table of known code, and the Python function that finds out the rest. While that runs, another thread may let go of what the walk
 * has come to: it is kept. */
PyObject *script_code(GuardTree &tree, const Node &node, PyObject *method) {
    PyObject *found = known_code(PyTuple_GET_ITEM(node.object, 0), method);
    if (found != nullptr) return Py_NewRef(found);
    if (PyErr_Occurred()) return nullptr;
    const auto index = static_cast<size_t>(&node - tree.nodes.data());
    for (size_t i = 0; i < index; i++) {
        PyObject *value = (*tree.reached)[i];
        if (value != nullptr) tree.temporary.push_back(Py_NewRef(value));
    }
    return PyObject_CallOneArg(PyTuple_GET_ITEM(node.object, 1), method);
}

}  // namespace framejit
