/* objects.c: what objects.h declares for Pythons that have a function of their own for it no more, or don't export it. */
#define Py_BUILD_CORE
#include <Python.h>
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_dict.h>
#endif
#undef Py_BUILD_CORE

#include "objects.h"

#if PY_VERSION_HEX < 0x030D0000

int FJ_Objects_Init(void) { return 0; }

#else

vectorcallfunc FJ_function_vectorcall;

int FJ_Objects_Init(void) {
    PyObject *globals = PyDict_New();
    PyObject *function = globals != NULL ? PyRun_String("lambda: None", Py_eval_input, globals, globals) : NULL;
    if (function != NULL) {
        FJ_function_vectorcall = ((PyFunctionObject *)function)->vectorcall;
    }
    Py_XDECREF(function);
    Py_XDECREF(globals);
    return function != NULL ? 0 : -1;
}

static int has_only_strings(PyObject *dict) { return DK_IS_UNICODE(((PyDictObject *)dict)->ma_keys); }

/* A str knows its hash. Other keys are only in tables that keep the hashes, whose entries PyDict_Next numbers. */
int FJ_Dict_Next(PyObject *dict, Py_ssize_t *position, PyObject **key, PyObject **value, Py_hash_t *hash) {
    if (!PyDict_Next(dict, position, key, value)) {
        return 0;
    }
    if (has_only_strings(dict)) {
        *hash = PyObject_Hash(*key);
    } else {
        *hash = DK_ENTRIES(((PyDictObject *)dict)->ma_keys)[*position - 1].me_hash;
    }
    return 1;
}

int FJ_Dict_HasOnlyStringKeys(PyObject *dict) {
    if (has_only_strings(dict)) {
        return 1;
    }
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &position, &key, &value)) {
        if (!PyUnicode_Check(key)) {
            return 0;
        }
    }
    return 1;
}

PyObject **FJ_Object_DictSlot(PyObject *object) {
    PyObject **slot = _PyObject_GetDictPtr(object);
#if PY_VERSION_HEX < 0x030E0000
    /* The dict gets values of its own, as by `object.__dict__ = object.__dict__`: those inside the object change without its version tag. */
    PyDictObject *dict = slot != NULL ? (PyDictObject *)*slot : NULL;
    const int is_shared = dict != NULL && dict->ma_values != NULL && dict->ma_values->embedded;
    if (is_shared && PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_INLINE_VALUES) && _PyObject_SetManagedDict(object, *slot) < 0) {
        PyErr_Clear();
    }
#endif
    return slot;
}

#endif
