/* call.c: a call of a CompiledFunction: without a frame, or through the frame that the hook waits for, and on from split to split. */
#include "call.h"

#include "hook.h"
#include "switches.h"

/* One call without what follows it. *split: the entry that has run if the result is only the state to go on with, else NULL.
   state: where the only argument is held, if the callee may let go of it, or NULL. */
static PyObject *call_once(FJ_CompiledFunction *self, PyObject *const *args, size_t nargsf, PyObject *kwnames, PyObject **state, FJ_Entry **split) {
    FJ_ThreadState *thread = &FJ_thread;
    PyFunctionObject *function = (PyFunctionObject *)self->function;
    *split = NULL;
    if (function == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "framejit: a compiled function was called while being deallocated");
        return NULL;
    }
    if (FJ_Watched_Update() < 0) {
        return NULL;
    }
    if (!self->enabled || FJ_RunsUncompiled(thread)) {
        return function->vectorcall((PyObject *)function, args, nargsf, kwnames);
    }
    FJ_PendingCall pending = {.target = self, .previous = thread->pending, .state = state};
    PyObject *direct;
    if (self->n_direct > 0 &&
        FJ_Direct_Call(PyThreadState_Get(), self, args, PyVectorcall_NARGS(nargsf), kwnames, state, &pending.match, &direct, split)) {
        return direct;
    }
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    thread->pending = &pending;
    FJ_Hook_Up(interpreter);
    PyObject *result = function->vectorcall((PyObject *)function, args, nargsf, kwnames);
    if (!pending.taken) { /* the arguments didn't fit, or the function makes a generator */
        thread->pending = pending.previous;
        FJ_Hook_Down(interpreter);
    }
    FJ_Match_Forget(&pending.match);
    *split = pending.split;
    return result;
}

/* Goes on after a split: its step runs the instruction that broke the graph, and says in which resume function the rest of the call
   is. Steals `value`. *entry is replaced by the entry that the resume function split at, or NULL. upcalls: what decides about
   upcalls while the step runs, or NULL. */
static PyObject *step_and_resume(PyObject *upcalls, FJ_Entry **entry, PyObject *value) {
    FJ_NativeSection outer = FJ_NativeSection_BeginFor(*entry, upcalls);
    PyObject *packed = PyObject_CallOneArg((*entry)->step, value);
    Py_DECREF(value);
    FJ_NativeSection_Restore(outer);
    PyObject *resumes = (*entry)->resumes;
    Py_ssize_t choice;
    PyObject *state, *result = NULL;
    FJ_Entry *split = NULL;
    if (packed != NULL && PyArg_ParseTuple(packed, "nO:framejit step", &choice, &state)) {
        if (choice < 0 || choice >= PyTuple_GET_SIZE(resumes)) {
            PyErr_Format(PyExc_SystemError, "framejit: a step chose resume function %zd of %zd", choice, PyTuple_GET_SIZE(resumes));
        } else {
            FJ_CompiledFunction *resume = (FJ_CompiledFunction *)Py_NewRef(PyTuple_GET_ITEM(resumes, choice));
            Py_INCREF(state);
            Py_CLEAR(packed);
            PyObject *argument = state;
            result = call_once(resume, &argument, 1, NULL, &state, &split);
            Py_XDECREF(state);
            Py_DECREF(resume);
        }
    }
    Py_XDECREF(packed);
    Py_SETREF(*entry, split);
    return result;
}

PyObject *FJ_Call_Finish(PyObject *upcalls, PyObject *result, FJ_Entry *split) {
    if (split == NULL) {
        return result;
    }
    Py_XINCREF(upcalls); /* its owner may be cleared meanwhile */
    while (split != NULL && result != NULL) {
        result = step_and_resume(upcalls, &split, result);
    }
    Py_XDECREF(split);
    Py_XDECREF(upcalls);
    return result;
}

/* A call in the hands of the call checker. */
static PyObject *call_checked(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), n_keywords = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
    PyObject *checker = Py_NewRef(FJ_call_checker);
    PyObject *positional = PyTuple_New(n);
    PyObject *keywords = PyDict_New();
    for (Py_ssize_t i = 0; positional != NULL && i < n; i++) {
        PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
    }
    for (Py_ssize_t i = 0; keywords != NULL && i < n_keywords; i++) {
        if (PyDict_SetItem(keywords, PyTuple_GET_ITEM(kwnames, i), args[n + i]) < 0) {
            Py_CLEAR(keywords);
        }
    }
    PyObject *result = NULL;
    if (positional != NULL && keywords != NULL) {
        result = PyObject_CallFunctionObjArgs(checker, callable, positional, keywords, NULL);
    }
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    Py_DECREF(checker);
    return result;
}

/* The call with all that follows it. */
static PyObject *call_through(FJ_CompiledFunction *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    PyThreadState *tstate = PyThreadState_Get();
    FJ_Entry *split;
    int given = FJ_Recursion_Enter(tstate, FJ_Thread_StackLeft(&FJ_thread));
    PyObject *result = call_once(self, args, nargsf, kwnames, NULL, &split);
    result = FJ_Call_Finish(self->upcalls, result, split);
    FJ_Recursion_Leave(tstate, given);
    return result;
}

/* A call of a function that has an `outermost_callback`. */
__attribute__((noinline)) static PyObject *call_announced(FJ_CompiledFunction *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    FJ_ThreadState *thread = &FJ_thread;
    if (thread->announced == 0) {
        PyObject *answer = PyObject_CallNoArgs(self->outermost_callback);
        if (answer == NULL) {
            return NULL;
        }
        Py_DECREF(answer);
    }
    thread->announced++;
    PyObject *result = call_through(self, args, nargsf, kwnames);
    thread->announced--;
    return result;
}

PyObject *FJ_Call_Vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    FJ_CompiledFunction *self = (FJ_CompiledFunction *)callable;
    if (FJ_Thread_IsStackLow(&FJ_thread)) {
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: the C stack is nearly used up");
        return NULL;
    }
    if (FJ_call_checker != NULL && !FJ_thread.checking && !FJ_RunsUncompiled(&FJ_thread)) {
        return call_checked(callable, args, nargsf, kwnames);
    }
    if (self->outermost_callback != NULL && !FJ_RunsUncompiled(&FJ_thread)) {
        return call_announced(self, args, nargsf, kwnames);
    }
    return call_through(self, args, nargsf, kwnames);
}
