/* thread_locals.h: whether a threading.local has attributes in the running thread: then a subclass's constructor has run there, or runs. */
#ifndef FRAMEJIT_CPYTHON_THREAD_LOCALS_H
#define FRAMEJIT_CPYTHON_THREAD_LOCALS_H

#include <Python.h>

#include <stddef.h>

#if PY_VERSION_HEX < 0x030D0000

/* Modules/_threadmodule.c: local_new, _ldict. The dict of a thread has a key for each local that it has asked for attributes. */
static inline int FJ_ThreadLocal_HasBegun(PyObject *local) {
    PyObject *all = PyThreadState_GetDict(); /* borrowed */
    PyObject *key = all == NULL ? NULL : PyUnicode_FromFormat("thread.local.%p", local);
    const int found = key == NULL ? 0 : PyDict_Contains(all, key);
    Py_XDECREF(key);
    PyErr_Clear();
    return found > 0;
}

#else

/* Modules/_threadmodule.c: localobject. A local has the dicts of all threads, by the threads' keys. */
typedef struct {
    PyObject_HEAD
    PyObject *args, *keywords, *weak_references, *dicts, *watchdogs;
} FJ_ThreadLocal;

static inline int FJ_ThreadLocal_HasBegun(PyObject *local) {
    PyObject *key = PyThreadState_Get()->threading_local_key;
    PyObject *dicts = Py_TYPE(local)->tp_weaklistoffset == offsetof(FJ_ThreadLocal, weak_references) ? ((FJ_ThreadLocal *)local)->dicts : NULL;
    const int found = key == NULL || dicts == NULL ? 0 : PyDict_Contains(dicts, key);
    PyErr_Clear();
    return found > 0;
}

#endif

#endif
