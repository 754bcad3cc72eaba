/* thread_locals.cpp: the attributes that a threading.local has in the running thread, as far as it has some already. */
#include "tree.h"

namespace framejit {

namespace {

/* Modules/_threadmodule.c: _ldict. A thread's dict has a key for each local that it has asked for attributes: then a subclass's constructor has run in it. */
bool has_begun(PyObject *local) {
    PyObject *all = PyThreadState_GetDict(); /* borrowed */
    PyObject *key = all == nullptr ? nullptr : PyUnicode_FromFormat("thread.local.%p", local);
    const int found = key == nullptr ? 0 : PyDict_Contains(all, key);
    Py_XDECREF(key);
    if (found < 0 || (all != nullptr && key == nullptr)) PyErr_Clear();
    return found > 0;
}

PyObject *dict_name = nullptr;

PyObject *attributes(GuardTree &, Node &, PyObject *base, const CallView &) { return has_begun(base) ? PyObject_GetAttr(base, dict_name) : nullptr; }

const Registered<AccessorKind> thread_dict({.name = "thread_dict", .step = attributes, .creates = true});

PyObject *has_thread_attributes(PyObject *, PyObject *local) { return PyBool_FromLong(has_begun(local)); }

PyMethodDef functions[] = {
    {"has_thread_attributes", has_thread_attributes, METH_O, "Return whether a threading.local has attributes in the running thread, so that its constructor has run there."},
    {},
};

}  // namespace

/* Adds the function that tells whether a local's constructor has run in this thread. */
int init_thread_locals(PyObject *module) {
    dict_name = PyUnicode_InternFromString("__dict__");
    return dict_name == nullptr ? -1 : PyModule_AddFunctions(module, functions);
}

}  // namespace framejit
