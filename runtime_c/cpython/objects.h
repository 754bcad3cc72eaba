/* objects.h: what framejit asks of CPython's objects that versions say differently, or don't export; objects.c has the longer answers. */
#ifndef FRAMEJIT_CPYTHON_OBJECTS_H
#define FRAMEJIT_CPYTHON_OBJECTS_H

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes what this version's functions below need once. 0, or -1 with an exception set. */
int FJ_Objects_Init(void);

/* The size of a code object's instructions in bytes. */
static inline Py_ssize_t FJ_Code_Size(PyObject *code) { return Py_SIZE(code) * 2; }

#if PY_VERSION_HEX < 0x030D0000

/* Whether a call of the function binds its arguments and runs its frame. */
static inline int FJ_Function_IsPlain(PyFunctionObject *function) { return function->vectorcall == _PyFunction_Vectorcall; }

/* Iteration like PyDict_Next's, with the keys' hashes. */
static inline int FJ_Dict_Next(PyObject *dict, Py_ssize_t *position, PyObject **key, PyObject **value, Py_hash_t *hash) {
    return _PyDict_Next(dict, position, key, value, hash);
}

/* Whether no look-up of an exact str can run Python code. */
static inline int FJ_Dict_HasOnlyStringKeys(PyObject *dict) { return _PyDict_HasOnlyStringKeys(dict); }

/* What a weak reference refers to, borrowed; None where that is gone. */
static inline PyObject *FJ_Weakref_Object(PyObject *reference) { return PyWeakref_GET_OBJECT(reference); }

/* Where an object keeps its dict; NULL, maybe with an exception set, where it has none. The dict may have to be made yet. */
static inline PyObject **FJ_Object_DictSlot(PyObject *object) { return _PyObject_GetDictPtr(object); }

#else

extern vectorcallfunc FJ_function_vectorcall; /* that of functions which nobody has given another one */

static inline int FJ_Function_IsPlain(PyFunctionObject *function) { return function->vectorcall == FJ_function_vectorcall; }

int FJ_Dict_Next(PyObject *dict, Py_ssize_t *position, PyObject **key, PyObject **value, Py_hash_t *hash);

int FJ_Dict_HasOnlyStringKeys(PyObject *dict);

static inline PyObject *FJ_Weakref_Object(PyObject *reference) {
    PyObject *object;
    if (PyWeakref_GetRef(reference, &object) != 1) {
        return Py_None;
    }
    Py_DECREF(object); /* something else holds it, or it would be gone */
    return object;
}

PyObject **FJ_Object_DictSlot(PyObject *object);

/* Exported, and declared in internal headers only. */
PyAPI_FUNC(int) _PyObject_GetMethod(PyObject *object, PyObject *name, PyObject **method);
PyAPI_FUNC(int) _PySet_NextEntry(PyObject *set, Py_ssize_t *position, PyObject **element, Py_hash_t *hash);

#endif

/* Takes the current exception, with its traceback: a new reference, or NULL where there is none. */
static inline PyObject *FJ_Error_Take(void) {
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback != NULL) {
        PyException_SetTraceback(error, traceback);
    }
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return error;
#endif
}

/* Makes an error the current exception as it is, without a context. Steals the reference. */
static inline void FJ_Error_PutBack(PyObject *error) {
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(error);
#else
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(error)), error, PyException_GetTraceback(error));
#endif
}

/* A borrowed reference, or NULL, perhaps with an exception set. */
static inline PyObject *FJ_Dict_Find(PyObject *dict, PyObject *key, Py_hash_t hash) { return _PyDict_GetItem_KnownHash(dict, key, hash); }

/* Iteration over the table of a set, with the elements' hashes. */
static inline int FJ_Set_NextHashed(PyObject *set, Py_ssize_t *position, PyObject **element, Py_hash_t *hash) {
    return _PySet_NextEntry(set, position, element, hash);
}

static inline int FJ_Set_Next(PyObject *set, Py_ssize_t *position, PyObject **element) {
    Py_hash_t hash;
    return FJ_Set_NextHashed(set, position, element, &hash);
}

#ifdef __cplusplus
}
#endif

#endif
