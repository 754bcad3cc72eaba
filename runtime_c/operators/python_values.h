/* python_values.h: arguments of operators as Python's objects. */
#ifndef FRAMEJIT_OPERATORS_PYTHON_VALUES_H
#define FRAMEJIT_OPERATORS_PYTHON_VALUES_H

#include <Python.h>

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <span>

namespace framejit {

/* The arguments of a call as a list, as its operator takes them in Python. A number that became a tensor is a `wrapped(tensor)`. A new reference, or null
 * with an exception set. The GIL is held. */
PyObject *arguments_in_python(const c10::FunctionSchema &schema, c10::ArrayRef<c10::IValue> arguments, PyObject *wrapped);

/* Tensors as a list. Likewise. */
PyObject *tensors_in_python(c10::ArrayRef<c10::IValue> tensors);

}  // namespace framejit

#endif
