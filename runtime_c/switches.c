/* switches.c: whether calls of compiled functions run uncompiled: as this thread, the process or a watched module says; and who checks calls. */
#include "switches.h"

#include "cpython/versions.h"

int FJ_globally_eager;
int FJ_watched_eager;
PyObject *FJ_call_checker;
PyObject *FJ_guard_checker;

/* ---- watching dicts ---- */

enum { MOST_WATCHED = 2 };

static PyObject *watched[MOST_WATCHED]; /* dicts, or NULL */
static const uint64_t *words[MOST_WATCHED]; /* NULL: nothing would tell of a change, so that the dict counts as changed at each call */
static uint64_t versions[MOST_WATCHED];
static PyObject *on_change;

static inline int is_changed(int i) { return watched[i] != NULL && (words[i] == NULL || *words[i] != versions[i]); }

static void note_version(int i) {
    words[i] = FJ_Dict_VersionWord(watched[i]);
    versions[i] = words[i] != NULL ? *words[i] : 0;
}

int FJ_Watched_Update(void) {
    if (!is_changed(0) && !is_changed(1)) {
        return 0;
    }
    for (int i = 0; i < MOST_WATCHED && watched[i] != NULL; i++) {
        note_version(i);
    }
    PyObject *callback = Py_NewRef(on_change);
    PyObject *result = PyObject_CallNoArgs(callback);
    Py_DECREF(callback);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static PyObject *watch(PyObject *module, PyObject *args) {
    PyObject *callback, *dicts[MOST_WATCHED] = {NULL};
    if (!PyArg_ParseTuple(args, "OO!|O!:watch", &callback, &PyDict_Type, &dicts[0], &PyDict_Type, &dicts[1])) {
        return NULL;
    }
    Py_XSETREF(on_change, Py_NewRef(callback));
    for (int i = 0; i < MOST_WATCHED; i++) {
        Py_XSETREF(watched[i], Py_XNewRef(dicts[i]));
        if (dicts[i] != NULL) {
            note_version(i);
        }
    }
    Py_RETURN_NONE;
}

/* ---- setting them ---- */

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

static PyObject *set_thread_checking(PyObject *module, PyObject *value) { return set_switch(&FJ_thread.checking, value); }

static PyObject *set_globally_eager(PyObject *module, PyObject *value) { return set_switch(&FJ_globally_eager, value); }

static PyObject *set_watched_eager(PyObject *module, PyObject *value) { return set_switch(&FJ_watched_eager, value); }

static PyObject *set_thread_eager(PyObject *module, PyObject *value) {
    int position = FJ_EAGER_UNSET;
    if (value != Py_None) {
        int truth = PyObject_IsTrue(value);
        if (truth < 0) {
            return NULL;
        }
        position = truth ? FJ_EAGER : FJ_NOT_EAGER;
    }
    FJ_thread.eager = position;
    Py_RETURN_NONE;
}

static PyObject *set_checker(PyObject **checker, PyObject *value) {
    Py_XSETREF(*checker, value == Py_None ? NULL : Py_NewRef(value));
    Py_RETURN_NONE;
}

static PyObject *set_call_checker(PyObject *module, PyObject *value) { return set_checker(&FJ_call_checker, value); }

static PyObject *set_guard_checker(PyObject *module, PyObject *value) { return set_checker(&FJ_guard_checker, value); }

static PyObject *is_thread_disabled(PyObject *module, PyObject *unused) { return PyBool_FromLong(FJ_thread.disabled); }

static PyObject *is_thread_compiling(PyObject *module, PyObject *unused) { return PyBool_FromLong(FJ_thread.compiling); }

PyMethodDef FJ_switches[] = {
    {"set_thread_disabled", set_thread_disabled, METH_O,
     "set_thread_disabled(value, /)\n--\n\nWhile true, compiled functions called on this thread run uncompiled. Returns the value before."},
    {"set_thread_compiling", set_thread_compiling, METH_O,
     "set_thread_compiling(value, /)\n--\n\nMark this thread as tracing, with the same effect as disabling. Returns the value before."},
    {"set_globally_eager", set_globally_eager, METH_O,
     "set_globally_eager(value, /)\n--\n\nWhile true, compiled functions run uncompiled on all threads that don't say otherwise by set_thread_eager. "
     "Returns the value before."},
    {"set_thread_eager", set_thread_eager, METH_O,
     "set_thread_eager(value, /)\n--\n\nWhether compiled functions run uncompiled on this thread; None: as set_globally_eager says."},
    {"set_watched_eager", set_watched_eager, METH_O,
     "set_watched_eager(value, /)\n--\n\nWhile true, compiled functions run uncompiled on all threads: for the callback of `watch`. Returns the "
     "value before."},
    {"set_thread_checking", set_thread_checking, METH_O,
     "set_thread_checking(value, /)\n--\n\nWhile true, calls on this thread bypass the call checker. Returns the value before."},
    {"set_call_checker", set_call_checker, METH_O,
     "set_call_checker(checker, /)\n--\n\nchecker(compiled, args, kwargs) is called in place of calls, and gives their result; None: no checker."},
    {"set_guard_checker", set_guard_checker, METH_O,
     "set_guard_checker(checker, /)\n--\n\nchecker(compiled, argument slots, function called) is called before a call looks for its entry; None: no checker."},
    {"watch", watch, METH_VARARGS,
     "watch(callback, dict, dict=None, /)\n--\n\nHave callback() called before the next call of a compiled function once one of these dicts has "
     "changed. Replaces what was watched before."},
    {"is_thread_disabled", is_thread_disabled, METH_NOARGS, "is_thread_disabled()\n--\n\nWhether compiled functions run uncompiled on this thread."},
    {"is_thread_compiling", is_thread_compiling, METH_NOARGS, "is_thread_compiling()\n--\n\nWhether a compile callback is running on this thread."},
    {NULL},
};
