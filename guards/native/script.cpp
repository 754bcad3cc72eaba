/* script.cpp: the code of a scripted module's method, as guards/script_code.py tells it. */
#include "tree.h"

namespace framejit {

PyObject *known_script_code(const Node &node, PyObject *method) {
    PyObject *codes = PyTuple_GET_ITEM(node.object, 0);
    PyObject *owner = PyObject_GetAttrString(method, "owner");
    PyObject *type = owner == nullptr ? nullptr : PyObject_CallMethod(owner, "_type", nullptr);
    PyObject *name = PyObject_GetAttrString(method, "name");
    PyObject *key = type == nullptr || name == nullptr ? nullptr : PyLong_FromVoidPtr(type);
    PyObject *of_type = key == nullptr ? nullptr : PyDict_GetItemWithError(codes, key);
    PyObject *found = of_type == nullptr ? nullptr : PyDict_GetItemWithError(PyTuple_GET_ITEM(of_type, 1), name);
    Py_XINCREF(found);
    Py_XDECREF(owner);
    Py_XDECREF(type);
    Py_XDECREF(name);
    Py_XDECREF(key);
    return found;
}

PyObject *script_code(const Node &node, PyObject *method) {
    PyObject *found = known_script_code(node, method);
    return found != nullptr || PyErr_Occurred() ? found : PyObject_CallOneArg(PyTuple_GET_ITEM(node.object, 1), method);
}

}  // namespace framejit
