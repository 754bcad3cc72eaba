/* arrays.cpp: NumPy's arrays as tensors that share their memory, as torch.from_numpy makes them, and its scalars as Python's numbers. */
#include "tree.h"

namespace framejit {

namespace {

/* NumPy's objects, as far as they are read here (numpy/ndarraytypes.h); that the layout is right is checked when the module is loaded. */
struct Descr {
    PyObject_HEAD
    PyTypeObject *typeobj;
    char kind, type, byteorder, flags;
    int type_num;
};
struct Array {
    PyObject_HEAD
    char *data;
    int nd;
    Py_ssize_t *dimensions, *strides;
    PyObject *base;
    Descr *descr;
    int flags;
};
constexpr int writeable = 0x0400;                   /* NPY_ARRAY_WRITEABLE */
constexpr int long_long = 9, unsigned_long_long = 10; /* NPY_LONGLONG, NPY_ULONGLONG: torch takes them for int64 and uint64, NumPy tells them apart */

PyTypeObject *array_type;
PyObject *from_numpy;

bool is_laid_out_so(PyObject *array) {
    auto *seen = reinterpret_cast<Array *>(array);
    PyObject *dtype = PyObject_GetAttrString(array, "dtype"), *flags = PyObject_GetAttrString(array, "flags");
    PyObject *number = dtype == nullptr ? nullptr : PyObject_GetAttrString(dtype, "num");
    PyObject *bits = flags == nullptr ? nullptr : PyObject_GetAttrString(flags, "num");
    bool right = number != nullptr && bits != nullptr && reinterpret_cast<PyObject *>(seen->descr) == dtype &&
                 seen->descr->type_num == PyLong_AsLong(number) && seen->flags == PyLong_AsLong(bits);
    Py_XDECREF(bits);
    Py_XDECREF(number);
    Py_XDECREF(flags);
    Py_XDECREF(dtype);
    return right;
}

/* A new reference; NULL, maybe with an exception set, where torch has no tensor of an array's memory.
 * torch warns of memory that may not be written to. That it isn't is up to the trace: so the array looks otherwise to torch for this moment, in which no
 * Python runs. */
PyObject *tensor_of(PyObject *array, bool read_only) {
    if (!Py_IS_TYPE(array, array_type) || operators_are_seen()) return nullptr;
    auto *seen = reinterpret_cast<Array *>(array);
    const int number = seen->descr->type_num, flags = seen->flags;
    if (((flags & writeable) == 0) != read_only || number == long_long || number == unsigned_long_long) return nullptr;
    seen->flags = flags | writeable;
    PyObject *tensor = PyObject_CallOneArg(from_numpy, array);
    seen->flags = flags;
    return tensor;
}

const Registered<AccessorKind> array_tensor({
    .name = "array_tensor",
    .read = read_number,
    .step = [](GuardTree &, Node &node, PyObject *base, const CallView &) { return tensor_of(base, node.number != 0); },
    .creates = true,
});

/* The payload is the exact type of the scalar, an int or a float; its conversions are in C. */
const Registered<AccessorKind> scalar_number({
    .name = "scalar_number",
    .read = read_object,
    .step = [](GuardTree &, Node &node, PyObject *base, const CallView &) {
        if (reinterpret_cast<PyObject *>(Py_TYPE(base)) != node.object) return static_cast<PyObject *>(nullptr);
        return PyIndex_Check(base) ? PyNumber_Index(base) : PyNumber_Float(base);
    },
    .creates = true,
});

}  // namespace

int init_arrays() {
    PyObject *numpy = PyImport_ImportModule("numpy"), *torch = PyImport_ImportModule("torch");
    PyObject *array = numpy == nullptr ? nullptr : PyObject_CallMethod(numpy, "zeros", "i", 3);
    if (torch != nullptr && array != nullptr && is_laid_out_so(array)) {
        array_type = Py_TYPE(array); /* a static type */
        from_numpy = PyObject_GetAttrString(torch, "from_numpy");
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ImportError, "framejit._runtime was built for another NumPy than the one that is installed; build framejit again");
    }
    Py_XDECREF(array);
    Py_XDECREF(torch);
    Py_XDECREF(numpy);
    return from_numpy == nullptr ? -1 : 0;
}

}  // namespace framejit
