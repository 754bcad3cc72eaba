/* python_values.cpp: makes Python's objects of what the dispatcher's stack has. */
#include "python_values.h"

#include <ATen/core/jit_type.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include <functional>

namespace framejit {

namespace {

/* A list of what `convert` makes of each of `size` numbers. */
PyObject *list_of(size_t size, const std::function<PyObject *(size_t)> &convert) {
    PyObject *made = PyList_New(static_cast<Py_ssize_t>(size));
    for (size_t place = 0; made != nullptr && place < size; place++) {
        PyObject *const part = convert(place);
        if (part == nullptr) {
            Py_CLEAR(made);
        } else {
            PyList_SET_ITEM(made, static_cast<Py_ssize_t>(place), part);
        }
    }
    return made;
}

c10::TypePtr without_optional(const c10::TypePtr &type) {
    const auto optional = type->cast<c10::OptionalType>();
    return optional == nullptr ? type : optional->getElementType();
}

PyObject *int_in_python(int64_t value, c10::TypeKind kind) {
    switch (kind) {
        case c10::TypeKind::ScalarTypeType: return Py_NewRef(reinterpret_cast<PyObject *>(torch::getTHPDtype(static_cast<c10::ScalarType>(value))));
        case c10::TypeKind::LayoutType: return Py_NewRef(reinterpret_cast<PyObject *>(torch::getTHPLayout(static_cast<c10::Layout>(value))));
        case c10::TypeKind::MemoryFormatType: return Py_NewRef(torch::utils::getTHPMemoryFormat(static_cast<c10::MemoryFormat>(value)));
        default: return PyLong_FromLongLong(value);
    }
}

PyObject *tensor_in_python(const at::Tensor &tensor, PyObject *wrapped) {
    PyObject *const made = THPVariable_Wrap(tensor);
    if (made == nullptr || wrapped == nullptr || !tensor.unsafeGetTensorImpl()->is_wrapped_number()) return made;
    PyObject *const number = PyObject_CallOneArg(wrapped, made);
    Py_DECREF(made);
    return number;
}

PyObject *in_python(const c10::IValue &value, const c10::TypePtr &declared, PyObject *wrapped) {
    if (value.isTensor()) return tensor_in_python(value.toTensor(), wrapped);
    if (value.isNone()) return Py_NewRef(Py_None);
    if (value.isBool()) return PyBool_FromLong(value.toBool());
    if (value.isDouble()) return PyFloat_FromDouble(value.toDouble());
    if (value.isString()) return PyUnicode_FromStringAndSize(value.toStringRef().data(), static_cast<Py_ssize_t>(value.toStringRef().size()));
    if (value.isDevice()) return THPDevice_New(value.toDevice());
    const c10::TypePtr type = without_optional(declared);
    if (value.isInt()) return int_in_python(value.toInt(), type->kind());
    if (value.isList()) {
        const auto list = type->cast<c10::ListType>();
        const c10::TypePtr element = list == nullptr ? type : list->getElementType();
        const c10::ArrayRef<c10::IValue> parts = value.toListRef();
        return list_of(parts.size(), [&](size_t place) { return in_python(parts[place], element, wrapped); });
    }
    return PyErr_Format(PyExc_TypeError, "an argument of an operator is a %s", value.tagKind().c_str());
}

}  // namespace

PyObject *arguments_in_python(const c10::FunctionSchema &schema, c10::ArrayRef<c10::IValue> arguments, PyObject *wrapped) {
    return list_of(arguments.size(), [&](size_t place) { return in_python(arguments[place], schema.arguments()[place].real_type(), wrapped); });
}

PyObject *tensors_in_python(c10::ArrayRef<c10::IValue> tensors) {
    return list_of(tensors.size(), [&](size_t place) { return tensor_in_python(tensors[place].toTensor(), nullptr); });
}

}  // namespace framejit
