/* arguments.h: the argument slots of a call, which are the first local variables of its frame: one for each parameter, *args and **kwargs included. */
#ifndef FRAMEJIT_ARGUMENTS_H
#define FRAMEJIT_ARGUMENTS_H

#include <Python.h>

#include "items.h"

#ifdef __cplusplus
extern "C" {
#endif

extern PyObject *FJ_Unset; /* stands for a slot without a value */

/* Makes Unset. 0, or -1 with an exception set. */
int FJ_Arguments_Init(void);

/* How many slots a call of a function of this code has. */
static inline Py_ssize_t FJ_Arguments_Count(PyCodeObject *code) {
    return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) + ((code->co_flags & CO_VARKEYWORDS) != 0);
}

/* The slots as a tuple for Python code. A slot without a value becomes Unset. */
PyObject *FJ_Arguments_Tuple(PyObject *const *slots, Py_ssize_t n_slots);

enum { FJ_MOST_SLOTS = 32 };

/* A call's arguments in slots that no frame has: new references. */
typedef struct {
    Py_ssize_t n;
    PyObject *slots[FJ_MOST_SLOTS];
} FJ_Arguments;

/* Binds a call's arguments to the arguments->n slots, as _PyEval_Vector does (Python/ceval.c: initialize_locals). 0, maybe with an exception
   set, where they don't fit, which CPython says best; slots that were bound by then are to be released. */
int FJ_Arguments_BindAny(PyFunctionObject *function, PyCodeObject *code, PyObject *const *args, Py_ssize_t n_args, PyObject *names, FJ_Arguments *arguments);

/* BindAny, with a short way for a positional argument to each slot, which most calls have. */
static inline int FJ_Arguments_Bind(PyFunctionObject *function, PyCodeObject *code, PyObject *const *args, Py_ssize_t n_args, PyObject *names,
                                    FJ_Arguments *arguments) {
    if (names != NULL || n_args != arguments->n || n_args != code->co_argcount) {
        return FJ_Arguments_BindAny(function, code, args, n_args, names, arguments);
    }
    for (Py_ssize_t i = 0; i < n_args; i++) {
        arguments->slots[i] = Py_NewRef(args[i]);
    }
    return 1;
}

static inline void FJ_Arguments_Release(FJ_Arguments *arguments) { FJ_Items_Release(arguments->slots, arguments->n); }

#ifdef __cplusplus
}
#endif

#endif
