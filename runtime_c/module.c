/* module.c: framejit._runtime: its types, the Unset sentinel, the thread's switches and the versions it was built for. */
#include "guards.h"
#include "runtime.h"

PyObject *FJ_Unset;

static PyObject *unset_repr(PyObject *self) { return PyUnicode_FromString("Unset"); }

static PyTypeObject unset_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framejit._runtime.UnsetType",
    .tp_doc = "The type of Unset, which stands for an argument slot without a value.",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_repr = unset_repr,
};

/* Sets a switch from a Python truth value; returns what it was before. */
static PyObject *set_switch(int *position, PyObject *value) {
    int truth = PyObject_IsTrue(value);
    if (truth < 0) {
        return NULL;
    }
    int before = *position;
    *position = truth;
    return PyBool_FromLong(before);
}

static PyObject *set_thread_disabled(PyObject *module, PyObject *value) { return set_switch(&FJ_thread.disabled, value); }

static PyObject *set_thread_compiling(PyObject *module, PyObject *value) { return set_switch(&FJ_thread.compiling, value); }

static PyObject *set_globally_disabled(PyObject *module, PyObject *value) { return set_switch(&FJ_globally_disabled, value); }

static PyObject *is_thread_disabled(PyObject *module, PyObject *unused) { return PyBool_FromLong(FJ_thread.disabled); }

static PyObject *is_thread_compiling(PyObject *module, PyObject *unused) { return PyBool_FromLong(FJ_thread.compiling); }

static PyObject *hook_installed(PyObject *module, PyObject *unused) { return PyBool_FromLong(FJ_Hook_IsInstalled()); }

static PyMethodDef module_functions[] = {
    {"set_thread_disabled", set_thread_disabled, METH_O,
     "set_thread_disabled(value, /)\n--\n\nWhile true, compiled functions called on this thread run as written. Returns the value before."},
    {"set_thread_compiling", set_thread_compiling, METH_O,
     "set_thread_compiling(value, /)\n--\n\nMark this thread as tracing, with the same effect as disabling. Returns the value before."},
    {"set_globally_disabled", set_globally_disabled, METH_O,
     "set_globally_disabled(value, /)\n--\n\nWhile true, compiled functions run as written on all threads. Returns the value before."},
    {"is_thread_disabled", is_thread_disabled, METH_NOARGS, "is_thread_disabled()\n--\n\nWhether compiled functions run as written on this thread."},
    {"is_thread_compiling", is_thread_compiling, METH_NOARGS, "is_thread_compiling()\n--\n\nWhether a compile callback is running on this thread."},
    {"hook_installed", hook_installed, METH_NOARGS, "hook_installed()\n--\n\nWhether the interpreter's frame evaluator is framejit's now."},
    {NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "framejit._runtime",
    .m_doc = "The frame hook, the code cache and the guard tree.",
    .m_size = -1,
    .m_methods = module_functions,
};

static int fill_module(PyObject *module) {
    if (PyType_Ready(&unset_type) < 0 || FJ_Frame_Init() < 0) {
        return -1;
    }
    if (FJ_Unset == NULL) {
        FJ_Unset = unset_type.tp_alloc(&unset_type, 0);
    }
    if (FJ_Unset == NULL || PyModule_AddObjectRef(module, "Unset", FJ_Unset) < 0 || FJ_Guards_Init(module) < 0 ||
        PyModule_AddType(module, &FJ_EntryType) < 0 || PyModule_AddType(module, &FJ_CompiledFunctionType) < 0 ||
        PyModule_AddStringConstant(module, "built_for_torch", FRAMEJIT_BUILT_FOR_TORCH) < 0 ||
        PyModule_AddStringConstant(module, "built_for_python", FRAMEJIT_BUILT_FOR_PYTHON) < 0) {
        return -1;
    }
    return 0;
}

PyMODINIT_FUNC PyInit__runtime(void) {
    PyObject *module = PyModule_Create(&module_definition);
    if (module != NULL && fill_module(module) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
