/* cache.h: the entries of a CompiledFunction, in the order in which they are tried. */
#ifndef FRAMEJIT_CACHE_H
#define FRAMEJIT_CACHE_H

#include "entry.h"

/* Which entry a first argument had last. Neither is owned, nor may be looked into. */
typedef struct {
    PyObject *argument;
    FJ_Entry *entry;
} FJ_Hint;

typedef struct FJ_CodeRecord FJ_CodeRecord; /* upcalls.c */

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

/* Looks for an entry that matches and moves it forward. A new reference with *captured set, or NULL, with an exception set if
   something failed. */
FJ_Entry *FJ_Cache_Find(FJ_CompiledFunction *self, PyObject *function, PyObject *const *locals, Py_ssize_t n_locals, FJ_Captured *captured);

/* Puts the entry in front of those that aren't preferred. 0, or -1 with an exception set when its code doesn't fit the function's. */
int FJ_Cache_Add(FJ_CompiledFunction *self, FJ_Entry *entry);

/* Both give whether the entry is there. */
int FJ_Cache_Remove(FJ_CompiledFunction *self, PyObject *entry);
int FJ_Cache_Prefer(FJ_CompiledFunction *self, PyObject *entry);

void FJ_Cache_Clear(FJ_CompiledFunction *self);

/* Drops the entries when the function has got another code object since. */
void FJ_Cache_CheckCode(FJ_CompiledFunction *self);

#endif
