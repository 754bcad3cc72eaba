/* script.cpp: steps from TorchScript's objects to their answers, code and states, as guards/script_source.py takes them. */
#include "tree.h"

namespace framejit {

namespace {

const Registered<AccessorKind> script_answer({
    .name = "script_answer",
    .read = read_object, /* the function that asks */
    .step = [](GuardTree &, Node &node, PyObject *base, const CallView &) { return PyObject_CallOneArg(node.object, base); },
    .creates = true,
});

/* The code of a scripted module's method: a new reference; NULL, maybe with an exception set, where it is not in the table of the code that is known. */
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

/* Asks the Python function that finds out the rest. */
PyObject *find_script_code(const Node &node, PyObject *method) {
    PyObject *found = known_script_code(node, method);
    return found != nullptr || PyErr_Occurred() ? found : PyObject_CallOneArg(PyTuple_GET_ITEM(node.object, 1), method);
}

const Registered<AccessorKind> script_code({
    .name = "script_code",
    .read = read_object, /* the table, and the function */
    .step = [](GuardTree &tree, Node &node, PyObject *base, const CallView &) {
        PyObject *known = known_script_code(node, base);
        if (known != nullptr) return known;
        PyErr_Clear();
        return Py_XNewRef(found_before(tree, node).value);
    },
    .before = find_script_code,
    .creates = true,
});

const Registered<AccessorKind> torchbind_state({
    .name = "torchbind_state",
    .read = read_object, /* the function that asks for it */
    .step = take_found_before,
    .before = [](const Node &node, PyObject *base) { return PyObject_CallOneArg(node.object, base); },
    .creates = true,
});

}  // namespace

}  // namespace framejit
