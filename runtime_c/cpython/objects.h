/* objects.h: what framejit asks of CPython's objects that later versions say otherwise, or don't export. */
#ifndef FRAMEJIT_CPYTHON_OBJECTS_H
#define FRAMEJIT_CPYTHON_OBJECTS_H

#include <Python.h>

#if PY_VERSION_HEX >= 0x030D0000
#error "not known of this Python: write these for it"
#endif

/* The size of a code object's instructions in bytes. */
static inline Py_ssize_t FJ_Code_Size(PyObject *code) { return Py_SIZE(code) * (Py_ssize_t)sizeof(_Py_CODEUNIT); }

/* Whether a call of the function binds its arguments and runs its frame. */
static inline int FJ_Function_IsPlain(PyFunctionObject *function) { return function->vectorcall == _PyFunction_Vectorcall; }

/* Iteration like PyDict_Next's, with the keys' hashes. */
static inline int FJ_Dict_Next(PyObject *dict, Py_ssize_t *position, PyObject **key, PyObject **value, Py_hash_t *hash) {
    return _PyDict_Next(dict, position, key, value, hash);
}

/* Whether no look-up of an exact str can run Python code. */
static inline int FJ_Dict_HasOnlyStringKeys(PyObject *dict) { return _PyDict_HasOnlyStringKeys(dict); }

/* A borrowed reference, or NULL, perhaps with an exception set. */
static inline PyObject *FJ_Dict_Find(PyObject *dict, PyObject *key, Py_hash_t hash) { return _PyDict_GetItem_KnownHash(dict, key, hash); }

static inline int FJ_Set_Next(PyObject *set, Py_ssize_t *position, PyObject **element) {
    Py_hash_t hash;
    return _PySet_NextEntry(set, position, element, &hash);
}

/* What a weak reference refers to, borrowed; None where that is gone. */
static inline PyObject *FJ_Weakref_Object(PyObject *reference) { return PyWeakref_GET_OBJECT(reference); }

#endif
