/* hook.c: the way of a call from CompiledFunction through the PEP 523 hook to its entry. The hook is up only in between, and in
   native sections: while the instruction at a graph break runs, or a frame for which there is no code, the functions that it calls are compiled. */
#include <Python.h> /* first: it asks the C library for pthread_getattr_np */

#include <pthread.h>
#include <stdlib.h>

#include "direct.h"
#include "runtime.h"

_Thread_local FJ_ThreadState FJ_thread;

/* The hook belongs to the whole interpreter, so it is counted: every pending call of every thread holds it up. Guarded by the GIL. */
static Py_ssize_t hook_users;
static _PyFrameEvalFunction previous_hook = _PyEval_EvalFrameDefault;

static PyObject *eval_frame(PyThreadState *tstate, FJ_Frame *frame, int throwflag);

static void hook_up(PyInterpreterState *interpreter) {
    hook_users++;
    _PyFrameEvalFunction installed = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (installed != eval_frame) {
        previous_hook = installed;
        _PyInterpreterState_SetEvalFrameFunc(interpreter, eval_frame);
    }
}

/* Another tool may have installed its hook over ours meanwhile; then it is not ours to remove. When that tool puts ours back, the next
   frame brings us here again. */
static void leave(PyInterpreterState *interpreter) {
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == eval_frame) {
        _PyInterpreterState_SetEvalFrameFunc(interpreter, previous_hook);
    }
}

static void hook_down(PyInterpreterState *interpreter) {
    if (--hook_users == 0) {
        leave(interpreter);
    }
}

FJ_NativeSection FJ_NativeSection_Begin(PyObject *upcalls, FJ_Entry *entry) {
    FJ_ThreadState *thread = &FJ_thread;
    FJ_NativeSection before = thread->section;
    thread->section = (FJ_NativeSection){upcalls, entry};
    if ((before.upcalls == NULL) != (upcalls == NULL)) {
        PyInterpreterState *interpreter = PyInterpreterState_Get();
        if (upcalls != NULL) {
            hook_up(interpreter);
        } else {
            hook_down(interpreter);
        }
    }
    return before;
}

int FJ_Hook_IsInstalled(void) { return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == eval_frame; }

/* Hands a frame that stays as it is to the hook that was installed before ours. That hook may have been installed over ours earlier, and hand
   the frame back: eval_frame runs it then. */
static PyObject *run_uncompiled(PyThreadState *tstate, FJ_Frame *frame, int throwflag) {
    FJ_ThreadState *thread = &FJ_thread;
    if (previous_hook == _PyEval_EvalFrameDefault) {
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    FJ_Frame *outer = thread->forwarded;
    thread->forwarded = frame;
    PyObject *result = previous_hook(tstate, frame, throwflag);
    thread->forwarded = outer;
    return result;
}

static PyObject *abandon(PyThreadState *tstate, FJ_Frame *frame) {
    FJ_Frame_Abandon(tstate, frame);
    return NULL;
}

/* The program may be at its recursion limit: what it has no room for is its own next call, not ours, which nothing of it would handle. */
PyObject *FJ_Hook_CallBack(PyObject *callback, PyObject *function, PyObject *arguments, PyObject *entry) {
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

/* Every entry made for a call has rejected it. */
static void give_up(FJ_CompiledFunction *self, PyObject *function, PyObject *arguments, FJ_Entry *entry) {
    if (self->rejected_callback != NULL) {
        Py_XDECREF(FJ_Hook_CallBack(self->rejected_callback, function, arguments, (PyObject *)entry));
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
        PyObject *made = FJ_Hook_CallBack(self->compile_callback, function, arguments, NULL);
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
            if (matches == 1 && is_kept && FJ_CompiledFunction_Add(self, entry) < 0) {
                FJ_Captured_Release(captured, entry);
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
        entry = FJ_CompiledFunction_Find(self, function, locals, n_arguments, captured); /* another thread may have made one meanwhile */
        if (entry != NULL || PyErr_Occurred()) {
            return entry;
        }
    }
}

/* The entry for a frame, found or made, with its inputs and captures. NULL without an exception: run the frame uncompiled. Not inlined:
   what the walk captures must not stay on the C stack while the frame runs, which may call itself. */
__attribute__((noinline)) static FJ_Entry *entry_for(FJ_CompiledFunction *self, PyObject *function, PyObject *const *locals,
                                                     Py_ssize_t n_arguments, FJ_Match *match) {
    FJ_Captured captured;
    FJ_Entry *entry = match->searched ? NULL : FJ_CompiledFunction_Find(self, function, locals, n_arguments, &captured);
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
        return run_uncompiled(tstate, frame, 0);
    }
    PyObject *result;
    if (FJ_Frame_RunInPlace(tstate, frame, (PyCodeObject *)entry->code, n_arguments, inputs, captures, &result) == 0) {
        return result;
    }
    PyObject **locals = FJ_Frame_Locals(frame);
    for (Py_ssize_t i = 0; i < n_arguments; i++) {
        Py_CLEAR(locals[i]);
    }
    result = FJ_Entry_CallFlat(entry, function, n_arguments, inputs, captures);
    FJ_Frame_Abandon(tstate, frame);
    return result;
}

/* The native section that an entry's step opens, or an entry's frame that runs uncompiled. It is not opened where that has long come to
   nothing: then native code is to be as fast as it is without a hook. */
static FJ_NativeSection begin_section(PyObject *upcalls, FJ_Entry *entry) {
    if (upcalls == NULL || entry->fruitless >= FJ_MOST_FRUITLESS) {
        return FJ_NativeSection_Interrupt();
    }
    return FJ_NativeSection_Begin(Py_NewRef(upcalls), (FJ_Entry *)Py_NewRef(entry));
}

PyObject *FJ_Entry_Ended(FJ_CompiledFunction *self, FJ_Entry *entry, PyObject *result) {
    if (entry->outcome == NULL || (entry->code != Py_None && result != NULL)) {
        return result;
    }
    PyObject *type = NULL, *error = NULL, *traceback = NULL;
    if (result == NULL) {
        PyErr_Fetch(&type, &error, &traceback);
        PyErr_NormalizeException(&type, &error, &traceback);
        if (traceback != NULL) {
            PyException_SetTraceback(error, traceback);
        }
    }
    PyObject *answer = FJ_Hook_CallBack(entry->outcome, (PyObject *)self, error != NULL ? error : Py_None, (PyObject *)entry);
    if (answer == NULL) {
        Py_CLEAR(result);
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(traceback);
    } else {
        Py_DECREF(answer);
        if (type != NULL) {
            Py_XSETREF(traceback, PyException_GetTraceback(error));
            PyErr_Restore(type, error, traceback);
        }
    }
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
    FJ_NativeSection outer = begin_section(compiles_upcalls(entry) ? upcalls : NULL, entry);
    if (outer.entry != NULL && entry->code != Py_None) {
        outer.entry->fruitless = 0;
    }
    PyObject *result = run_here(tstate, frame, entry, function, n_arguments, inputs, captures);
    FJ_NativeSection_Restore(outer);
    return FJ_Entry_Ended(self, entry, result);
}

static void forget_match(FJ_Match *match) {
    match->searched = 0;
    if (match->entry != NULL) {
        Py_CLEAR(match->inputs);
        Py_CLEAR(match->captures);
        Py_CLEAR(match->entry);
    }
}

/* Runs the frame of a call to `self`, compiled if possible. */
static PyObject *run_target(PyThreadState *tstate, FJ_Frame *frame, FJ_PendingCall *pending) {
    FJ_CompiledFunction *self = pending->target;
    if (!FJ_Frame_IsReplaceable(frame)) {
        return run_uncompiled(tstate, frame, 0);
    }
    PyObject *function = FJ_Frame_Function(frame);
    Py_ssize_t n_arguments = FJ_Arguments_Count(FJ_Frame_Code(frame));
    FJ_Match *match = &pending->match;
    FJ_CompiledFunction_CheckCode(self);
    if (match->version != self->version) { /* a garbage collection in between may have run anything */
        forget_match(match);
    }
    FJ_Entry *entry = match->entry;
    match->entry = NULL;
    if (entry == NULL && self->code == (PyObject *)FJ_Frame_Code(frame)) {
        entry = entry_for(self, function, FJ_Frame_Locals(frame), n_arguments, match);
    }
    if (entry != NULL && self->code != (PyObject *)FJ_Frame_Code(frame)) { /* compiling has given the function other code */
        match->entry = entry;
        forget_match(match);
        entry = NULL;
    }
    if (entry == NULL) {
        return PyErr_Occurred() ? abandon(tstate, frame) : run_uncompiled(tstate, frame, 0);
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

/* Calls between Python functions take no C stack, ours do: a recursion limit raised for the former must not crash the latter. */
static char *find_stack_floor(void) {
    enum { RESERVE = 512 * 1024 };
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return (char *)1;
    }
    pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_destroy(&attributes);
    return (char *)lowest + (size / 4 < RESERVE ? size / 4 : RESERVE);
}

static int is_stack_low(FJ_ThreadState *thread) {
    if (thread->stack_floor == NULL) {
        thread->stack_floor = find_stack_floor();
    }
    return (char *)__builtin_frame_address(0) < thread->stack_floor;
}

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
    hook_up(interpreter);
    PyObject *result = function->vectorcall((PyObject *)function, args, nargsf, kwnames);
    if (!pending.taken) { /* the arguments didn't fit, or the function makes a generator */
        thread->pending = pending.previous;
        hook_down(interpreter);
    }
    forget_match(&pending.match);
    *split = pending.split;
    return result;
}

/* Goes on after a split: its step runs the instruction that broke the graph, and says in which resume function the rest of the call
   is. Steals `value`. *entry is replaced by the entry that the resume function split at, or NULL. upcalls: what decides about
   upcalls while the step runs, or NULL. */
static PyObject *step_and_resume(PyObject *upcalls, FJ_Entry **entry, PyObject *value) {
    FJ_NativeSection outer = begin_section(upcalls, *entry);
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

/* What follows a call's first part: step and resume function by turns, as long as a graph break has split it. Steals both references. */
static PyObject *finish_call(PyObject *upcalls, PyObject *result, FJ_Entry *split) {
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
    FJ_Recursion_Enter(tstate);
    PyObject *result = call_once(self, args, nargsf, kwnames, NULL, &split);
    result = finish_call(self->upcalls, result, split);
    FJ_Recursion_Leave(tstate);
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

PyObject *FJ_CompiledFunction_Vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    FJ_CompiledFunction *self = (FJ_CompiledFunction *)callable;
    if (is_stack_low(&FJ_thread)) {
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

/* ---- native sections ---- */

/* Runs the frame of an upcall by a CompiledFunction. */
static PyObject *run_compiled(PyThreadState *tstate, FJ_Frame *frame, FJ_CompiledFunction *target) {
    if (FJ_Watched_Update() < 0) {
        return abandon(tstate, frame);
    }
    if (!target->enabled || FJ_RunsUncompiled(&FJ_thread)) {
        return run_uncompiled(tstate, frame, 0);
    }
    FJ_PendingCall pending = {.target = target, .taken = 1};
    PyObject *result = run_target(tstate, frame, &pending);
    if (pending.split != NULL) {
        FJ_Frame_Release(frame);
        result = finish_call(target->upcalls, result, pending.split);
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
        case FJ_CODE_NEVER: return run_uncompiled(tstate, frame, 0);
        case FJ_CODE_OPAQUE: {
            FJ_NativeSection section = FJ_NativeSection_Interrupt();
            result = run_uncompiled(tstate, frame, 0);
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
        if (hook_users == 0 || is_stack_low(thread)) {
            leave(tstate->interp);
        }
        FJ_Recursion_Enter(tstate);
        result = run_uncompiled(tstate, frame, throwflag);
        FJ_Recursion_Leave(tstate);
        return result;
    }
    if (thread->depth >= DEEPEST || is_stack_low(thread)) {
        FJ_NativeSection section = FJ_NativeSection_Interrupt();
        result = run_uncompiled(tstate, frame, throwflag);
        FJ_NativeSection_Restore(section);
        return result;
    }
    int uncompiled = throwflag || FJ_RunsUncompiled(thread) || FJ_Frame_IsMonitored(tstate);
    if (!uncompiled && ++thread->section.entry->fruitless >= FJ_MOST_FRUITLESS) {
        FJ_NativeSection_Restore((FJ_NativeSection){NULL, NULL}); /* for the rest of it */
        uncompiled = 1;
    }
    thread->depth++;
    FJ_Recursion_Enter(tstate);
    result = uncompiled ? run_uncompiled(tstate, frame, throwflag) : run_upcall(tstate, frame);
    FJ_Recursion_Leave(tstate);
    thread->depth--;
    return result;
}

/* The hook. */
static PyObject *eval_frame(PyThreadState *tstate, FJ_Frame *frame, int throwflag) {
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
    hook_down(tstate->interp);
    Py_INCREF(target);
    PyObject *result = run_target(tstate, frame, pending);
    Py_DECREF(target);
    return result;
}
