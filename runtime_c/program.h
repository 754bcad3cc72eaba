/* program.h: what an entry does in place of running its code: the graph that is called, and a program that builds the call's result. */
#ifndef FRAMEJIT_PROGRAM_H
#define FRAMEJIT_PROGRAM_H

#include <Python.h>

/* A step of the stack machine: one of the operations that program.c lists. */
typedef struct {
    int code;
    int key; /* of an operation that stands for several: the constant that is the key */
    Py_ssize_t argument;
} FJ_Operation;

typedef struct {
    PyObject *graph;  /* or NULL: nothing is called */
    PyObject *refuse; /* or NULL; raises for what the graph has returned */
    int boxed;        /* it takes one list, which it may empty */
    PyObject *calls;  /* a tuple: the offsets in the entry's code of its calls, the graph's first */
    Py_ssize_t n_outputs;
    PyObject *recovery; /* or NULL; what is done if the graph raises: a tuple as FJ_Program_Recover takes it apart */
    PyObject *constants; /* a tuple */
    Py_ssize_t n_variables;
    Py_ssize_t n_places; /* variables and the deepest stack */
    Py_ssize_t n_operations;
    FJ_Operation operations[];
} FJ_Program;

/* Once, before all else here. 0, or -1 with an exception set. */
int FJ_Program_Init(void);

enum { FJ_CALLS_OF_RECOVERY = 2 }; /* in the code, after all others */

/* From Entry's argument `direct`: (graph or None, refuse or None, boxed, number of outputs, offsets in the code of its calls, operations
   as pairs of a name and a number, None or (function, captures, what gives an error its traceback), constants). n_captures: without the
   inputs. NULL with an exception set where it is malformed. */
FJ_Program *FJ_Program_New(PyObject *description, PyObject *code, Py_ssize_t n_captures);
void FJ_Program_Free(FJ_Program *self);
int FJ_Program_Traverse(FJ_Program *self, visitproc visit, void *arg);

/* After the graph has raised `error`, which is stolen: the result of the recovery's function, called with a list of the error and with captures. NULL with
   an exception set where that raises. */
PyObject *FJ_Program_Recover(const FJ_Program *self, PyObject *error, PyObject *const *captures);

/* Builds the result from the graph's outputs and the captures that are no inputs. *call counts the calls that have returned. NULL with an
   exception set where an operation raises. */
PyObject *FJ_Program_Run(const FJ_Program *self, PyObject *const *outputs, PyObject *const *captures, Py_ssize_t *call);

#endif
