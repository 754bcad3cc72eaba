/* runtime.h: what the files of runtime_c share: the two object types, the per-thread state and the hook. */
#ifndef FRAMEJIT_RUNTIME_H
#define FRAMEJIT_RUNTIME_H

#include <Python.h>

#include "frame.h"

/* One compiled version of a function: a guard tree, and the code to run where the tree matches. Immutable but for the counters. */
typedef struct {
    PyObject_HEAD
    PyObject *code;      /* code object, or None: run the frame as written */
    PyObject *tree;      /* GuardTree */
    PyObject *keep;      /* lives as long as the entry */
    PyObject *step;      /* NULL, or what goes on with the value that `code` returns: step(value) -> (choice, state) */
    PyObject *resumes;   /* with `step`: tuple of CompiledFunctions; resumes[choice](state) is the rest of the call */
    PyObject *flat_code; /* `code` with all slots as positional parameters, made when first needed; or NULL */
    PyObject *weak_references;
    Py_ssize_t n_inputs;
    Py_ssize_t n_captures; /* all of them, inputs included */
    Py_ssize_t hits;
} FJ_Entry;

/* Which entry a first argument had last. Neither is owned, nor may be looked into. */
typedef struct {
    PyObject *argument;
    FJ_Entry *entry;
} FJ_Hint;

/* A function and its entries. Calling it runs the entry that matches the call, compiling one where none does. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;
    PyObject *compile_callback;
    PyObject *code;    /* the code object that the entries were made for */
    FJ_Entry **entries; /* most recently used first */
    Py_ssize_t n_entries;
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
/* Walks the entry's tree over the call. 1: it matches, and *inputs and *captures are new references; 0: it doesn't; -1: exception set. */
int FJ_Entry_Match(FJ_Entry *entry, PyObject *const *locals, Py_ssize_t n_locals, PyObject *function, PyObject **inputs, PyObject **captures);
/* Looks for an entry that matches and moves it to the front. A new reference with *inputs and *captures set, or NULL, with an exception
   set if something failed. */
FJ_Entry *FJ_CompiledFunction_Find(FJ_CompiledFunction *self, PyObject *const *locals, Py_ssize_t n_locals, PyObject **inputs, PyObject **captures);
/* Puts the entry in front. 0, or -1 with an exception set when its code doesn't fit the function's. */
int FJ_CompiledFunction_Add(FJ_CompiledFunction *self, FJ_Entry *entry);
/* Drops the entries when the function has got another code object since. */
void FJ_CompiledFunction_CheckCode(FJ_CompiledFunction *self);
/* Runs the entry's code by an ordinary call. Steals both references. */
PyObject *FJ_Entry_CallFlat(FJ_Entry *entry, PyObject *function, Py_ssize_t n_arguments, PyObject *inputs, PyObject *captures);

#endif
