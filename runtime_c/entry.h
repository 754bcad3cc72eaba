/* entry.h: Entry, one compiled version of a function, and what its guard tree captures of a call. */
#ifndef FRAMEJIT_ENTRY_H
#define FRAMEJIT_ENTRY_H

#include <Python.h>

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

extern PyTypeObject FJ_EntryType;

/* The type CompiledFunction; ready after FJ_CompiledFunction_Init. compiled_function.c, which defines it, stands above the files that use it here. */
extern PyTypeObject *FJ_CompiledFunctionType;

/* What a walk has captured: new references. Where there are few of them they are in the struct, which therefore must not move. */
typedef struct {
    PyObject **values; /* values[-1] is there too, for whoever calls with them */
    PyObject *few[1 + 64];
} FJ_Captured;

/* Walks the entry's tree over the call. 1: it matches, and *captured is to be handed over or released; 0: it doesn't; -1: exception set. */
int FJ_Entry_Match(FJ_Entry *entry, PyObject *const *locals, Py_ssize_t n_locals, PyObject *function, FJ_Captured *captured);

/* Hands the values over to a list of inputs and a tuple of the others. 0, or -1 with an exception set; they are gone either way. */
int FJ_Captured_HandOver(FJ_Captured *captured, FJ_Entry *entry, PyObject **inputs, PyObject **captures);

/* Lets go of the values from the first one on, before which all have been taken, as have those that are NULL. */
void FJ_Captured_Release(FJ_Captured *captured, FJ_Entry *entry, Py_ssize_t first);

/* Runs the entry's code by an ordinary call. Steals both references. */
PyObject *FJ_Entry_CallFlat(FJ_Entry *entry, PyObject *function, Py_ssize_t n_arguments, PyObject *inputs, PyObject *captures);

#endif
