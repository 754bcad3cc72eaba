/* thread_locals.cpp: the attributes that a threading.local has in the running thread, as far as it has some already. */
#include "tree.h"

#include "cpython/thread_locals.h"

namespace framejit {

namespace {

PyObject *dict_name = nullptr;

PyObject *attributes(GuardTree &, Node &, PyObject *base, const CallView &) {
    return FJ_ThreadLocal_HasBegun(base) ? PyObject_GetAttr(base, dict_name) : nullptr;
}

const Registered<AccessorKind> thread_dict({.name = "thread_dict", .step = attributes, .creates = true});

PyObject *has_thread_attributes(PyObject *, PyObject *local) { return PyBool_FromLong(FJ_ThreadLocal_HasBegun(local)); }

PyMethodDef functions[] = {
    {"has_thread_attributes", has_thread_attributes, METH_O, "Return whether a threading.local has attributes in the running thread: its constructor has run there."},
    {},
};

}  // namespace

/* Adds the function that tells whether a local's constructor has run in this thread. */
int init_thread_locals(PyObject *module) {
    dict_name = PyUnicode_InternFromString("__dict__");
    return dict_name == nullptr ? -1 : PyModule_AddFunctions(module, functions);
}

}  // namespace framejit
