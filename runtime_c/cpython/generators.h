/* generators.h: generators that are suspended, read and written. generators.c knows where a generator keeps its frame, and what the frame says. */
#ifndef FRAMEJIT_CPYTHON_GENERATORS_H
#define FRAMEJIT_CPYTHON_GENERATORS_H

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A suspended generator: all references are borrowed. */
typedef struct {
    PyCodeObject *code;
    PyObject *function;  /* whose frame it is */
    PyObject **slots;    /* its variables, and above them its stack; NULL where a slot is empty */
    Py_ssize_t n_slots;
    int offset; /* of the instruction that suspended it, in bytes: a yield, or the one that made the generator */
} FJ_Suspended;

/* Looks at a generator. False: it isn't an exact generator; it runs or has ended; it handles an exception; something else holds its frame, and could see
   how it is written; or this Python's frames can't be read. */
int FJ_Generator_Look(PyObject *generator, FJ_Suspended *found);

/* Whether an exact generator has ended. */
int FJ_Generator_HasEnded(PyObject *generator);

/* Gives a generator, which FJ_Generator_Look has found suspended, so many slots, and another place to continue after: the instruction at an offset, a
   yield, or where it is already. The slots must be filled as the code expects them there. */
void FJ_Generator_Suspend(PyObject *generator, Py_ssize_t n_slots, int offset);

/* Ends such a generator, of which all slots are empty, as if its code had returned. `created`: the offset of the instruction that made the generator.
   0, or -1 with an exception set. */
int FJ_Generator_End(PyObject *generator, int created);

#ifdef __cplusplus
}
#endif

#endif
