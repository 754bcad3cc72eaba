/* runtime.h: what the files of runtime_c share: the two object types, the per-thread state, the hook and the records of code objects. */
#ifndef FRAMEJIT_RUNTIME_H
#define FRAMEJIT_RUNTIME_H

#include <Python.h>

#include "arguments.h"
#include "cpython/frame.h"
#include "program.h"

/* One compiled version of a function: a guard tree, and the code to run where the tree matches. Immutable but for the counters. */
typedef struct {
    PyObject_HEAD
    PyObject *code;      /* code object, or None: run the frame uncompiled */
    PyObject *tree;      /* GuardTree */
    PyObject *spec;      /* what the entry was made of, for Python */
    PyObject *step;      /* NULL, or what goes on with the value that `code` returns: step(value) -> (choice, state) */
    PyObject *resumes;   /* with `step`: tuple of CompiledFunctions; resumes[choice](state) is the rest of the call */
    PyObject *flat_code; /* `code` with all slots as positional parameters, made when first needed; or NULL */
    FJ_Program *program; /* NULL, or what is done in place of running the code, where calls need no frame */
    PyObject *weak_references;
    Py_ssize_t n_inputs;
    Py_ssize_t n_captures; /* all of them, inputs included */
    Py_ssize_t hits;
    Py_ssize_t direct_hits; /* those without a frame */
    Py_ssize_t fruitless;   /* frames in the native sections that it has opened since one of them was last compiled */
    PyObject *outcome;      /* NULL, or what looks at how each frame without `code` has ended, or at the exception that leaves `code`; it may
                               raise, and give the exception another traceback: outcome(compiled function, the exception or None, entry) */
    PyObject *upcalls;      /* NULL; or of an entry that serves only the call that it was made for, and isn't kept: what decides in its native
                               section, in place of the function's own `upcalls` */
    char compiles_upcalls;  /* without `code`: the frame opens a native section */
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
    int searched;    /* what follows holds as long as the entries are the same */
    size_t version;  /* theirs */
    FJ_Entry *entry; /* the one that matches: a new reference, as are its inputs and captures; or NULL */
    PyObject *inputs;
    PyObject *captures;
} FJ_Match;

typedef struct FJ_CodeRecord FJ_CodeRecord;

/* A function and its entries. Calling it runs the entry that matches the call, compiling one where none does. */
typedef struct FJ_CompiledFunction {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;
    PyObject *compile_callback;
    PyObject *rejected_callback; /* or NULL */
    PyObject *ended_callback;    /* or NULL */
    PyObject *outermost_callback; /* or NULL; called when a call begins that is inside no other call of a function that has one */
    PyObject *upcalls;     /* NULL, or what decides in its native sections: upcalls(function, arguments) tells how a function called there runs */
    FJ_CodeRecord *record; /* of the code whose functions it stands for where `upcalls` decides, or NULL: it stands for `function` only */
    struct FJ_CompiledFunction *next_of_code; /* the next one of the record */
    PyObject *code;    /* the code object that the entries were made for */
    FJ_Entry **entries; /* those that are preferred, then the others, each most recently used first */
    Py_ssize_t n_entries;
    Py_ssize_t n_preferred; /* how many of them are tried before the others, whenever those were used */
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

/* A call on its way from CompiledFunction to its frame. Lives on the C stack of the call. */
typedef struct FJ_PendingCall {
    FJ_CompiledFunction *target;
    struct FJ_PendingCall *previous;
    int taken; /* its frame has arrived */
    FJ_Match match;
    FJ_Entry *split; /* the entry that ran, if the call goes on with its `step`: a new reference */
    PyObject **state; /* the only argument, where nobody else needs it: let go of as soon as the frame has it; or NULL */
} FJ_PendingCall;

/* A stretch of native code in which the user's functions that it calls are compiled. Both references are owned; neither, or both are NULL. */
typedef struct {
    PyObject *upcalls;
    FJ_Entry *entry; /* whose step it is, or whose frame that runs uncompiled */
} FJ_NativeSection;

typedef struct {
    FJ_PendingCall *pending;
    FJ_NativeSection section; /* the hook is up as long as there is one */
    int depth;        /* frames that the hook has passed on, on top of one another */
    FJ_Frame *forwarded; /* the frame that is being handed to the previous hook */
    char *stack_floor;   /* below it the C stack is nearly used up; NULL until asked for */
    int disabled;
    int compiling;
    int checking; /* a call checker is at work: calls run unchecked */
    int announced; /* calls that are running of functions with an `outermost_callback` */
    int eager;    /* FJ_EAGER, FJ_NOT_EAGER, or as the process says */
} FJ_ThreadState;

/* An entry in whose native sections so many frames in a row were not worth compiling opens no more of them. */
enum { FJ_MOST_FRUITLESS = 100000 };

enum { FJ_EAGER_UNSET, FJ_EAGER, FJ_NOT_EAGER };

extern _Thread_local FJ_ThreadState FJ_thread;

/* switches.c */
extern int FJ_globally_eager;
extern int FJ_watched_eager;       /* what the watched dicts came to */
extern PyObject *FJ_call_checker;  /* NULL, or called as (compiled function, args, kwargs) in place of a call */
extern PyObject *FJ_guard_checker; /* NULL, or called as (compiled function, argument slots, function) before a call looks for its entry */
/* Has the callback called if a watched dict has changed. 0, or -1 with an exception set. */
int FJ_Watched_Update(void);
/* Whether calls of compiled functions run uncompiled, here and now. */
static inline int FJ_RunsUncompiled(const FJ_ThreadState *thread) {
    return thread->compiling || thread->disabled || FJ_watched_eager ||
           (thread->eager == FJ_EAGER_UNSET ? FJ_globally_eager : thread->eager == FJ_EAGER);
}
extern PyMethodDef FJ_switches[];

/* hook.c */
PyObject *FJ_CompiledFunction_Vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames);
int FJ_Hook_IsInstalled(void);
/* Begins a native section, or with NULL interrupts one: steals the references, and gives those of the one before, which is to be restored. */
FJ_NativeSection FJ_NativeSection_Begin(PyObject *upcalls, FJ_Entry *entry);
static inline FJ_NativeSection FJ_NativeSection_Interrupt(void) {
    return FJ_thread.section.upcalls != NULL ? FJ_NativeSection_Begin(NULL, NULL) : (FJ_NativeSection){NULL, NULL};
}
static inline void FJ_NativeSection_Restore(FJ_NativeSection before) {
    if (before.upcalls != NULL || FJ_thread.section.upcalls != NULL) {
        FJ_NativeSection ended = FJ_NativeSection_Begin(before.upcalls, before.entry);
        Py_XDECREF(ended.upcalls);
        Py_XDECREF(ended.entry);
    }
}
/* Calls a callback about a call of a function, with this thread marked as compiling. `entry` may be NULL. */
PyObject *FJ_Hook_CallBack(PyObject *callback, PyObject *function, PyObject *arguments, PyObject *entry);
/* Has the entry's `outcome`, if it has one for this, look at how its frame or code has ended. Steals `result`; what it gives, or the exception
   that is set, is the call's unless something else was raised. */
PyObject *FJ_Entry_Ended(FJ_CompiledFunction *self, FJ_Entry *entry, PyObject *result);

/* upcalls.c */
enum { FJ_CODE_NEVER = 1, FJ_CODE_OPAQUE = 2, FJ_CODE_COMPILED = 3 };
/* What becomes of a function's frame in a native section: FJ_CODE_NEVER: it runs uncompiled; FJ_CODE_OPAQUE: so does all that it calls;
   FJ_CODE_COMPILED: *target, a new reference, runs it. -1 with an exception set. */
int FJ_Upcalls_Decide(PyObject *upcalls, FJ_Frame *frame, FJ_CompiledFunction **target);
/* Makes FJ_CODE_NEVER or FJ_CODE_OPAQUE the answer for a code object. */
int FJ_Upcalls_MarkCode(PyObject *code, int kind);
/* Before a CompiledFunction loses its function. */
void FJ_Upcalls_Unlink(FJ_CompiledFunction *compiled);
int FJ_Upcalls_Init(void);

/* entry.c */
/* Walks the entry's tree over the call. 1: it matches, and *captured is to be handed over or released; 0: it doesn't; -1: exception set. */
int FJ_Entry_Match(FJ_Entry *entry, PyObject *const *locals, Py_ssize_t n_locals, PyObject *function, FJ_Captured *captured);
/* Hands the values over to a list of inputs and a tuple of the others. 0, or -1 with an exception set; they are gone either way. */
int FJ_Captured_HandOver(FJ_Captured *captured, FJ_Entry *entry, PyObject **inputs, PyObject **captures);
/* Lets go of the values; those that are NULL have been taken. */
void FJ_Captured_Release(FJ_Captured *captured, FJ_Entry *entry);
/* Runs the entry's code by an ordinary call. Steals both references. */
PyObject *FJ_Entry_CallFlat(FJ_Entry *entry, PyObject *function, Py_ssize_t n_arguments, PyObject *inputs, PyObject *captures);

/* cache.c */
/* Looks for an entry that matches and moves it forward. A new reference with *captured set, or NULL, with an exception set if
   something failed. */
FJ_Entry *FJ_CompiledFunction_Find(FJ_CompiledFunction *self, PyObject *function, PyObject *const *locals, Py_ssize_t n_locals,
                                   FJ_Captured *captured);
/* Puts the entry in front. 0, or -1 with an exception set when its code doesn't fit the function's. */
int FJ_CompiledFunction_Add(FJ_CompiledFunction *self, FJ_Entry *entry);
/* Drops the entries when the function has got another code object since. */
void FJ_CompiledFunction_CheckCode(FJ_CompiledFunction *self);

#endif
