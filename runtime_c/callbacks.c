/* callbacks.c: calls of framejit's own Python code about a call of the program's: outside of native sections, and with room to recurse. */
#include "callbacks.h"

#include "cpython/objects.h"
#include "hook.h"

/* The program may be at its recursion limit: what it has no room for is its own next call, not ours, which nothing of it would handle. */
PyObject *FJ_Callback_Call(PyObject *callback, PyObject *function, PyObject *arguments, PyObject *entry) {
    enum { ROOM = 1000 };
    FJ_ThreadState *thread = &FJ_thread;
    PyThreadState *tstate = PyThreadState_Get();
    int outer = thread->compiling;
    thread->compiling = 1;
    FJ_NativeSection section = FJ_NativeSection_Interrupt();
    Py_INCREF(callback);
    FJ_Recursion_AddRoom(tstate, ROOM);
    PyObject *made = PyObject_CallFunctionObjArgs(callback, function, arguments, entry, NULL);
    FJ_Recursion_AddRoom(tstate, -ROOM);
    Py_DECREF(callback);
    FJ_NativeSection_Restore(section);
    thread->compiling = outer;
    return made;
}

PyObject *FJ_Callback_Ended(PyObject *compiled, FJ_Entry *entry, PyObject *result) {
    if (entry->outcome == NULL || (entry->code != Py_None && result != NULL)) {
        return result;
    }
    PyObject *error = result == NULL ? FJ_Error_Take() : NULL;
    PyObject *answer = FJ_Callback_Call(entry->outcome, compiled, error != NULL ? error : Py_None, (PyObject *)entry);
    if (answer == NULL) {
        Py_CLEAR(result);
        Py_XDECREF(error);
    } else {
        Py_DECREF(answer);
        if (error != NULL) {
            FJ_Error_PutBack(error);
        }
    }
    return result;
}
