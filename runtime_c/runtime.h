/* runtime.h: what the files of runtime_c share: the two object types, the per-thread state and the hook. */
#ifndef FRAMEJIT_RUNTIME_H
#define FRAMEJIT_RUNTIME_H

#include <Python.h>

#include "frame.h"

/* What an entry does in place of running its code, where its calls need no frame. Opaque: direct.c. */
typedef struct FJ_Direct FJ_Direct;

/* One compiled version of a function: a guard tree, and the code to run where the tree matches. Immutable but for the counters. */
typedef struct {
    PyObject_HEAD
    PyObject *code;      /* code object, or None: run the frame as written */
    PyObject *tree;      /* GuardTree */
    PyObject *keep;      /* lives as long as the entry */
    PyObject *step;      /* NULL, or what goes on with the value that `code` returns: step(value) -> (choice, state) */
    PyObject *resumes;   /* with `step`: tuple of CompiledFunctions; resumes[choice](state) is the rest of the call */
    PyObject *flat_code; /* `code` with all slots as positional parameters, made when first needed; or NULL */
    FJ_Direct *direct;   /* or NULL */
    PyObject *weak_references;
    Py_ssize_t n_inputs;
    Py_ssize_t n_captures; /* all of them, inputs included */
    Py_ssize_t hits;
    Py_ssize_t direct_hits; /* those without a frame */
} FJ_Entry;

/* Which entry a first argument had last. Neither is owned, nor may be looked into. */
typedef struct {
    PyObject *argument;
    FJ_Entry *entry;
} FJ_Hint;

/* What a walk has captured: new references. Where there are few of them they are in the struct, which therefore must not move. */
typedef struct {
    PyObject **values; /* values[-1] is there too, for whoever calls with them */
    PyObject *few[1 + 64];
} FJ_Captured;

/* The outcome of looking for a call's entry before the call has a frame. */
typedef struct {
    int searched;    /* no entry is found later that isn't found now */
    FJ_Entry *entry; /* the one that matches: a new reference, as are its inputs and captures; or NULL */
    PyObject *inputs;
    PyObject *captures;
} FJ_Match;

/* A function and its entries. Calling it runs the entry that matches the call, compiling one where none does. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;
    PyObject *compile_callback;
    PyObject *rejected_callback; /* or NULL */
    PyObject *code;    /* the code object that the entries were made for */
    FJ_Entry **entries; /* most recently used first */
    Py_ssize_t n_entries;
    Py_ssize_t n_direct; /* how many of them need no frame */
    Py_ssize_t allocated;
    size_t version; /* changes with every change of `entries` */
    FJ_Hint *hints; /* NULL while there are few entries */
    PyObject *dict;
    PyObject *weak_references;
    char enabled;
} FJ_CompiledFunction;

extern PyTypeObject FJ_EntryType;
extern PyTypeObject FJ_CompiledFunctionType;
extern PyObject *FJ_Unset; /* stands for an argument slot without a value */

/* A call on its way from CompiledFunction to its frame. Lives on the C stack of the call. */
typedef struct FJ_PendingCall {
    FJ_CompiledFunction *target;
    struct FJ_PendingCall *previous;
    int taken; /* its frame has arrived */
    FJ_Match match;
    FJ_Entry *split; /* the entry that ran, if the call goes on with its `step`: a new reference */
    PyObject **state; /* the only argument, where nobody else needs it: let go of as soon as the frame has it; or NULL */
} FJ_PendingCall;

typedef struct {
    FJ_PendingCall *pending;
    FJ_Frame *forwarded; /* the frame that is being handed to the previous hook */
    char *stack_floor;   /* below it the C stack is nearly used up; NULL until asked for */
    int disabled;
    int compiling;
    int checking; /* a call checker is at work: calls run unchecked */
    int eager;    /* FJ_EAGER, FJ_NOT_EAGER, or as the process says */
} FJ_ThreadState;

enum { FJ_EAGER_UNSET, FJ_EAGER, FJ_NOT_EAGER };

extern _Thread_local FJ_ThreadState FJ_thread;

/* switches.c */
extern int FJ_globally_disabled;
extern int FJ_globally_eager;
extern int FJ_watched_eager;       /* what the watched dicts came to */
extern PyObject *FJ_call_checker;  /* NULL, or called as (compiled function, args, kwargs) in place of a call */
extern PyObject *FJ_guard_checker; /* NULL, or called as (compiled function, argument slots) before a call looks for its entry */
/* Has the callback called if a watched dict has changed. 0, or -1 with an exception set. */
int FJ_Watched_Update(void);
/* Whether calls of compiled functions run as written, here and now. */
static inline int FJ_RunsAsWritten(const FJ_ThreadState *thread) {
    return thread->compiling || thread->disabled || FJ_globally_disabled || FJ_watched_eager ||
           (thread->eager == FJ_EAGER_UNSET ? FJ_globally_eager : thread->eager == FJ_EAGER);
}
extern PyMethodDef FJ_switches[];

/* hook.c */
PyObject *FJ_CompiledFunction_Vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames);
int FJ_Hook_IsInstalled(void);

/* cache.c */
Py_ssize_t FJ_Code_CountArguments(PyCodeObject *code);
/* Walks the entry's tree over the call. 1: it matches, and *captured is to be split or released; 0: it doesn't; -1: exception set. */
int FJ_Entry_Match(FJ_Entry *entry, PyObject *const *locals, Py_ssize_t n_locals, PyObject *function, FJ_Captured *captured);
/* Hands the values over to a list of inputs and a tuple of the others. 0, or -1 with an exception set; they are gone either way. */
int FJ_Captured_Split(FJ_Captured *captured, FJ_Entry *entry, PyObject **inputs, PyObject **captures);
/* Lets go of the values; those that are NULL have been taken. */
void FJ_Captured_Release(FJ_Captured *captured, FJ_Entry *entry);
/* Looks for an entry that matches and moves it to the front. A new reference with *captured set, or NULL, with an exception set if
   something failed. */
FJ_Entry *FJ_CompiledFunction_Find(FJ_CompiledFunction *self, PyObject *const *locals, Py_ssize_t n_locals, FJ_Captured *captured);
/* Puts the entry in front. 0, or -1 with an exception set when its code doesn't fit the function's. */
int FJ_CompiledFunction_Add(FJ_CompiledFunction *self, FJ_Entry *entry);
/* Drops the entries when the function has got another code object since. */
void FJ_CompiledFunction_CheckCode(FJ_CompiledFunction *self);
/* Runs the entry's code by an ordinary call. Steals both references. */
PyObject *FJ_Entry_CallFlat(FJ_Entry *entry, PyObject *function, Py_ssize_t n_arguments, PyObject *inputs, PyObject *captures);

/* direct.c */
/* From Entry's argument `direct`: (graph or None, boxed, number of outputs, offset of its call in the code, operations as pairs of a name
   and a number, constants). n_captures: without the inputs. NULL with an exception set where it is malformed. */
FJ_Direct *FJ_Direct_New(PyObject *description, PyObject *code, Py_ssize_t n_captures);
void FJ_Direct_Free(FJ_Direct *self);
int FJ_Direct_Traverse(FJ_Direct *self, visitproc visit, void *arg);
/* Runs a call without a frame. 1: done, with the outcome in *result and *split as call_once says; 0: it needs a frame, and *match says
   what is known already. */
int FJ_Direct_Call(PyThreadState *tstate, FJ_CompiledFunction *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names, PyObject **state,
                   FJ_Match *match, PyObject **result, FJ_Entry **split);

#endif
