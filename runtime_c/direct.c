/* direct.c: the call without a frame: an entry is looked for with the arguments bound here, and its graph and program give the result without
   running any bytecode. */
#include "direct.h"

#include "arguments.h"
#include "callbacks.h"
#include "cpython/frame.h"
#include "cpython/objects.h"
#include "hook.h"
#include "items.h"
#include "program.h"

/* ---- the call of the graph ---- */

/* What the graph returned as a tuple or list of all outputs, as UNPACK_SEQUENCE takes it. Steals the reference. */
static PyObject *unpack(const FJ_Program *program, PyObject *returned) {
    Py_ssize_t n = program->n_outputs;
    if (program->refuse != NULL && !((PyTuple_Check(returned) || PyList_Check(returned)) && PySequence_Size(returned) == n)) {
        PyObject *refused = PyErr_Occurred() ? NULL : PyObject_CallOneArg(program->refuse, returned);
        if (refused != NULL) {
            PyErr_SetString(PyExc_SystemError, "framejit: wrong outputs were not refused");
            Py_DECREF(refused);
        }
        Py_DECREF(returned);
        return NULL;
    }
    if (n == 0) {
        return returned;
    }
    if (!PyTuple_CheckExact(returned) && !(PyList_CheckExact(returned) && program->n_operations == 1)) {
        /* A copy: whoever holds a list could change it while the result is being built. */
        Py_SETREF(returned, PySequence_Tuple(returned));
    }
    if (returned != NULL && PySequence_Fast_GET_SIZE(returned) != n) {
        Py_ssize_t got = PySequence_Fast_GET_SIZE(returned);
        if (got < n) {
            PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %zd, got %zd)", n, got);
        } else {
            PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %zd)", n);
        }
        Py_CLEAR(returned);
    }
    return returned;
}

/* Calls the graph with the values, which are gone afterwards; those of a boxed one are in a list that it may empty. */
static PyObject *call_graph(const FJ_Program *program, PyObject **values, Py_ssize_t n_inputs) {
    PyObject *graph = program->graph, *returned = NULL;
    if (program->boxed) {
        PyObject *inputs = FJ_Items_Take(PyList_New(n_inputs), values, n_inputs);
        if (inputs != NULL) {
            returned = PyObject_CallOneArg(graph, inputs);
            Py_DECREF(inputs);
        }
    } else {
        returned = PyObject_Vectorcall(graph, values, (size_t)n_inputs | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    FJ_Items_Release(values, n_inputs);
    return returned;
}

/* Adds a frame of the entry's code to the traceback of the current exception, at one of its calls. */
static void add_traceback(PyThreadState *tstate, FJ_Entry *entry, PyObject *function, Py_ssize_t call) {
    int offset = call < 0 ? 0 : (int)PyLong_AsLong(PyTuple_GET_ITEM(entry->program->calls, call));
    FJ_Traceback_Add(tstate, (PyCodeObject *)entry->code, PyFunction_GET_GLOBALS(function), offset);
}

/* What the handler in the entry's code does after the graph has raised the current exception. */
static PyObject *recover(PyThreadState *tstate, FJ_Entry *entry, PyObject *function, PyObject *const *captures) {
    const FJ_Program *program = entry->program;
    add_traceback(tstate, entry, function, 0);
    PyObject *result = FJ_Program_Recover(program, FJ_Error_Take(), captures);
    if (result == NULL) {
        add_traceback(tstate, entry, function, PyTuple_GET_SIZE(program->calls) - FJ_CALLS_OF_RECOVERY);
        PyObject *error = FJ_Error_Take();
        PyObject *corrected = PyObject_CallOneArg(PyTuple_GET_ITEM(program->recovery, 2), error);
        Py_DECREF(error);
        if (corrected != NULL) {
            FJ_Error_PutBack(corrected);
        }
    }
    return result;
}

/* Runs an entry over what its walk has captured. */
static PyObject *run(PyThreadState *tstate, FJ_Entry *entry, PyObject *function, FJ_Captured *captured) {
    const FJ_Program *program = entry->program;
    PyObject **values = captured->values;
    PyObject *returned = NULL, *result = NULL;
    entry->hits++;
    entry->direct_hits++;
    int failed = 0;
    if (program->graph != NULL) {
        FJ_Recursion_EnterFrame(tstate);
        FJ_NativeSection section = FJ_NativeSection_Interrupt();
        returned = call_graph(program, values, entry->n_inputs);
        const int recovers = returned == NULL && program->recovery != NULL;
        if (recovers) {
            result = recover(tstate, entry, function, values + entry->n_inputs);
        }
        FJ_NativeSection_Restore(section);
        if (returned != NULL) {
            returned = unpack(program, returned);
        }
        FJ_Recursion_LeaveFrame(tstate);
        if (recovers) {
            return result;
        }
        failed = returned == NULL;
    } else {
        failed = PyErr_CheckSignals() < 0; /* as every frame does at its start */
    }
    Py_ssize_t call = 0; /* the number of the one that is being made, or has been */
    if (!failed) {
        call = program->graph != NULL;
        PyObject **outputs = returned != NULL && program->n_outputs > 0 ? PySequence_Fast_ITEMS(returned) : NULL;
        result = FJ_Program_Run(program, outputs, values + entry->n_inputs, &call);
    }
    Py_XDECREF(returned);
    if (result == NULL) {
        Py_ssize_t n_calls = PyTuple_GET_SIZE(program->calls) - (program->recovery != NULL ? FJ_CALLS_OF_RECOVERY : 0);
        add_traceback(tstate, entry, function, call < n_calls ? call : n_calls - 1);
    }
    return result;
}

/* ---- the call ---- */

/* Whether CPython would do no more with a call of the function than bind its arguments and run its frame. */
static int is_plain(FJ_CompiledFunction *self, PyFunctionObject *function) {
    PyCodeObject *code = (PyCodeObject *)function->func_code;
    return self->code == (PyObject *)code && FJ_Function_IsPlain(function) && (code->co_flags & CO_OPTIMIZED);
}

int FJ_Direct_Call(PyThreadState *tstate, FJ_CompiledFunction *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names, PyObject **state,
                   FJ_Match *match, PyObject **result, FJ_Entry **split) {
    PyFunctionObject *function = (PyFunctionObject *)self->function;
    PyCodeObject *code = (PyCodeObject *)function->func_code;
    FJ_Arguments arguments; /* not cleared: that would take longer than binding them */
    arguments.n = FJ_Arguments_Count(code);
    if (!is_plain(self, function) || arguments.n > FJ_MOST_SLOTS || FJ_Frame_IsMonitored(tstate) || !FJ_Recursion_HasRoom(tstate)) {
        return 0;
    }
    if (!FJ_Arguments_Bind(function, code, args, n_args, names, &arguments)) {
        PyErr_Clear();
        FJ_Arguments_Release(&arguments);
        return 0;
    }
    Py_INCREF(function);
    FJ_Captured captured;
    FJ_Entry *entry = FJ_Cache_Find(self, (PyObject *)function, arguments.slots, arguments.n, &captured);
    FJ_Arguments_Release(&arguments);
    match->searched = 1;
    match->version = self->version;
    int done = 1;
    *result = NULL;
    if (entry == NULL) {
        done = PyErr_Occurred() != NULL;
    } else if (entry->program != NULL) {
        if (state != NULL) {
            Py_CLEAR(*state);
        }
        *result = FJ_Callback_Ended((PyObject *)self, entry, run(tstate, entry, (PyObject *)function, &captured));
        *split = entry->step != NULL ? (FJ_Entry *)Py_NewRef(entry) : NULL;
        FJ_Captured_Release(&captured, entry, entry->program->graph != NULL ? entry->n_inputs : 0);
        Py_DECREF(entry);
    } else if (FJ_Captured_HandOver(&captured, entry, &match->inputs, &match->captures) < 0) {
        Py_DECREF(entry);
    } else {
        match->entry = entry;
        done = 0;
    }
    Py_DECREF(function);
    return done;
}
