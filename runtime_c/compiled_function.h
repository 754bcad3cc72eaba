/* compiled_function.h: the type CompiledFunction, which stands above all that its calls need. */
#ifndef FRAMEJIT_COMPILED_FUNCTION_H
#define FRAMEJIT_COMPILED_FUNCTION_H

#include <Python.h>

/* Adds the type to a module, and makes it FJ_CompiledFunctionType. 0, or -1 with an exception set. */
int FJ_CompiledFunction_Init(PyObject *module);

#endif
