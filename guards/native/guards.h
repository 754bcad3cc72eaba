/* guards.h: the C face of the guard tree. */
#ifndef FRAMEJIT_GUARDS_H
#define FRAMEJIT_GUARDS_H

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The type GuardTree; ready after FJ_Guards_Init. */
extern PyTypeObject *FJ_GuardTreeType;

/* Walks the tree over one call. locals: the frame's argument slots (borrowed, may hold NULL), n_locals of them; func: the frame's function object.
   On match returns 1 and stores new references to the captured values in captures[0 .. n_captures). 0: no match (nothing stored).
   -1: exception set. Runs no user Python. */
int FJ_GuardTree_Match(PyObject *tree, PyObject *const *locals, Py_ssize_t n_locals, PyObject *func, PyObject **captures);

/* How many values a match stores. */
Py_ssize_t FJ_GuardTree_NumCaptures(PyObject *tree);

/* Adds the types to framejit._runtime. 0, or -1 with an exception set. */
int FJ_Guards_Init(PyObject *module);

#ifdef __cplusplus
}
#endif

#endif
