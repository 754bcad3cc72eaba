/* evaluator.c: what runs in the place of a frame that arrives at the hook: the code of an entry, found or made, or the frame itself. */
#include "evaluator.h"

#include "arguments.h"
#include "cache.h"
#include "call.h"
#include "callbacks.h"
#include "hook.h"
#include "switches.h"
#include "upcalls.h"

static PyObject *abandon(PyThreadState *tstate, FJ_Frame *frame) {
    FJ_Frame_Abandon(tstate, frame);
    return NULL;
}

/* Every entry made for a call has rejected it. */
static void give_up(FJ_CompiledFunction *self, PyObject *function, PyObject *arguments, FJ_Entry *entry) {
    if (self->rejected_callback != NULL) {
        Py_XDECREF(FJ_Callback_Call(self->rejected_callback, function, arguments, (PyObject *)entry));
    } else {
        PyErr_SetString(PyExc_RuntimeError, "framejit: guards of a new entry reject the frame they were made for");
    }
}

/* Has entries made for a frame until one accepts it: another thread may change, while the first is compiled, what it is guarded by.
   NULL without an exception: run the frame uncompiled. */
static FJ_Entry *compile_entry(FJ_CompiledFunction *self, PyObject *function, PyObject *arguments, PyObject *const *locals,
                               Py_ssize_t n_arguments, FJ_Captured *captured) {
    enum { ATTEMPTS = 3 };
    for (int attempt = 1;;) {
        PyObject *made = FJ_Callback_Call(self->compile_callback, function, arguments, NULL);
        if (made == NULL || made == Py_None) {
            Py_XDECREF(made);
            return NULL;
        }
        FJ_Entry *entry = made != Py_NotImplemented ? (FJ_Entry *)made : NULL;
        if (entry == NULL) {
            Py_DECREF(made);
        } else if (!PyObject_TypeCheck(made, &FJ_EntryType)) {
            PyErr_Format(PyExc_TypeError, "framejit: the compile callback must return an Entry or None, not %.100s", Py_TYPE(made)->tp_name);
            Py_DECREF(made);
            return NULL;
        } else {
            int matches = FJ_Entry_Match(entry, locals, n_arguments, function, captured);
            int is_kept = entry->upcalls == NULL;
            if (matches == 1 && is_kept && FJ_Cache_Add(self, entry) < 0) {
                FJ_Captured_Release(captured, entry, 0);
                matches = -1;
            }
            if (matches == 1) {
                return entry;
            }
            if (matches == 0 && attempt++ == ATTEMPTS) {
                give_up(self, function, arguments, entry);
                matches = -1;
            }
            Py_DECREF(entry);
            if (matches < 0) {
                return NULL;
            }
        }
        entry = FJ_Cache_Find(self, function, locals, n_arguments, captured); /* another thread may have made one meanwhile */
        if (entry != NULL || PyErr_Occurred()) {
            return entry;
        }
    }
}

/* The entry for a frame, found or made, with its inputs and captures. NULL without an exception: run the frame uncompiled. Not inlined:
   what the walk captures must not stay on the C stack while the frame runs, which may call itself. */
__attribute__((noinline)) static FJ_Entry *entry_for(FJ_CompiledFunction *self, FJ_Frame *frame, PyObject *function, Py_ssize_t n_arguments,
                                                     FJ_Match *match) {
    FJ_Captured captured;
    PyObject *room[n_arguments + 1];
    PyObject *const *locals = FJ_Frame_Arguments(frame, n_arguments, room);
    FJ_Entry *entry = match->searched ? NULL : FJ_Cache_Find(self, function, locals, n_arguments, &captured);
    if (entry == NULL && !PyErr_Occurred()) {
        PyObject *arguments = FJ_Arguments_Tuple(locals, n_arguments);
        if (arguments != NULL) {
            entry = compile_entry(self, function, arguments, locals, n_arguments, &captured);
            Py_DECREF(arguments);
        }
    }
    if (entry != NULL && FJ_Captured_HandOver(&captured, entry, &match->inputs, &match->captures) < 0) {
        Py_CLEAR(entry);
    }
    return entry;
}

/* Runs an entry's code, or the frame itself where it has none. */
static PyObject *run_here(PyThreadState *tstate, FJ_Frame *frame, FJ_Entry *entry, PyObject *function, Py_ssize_t n_arguments, PyObject *inputs,
                          PyObject *captures) {
    if (entry->code == Py_None) {
        Py_DECREF(inputs);
        Py_DECREF(captures);
        return FJ_Hook_RunUncompiled(tstate, frame, 0);
    }
    PyObject *result;
    if (FJ_Frame_RunInPlace(tstate, frame, (PyCodeObject *)entry->code, n_arguments, inputs, captures, &result) == 0) {
        return result;
    }
    FJ_Frame_ReleaseArguments(frame, n_arguments);
    result = FJ_Entry_CallFlat(entry, function, n_arguments, inputs, captures);
    FJ_Frame_Abandon(tstate, frame);
    return result;
}

/* Whether a native section is opened while an entry's frame runs uncompiled. One that was seen to raise opens none at first: what comes once, to tell
   of a mistake, isn't worth a compilation. */
static int compiles_upcalls(FJ_Entry *entry) {
    return entry->code == Py_None && entry->compiles_upcalls && (entry->outcome == NULL || entry->hits > 1);
}

/* Compiled code itself, its graph above all, is in no native section. */
static PyObject *run_entry(PyThreadState *tstate, FJ_Frame *frame, FJ_CompiledFunction *self, FJ_Entry *entry, PyObject *function,
                           Py_ssize_t n_arguments, PyObject *inputs, PyObject *captures) {
    entry->hits++;
    PyObject *upcalls = entry->upcalls != NULL ? entry->upcalls : self->upcalls;
    FJ_NativeSection outer = FJ_NativeSection_BeginFor(entry, compiles_upcalls(entry) ? upcalls : NULL);
    if (outer.entry != NULL && entry->code != Py_None) {
        outer.entry->fruitless = 0;
    }
    PyObject *result = run_here(tstate, frame, entry, function, n_arguments, inputs, captures);
    FJ_NativeSection_Restore(outer);
    return FJ_Callback_Ended((PyObject *)self, entry, result);
}

/* Runs the frame of a call to `self`, compiled if possible. */
static PyObject *run_target(PyThreadState *tstate, FJ_Frame *frame, FJ_PendingCall *pending) {
    FJ_CompiledFunction *self = pending->target;
    if (!FJ_Frame_IsReplaceable(frame)) {
        return FJ_Hook_RunUncompiled(tstate, frame, 0);
    }
    PyObject *function = FJ_Frame_Function(frame);
    Py_ssize_t n_arguments = FJ_Arguments_Count(FJ_Frame_Code(frame));
    FJ_Match *match = &pending->match;
    FJ_Cache_CheckCode(self);
    if (match->version != self->version) { /* a garbage collection in between may have run anything */
        FJ_Match_Forget(match);
    }
    FJ_Entry *entry = match->entry;
    match->entry = NULL;
    if (entry == NULL && self->code == (PyObject *)FJ_Frame_Code(frame)) {
        entry = entry_for(self, frame, function, n_arguments, match);
    }
    if (entry != NULL && self->code != (PyObject *)FJ_Frame_Code(frame)) { /* compiling has given the function other code */
        match->entry = entry;
        FJ_Match_Forget(match);
        entry = NULL;
    }
    if (entry == NULL) {
        return PyErr_Occurred() ? abandon(tstate, frame) : FJ_Hook_RunUncompiled(tstate, frame, 0);
    }
    if (pending->state != NULL) {
        Py_CLEAR(*pending->state);
    }
    if (entry->step != NULL) {
        pending->split = (FJ_Entry *)Py_NewRef(entry);
    }
    Py_INCREF(function); /* the frame's own reference goes with the frame */
    PyObject *result = run_entry(tstate, frame, self, entry, function, n_arguments, match->inputs, match->captures);
    Py_DECREF(function);
    Py_DECREF(entry);
    return result;
}

/* ---- native sections ---- */

/* Runs the frame of an upcall by a CompiledFunction. */
static PyObject *run_compiled(PyThreadState *tstate, FJ_Frame *frame, FJ_CompiledFunction *target) {
    if (FJ_Watched_Update() < 0) {
        return abandon(tstate, frame);
    }
    if (!target->enabled || FJ_RunsUncompiled(&FJ_thread)) {
        return FJ_Hook_RunUncompiled(tstate, frame, 0);
    }
    FJ_PendingCall pending = {.target = target, .taken = 1};
    PyObject *result = run_target(tstate, frame, &pending);
    if (pending.split != NULL) {
        FJ_Frame_Release(frame);
        result = FJ_Call_Finish(target->upcalls, result, pending.split);
    }
    return result;
}

static PyObject *run_upcall(PyThreadState *tstate, FJ_Frame *frame) {
    FJ_CompiledFunction *target = NULL;
    PyObject *result;
    switch (FJ_Upcalls_Decide(FJ_thread.section.upcalls, frame, &target)) {
        case FJ_CODE_COMPILED:
            result = run_compiled(tstate, frame, target);
            Py_DECREF(target);
            return result;
        case FJ_CODE_NEVER: return FJ_Hook_RunUncompiled(tstate, frame, 0);
        case FJ_CODE_OPAQUE: {
            FJ_NativeSection section = FJ_NativeSection_Interrupt();
            result = FJ_Hook_RunUncompiled(tstate, frame, 0);
            FJ_NativeSection_Restore(section);
            return result;
        }
        default: return abandon(tstate, frame);
    }
}

/* A frame that nobody waits for. Under a hook, calls between Python functions take C stack, so that beyond a certain depth the rest of a
   native section runs without the hook. */
static PyObject *pass(PyThreadState *tstate, FJ_Frame *frame, int throwflag) {
    enum { DEEPEST = 200 };
    FJ_ThreadState *thread = &FJ_thread;
    PyObject *result;
    if (thread->section.upcalls == NULL) { /* the hook is up for another thread, or was put back by another tool */
        if (!FJ_Hook_IsNeeded() || FJ_Thread_IsStackLow(thread)) {
            FJ_Hook_Leave(tstate->interp);
        }
        int given = FJ_Recursion_Enter(tstate, FJ_Thread_StackLeft(thread));
        result = FJ_Hook_RunUncompiled(tstate, frame, throwflag);
        FJ_Recursion_Leave(tstate, given);
        return result;
    }
    if (thread->depth >= DEEPEST || FJ_Thread_IsStackLow(thread)) {
        FJ_NativeSection section = FJ_NativeSection_Interrupt();
        result = FJ_Hook_RunUncompiled(tstate, frame, throwflag);
        FJ_NativeSection_Restore(section);
        return result;
    }
    int uncompiled = throwflag || FJ_RunsUncompiled(thread) || FJ_Frame_IsMonitored(tstate);
    if (!uncompiled && ++thread->section.entry->fruitless >= FJ_MOST_FRUITLESS) {
        FJ_NativeSection_Restore((FJ_NativeSection){NULL, NULL}); /* for the rest of it */
        uncompiled = 1;
    }
    thread->depth++;
    int given = FJ_Recursion_Enter(tstate, FJ_Thread_StackLeft(thread));
    result = uncompiled ? FJ_Hook_RunUncompiled(tstate, frame, throwflag) : run_upcall(tstate, frame);
    FJ_Recursion_Leave(tstate, given);
    thread->depth--;
    return result;
}

PyObject *FJ_EvalFrame(PyThreadState *tstate, FJ_Frame *frame, int throwflag) {
    FJ_ThreadState *thread = &FJ_thread;
    if (thread->forwarded == frame) { /* the hook that it was handed to has handed it back */
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    FJ_PendingCall *pending = thread->pending;
    if (pending == NULL || throwflag || FJ_Frame_Function(frame) != pending->target->function) {
        return pass(tstate, frame, throwflag);
    }
    FJ_CompiledFunction *target = pending->target;
    pending->taken = 1;
    thread->pending = pending->previous;
    FJ_Hook_Down(tstate->interp);
    Py_INCREF(target);
    PyObject *result = run_target(tstate, frame, pending);
    Py_DECREF(target);
    return result;
}
