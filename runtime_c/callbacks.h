/* callbacks.h: how Python code of framejit's is called about a call of the program's. */
#ifndef FRAMEJIT_CALLBACKS_H
#define FRAMEJIT_CALLBACKS_H

#include "entry.h"

/* Calls a callback about a call of a function, with this thread marked as compiling. `entry` may be NULL. */
PyObject *FJ_Callback_Call(PyObject *callback, PyObject *function, PyObject *arguments, PyObject *entry);

/* Has the `outcome` of an entry of a CompiledFunction, if it has one for this, look at how its frame or code has ended. Steals `result`; what it
   gives, or the exception that is set, is the call's unless something else was raised. */
PyObject *FJ_Callback_Ended(PyObject *compiled, FJ_Entry *entry, PyObject *result);

#endif
