/* locks.cpp: locks of the threading module that a walk takes, so that they are free where its guards hold, and held from then on. */
#include "tree.h"

namespace framejit {

namespace {

PyTypeObject *lock_type = nullptr, *reentrant_type = nullptr, *held_type = nullptr;
PyObject *acquire_name = nullptr, *release_name = nullptr;

/* A lock that a walk has taken. It is released once, at the latest when this object goes: after a walk that doesn't match, at once. */
struct HeldLock {
    PyObject_HEAD
    PyObject *lock; /* strong; NULL: it has been released */
};

int release(HeldLock *held) {
    PyObject *lock = held->lock;
    if (lock == nullptr) return 0;
    held->lock = nullptr;
    PyObject *nothing = PyObject_CallMethodNoArgs(lock, release_name);
    Py_DECREF(lock);
    Py_XDECREF(nothing);
    return nothing == nullptr ? -1 : 0;
}

void held_dealloc(PyObject *self) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (release(reinterpret_cast<HeldLock *>(self)) < 0) PyErr_WriteUnraisable(nullptr); /* a program has released it meanwhile */
    PyErr_Restore(type, value, traceback);
    PyTypeObject *held = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(held);
}

/* Neither blocks nor lets other threads run: a lock that is taken isn't waited for. */
PyObject *taken(GuardTree &, Node &, PyObject *base, const CallView &) {
    if (Py_TYPE(base) != lock_type && Py_TYPE(base) != reentrant_type) return nullptr;
    PyObject *got = PyObject_CallMethodOneArg(base, acquire_name, Py_False);
    if (got != Py_True) {
        Py_XDECREF(got);
        return nullptr;
    }
    Py_DECREF(got);
    HeldLock *held = PyObject_New(HeldLock, held_type);
    if (held == nullptr) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        Py_XDECREF(PyObject_CallMethodNoArgs(base, release_name));
        PyErr_Restore(type, value, traceback);
        return nullptr;
    }
    held->lock = Py_NewRef(base);
    return reinterpret_cast<PyObject *>(held);
}

const Registered<AccessorKind> held_lock({.name = "held_lock", .step = taken, .creates = true});

PyObject *release_lock(PyObject *, PyObject *held) {
    if (Py_TYPE(held) != held_type) {
        PyErr_SetString(PyExc_TypeError, "release_lock() takes what a guard walk has captured");
        return nullptr;
    }
    if (release(reinterpret_cast<HeldLock *>(held)) < 0) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"release_lock", release_lock, METH_O, "release_lock(held, /)\n--\n\nRelease a lock that a guard walk has taken. Another call does nothing."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot held_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void *>(held_dealloc)},
    {0, nullptr},
};

PyType_Spec held_spec = {"framejit._runtime.HeldLock", sizeof(HeldLock), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, held_slots};

PyTypeObject *type_in(PyObject *module, const char *name) {
    PyObject *found = module == nullptr ? nullptr : PyObject_GetAttrString(module, name);
    if (found != nullptr && !PyType_Check(found)) {
        PyErr_Format(PyExc_SystemError, "_thread.%s is no class", name);
        Py_CLEAR(found);
    }
    return reinterpret_cast<PyTypeObject *>(found);
}

}  // namespace

/* Finds the classes of locks, and adds the function that releases one. */
int init_locks(PyObject *module) {
    PyObject *threads = PyImport_ImportModule("_thread");
    lock_type = type_in(threads, "LockType");
    reentrant_type = lock_type == nullptr ? nullptr : type_in(threads, "RLock");
    Py_XDECREF(threads);
    acquire_name = PyUnicode_InternFromString("acquire");
    release_name = PyUnicode_InternFromString("release");
    if (reentrant_type == nullptr || acquire_name == nullptr || release_name == nullptr) return -1;
    held_type = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&held_spec));
    return held_type == nullptr ? -1 : PyModule_AddFunctions(module, functions);
}

}  // namespace framejit
