/* tensor_accessors.cpp: steps from a tensor to its sizes, strides, elements, attributes and parts, as guards/tensor_source.py takes them. */
#include "tensors.h"
#include "tree.h"

#include <c10/core/ScalarType.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <cstring>

namespace framejit {

/* The numbers that lie in a tensor's C++ object. False where its sizes don't, or `value` is no tensor. */
bool tensor_numbers(PyObject *value, TensorNumbers *found) {
    if (!Py_IS_TYPE(value, plain_tensor) && !PyObject_TypeCheck(value, tensor_base)) return false;
    const Reader &tensor = read(value);
    if (!is_plain(tensor)) return false;
    const c10::IntArrayRef sizes = tensor.sizes();
    const bool strided = has_strides(tensor);
    *found = {static_cast<int64_t>(sizes.size()), sizes.data(), strided ? tensor.strides().data() : nullptr, tensor.offset()};
    return true;
}

bool operators_are_seen() { return c10::impl::dispatch_mode_enabled(); }

namespace {

PyObject *no_overrides; /* torch._C.DisableTorchFunction */

/* ---- numbers in the C++ object ---- */

PyObject *size_in(const Node &node, const TensorNumbers &numbers) {
    return node.number < numbers.dims ? PyLong_FromLongLong(numbers.sizes[node.number]) : nullptr;
}

PyObject *stride_in(const Node &node, const TensorNumbers &numbers) {
    return numbers.strides != nullptr && node.number < numbers.dims ? PyLong_FromLongLong(numbers.strides[node.number]) : nullptr;
}

PyObject *offset_in(const Node &, const TensorNumbers &numbers) { return numbers.strides != nullptr ? PyLong_FromLongLong(numbers.offset) : nullptr; }

template <PyObject *(*number_in)(const Node &, const TensorNumbers &)>
PyObject *number_of(GuardTree &, Node &node, PyObject *base, const CallView &) {
    TensorNumbers numbers;
    return tensor_numbers(base, &numbers) ? number_in(node, numbers) : nullptr;
}

const Registered<AccessorKind> tensor_size(
    {.name = "tensor_size", .read = read_number, .step = number_of<size_in>, .tensor_number = size_in, .creates = true});

const Registered<AccessorKind> tensor_stride(
    {.name = "tensor_stride", .read = read_number, .step = number_of<stride_in>, .tensor_number = stride_in, .creates = true});

const Registered<AccessorKind> tensor_offset({.name = "tensor_offset", .step = number_of<offset_in>, .tensor_number = offset_in, .creates = true});

/* ---- elements ---- */

/* Where the first element of a tensor lies, and so many bytes behind it do: NULL where its storage is smaller, or holds the elements negated or conjugate. */
const char *memory_at(const Reader &tensor, size_t bytes) {
    if (tensor.key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::Negative, c10::DispatchKey::Conjugate}))) return nullptr;
    const c10::StorageImpl &storage = *tensor.unsafe_storage().unsafeGetStorageImpl();
    const size_t begin = static_cast<size_t>(tensor.offset()) * tensor.itemsize(), size = storage.nbytes();
    const auto *data = static_cast<const char *>(storage.data());
    return data == nullptr || begin > size || bytes > size - begin ? nullptr : data + begin;
}

constexpr size_t most_data = 8192; /* bytes of a tensor that are compared, as MOST_BYTES in guards/tensor_source.py */

/* The data of a small tensor in the CPU's memory, where it lies in order, as bytes: a new reference; NULL of others. */
PyObject *bytes_of(GuardTree &, Node &, PyObject *value, const CallView &) {
    if (!Py_IS_TYPE(value, plain_tensor) && !PyObject_TypeCheck(value, tensor_base)) return nullptr;
    const Reader &tensor = read(value);
    if (!is_plain(tensor) || !has_strides(tensor) || !tensor.has_storage() || !tensor.device().is_cpu() || !tensor.is_contiguous()) return nullptr;
    const size_t bytes = static_cast<size_t>(tensor.numel()) * tensor.itemsize();
    if (bytes > most_data) return nullptr;
    if (bytes == 0) return PyBytes_FromStringAndSize(nullptr, 0);
    const char *data = memory_at(tensor, bytes);
    return data == nullptr ? nullptr : PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(bytes));
}

const Registered<AccessorKind> tensor_data({.name = "tensor_data", .step = bytes_of, .creates = true});

/* A tensor whose elements may lie in the memory of a CPU; NULL of others, such as those whose class computes operators itself. */
const Reader *on_cpu(PyObject *value) {
    if (!Py_IS_TYPE(value, plain_tensor) && !PyObject_TypeCheck(value, tensor_base)) return nullptr;
    const Reader &tensor = read(value);
    if (tensor.key_set().has(c10::DispatchKey::Python)) return nullptr;
    return is_plain(tensor) && has_strides(tensor) && tensor.has_storage() && tensor.device().is_cpu() ? &tensor : nullptr;
}

template <typename Number>
Number read_as(const char *data) {
    Number number;
    std::memcpy(&number, data, sizeof number);
    return number;
}

/* The number or bool at an address in a tensor of this dtype; NULL of other dtypes. */
PyObject *number_at(const char *data, c10::ScalarType dtype) {
    switch (dtype) {
        case c10::kBool: return PyBool_FromLong(*data);
        case c10::kByte: return PyLong_FromLong(read_as<uint8_t>(data));
        case c10::kInt: return PyLong_FromLongLong(read_as<int32_t>(data));
        case c10::kLong: return PyLong_FromLongLong(read_as<int64_t>(data));
        case c10::kFloat: return PyFloat_FromDouble(static_cast<double>(read_as<float>(data)));
        case c10::kDouble: return PyFloat_FromDouble(read_as<double>(data));
        default: return nullptr;
    }
}

/* The number or bool in a tensor of one element that lies in the memory of a CPU; NULL of others. */
PyObject *item_of(GuardTree &, Node &, PyObject *value, const CallView &) {
    const Reader *tensor = on_cpu(value);
    if (tensor == nullptr || tensor->numel() != 1) return nullptr;
    const char *data = memory_at(*tensor, tensor->itemsize());
    return data == nullptr ? nullptr : number_at(data, tensor->dtype().toScalarType());
}

const Registered<AccessorKind> tensor_item({.name = "tensor_item", .step = item_of, .creates = true});

bool read_index(GuardTree &tree, Node &node, PyObject *payload) {
    if (!PyTuple_CheckExact(payload)) {
        PyErr_SetString(PyExc_TypeError, "an index into a tensor must be a tuple");
        return false;
    }
    for (Py_ssize_t dim = 0; dim < PyTuple_GET_SIZE(payload); dim++) {
        if (PyLong_AsSsize_t(PyTuple_GET_ITEM(payload, dim)) < 0) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "an index in a guard tree can't be negative");
            return false;
        }
    }
    return read_object(tree, node, payload);
}

/* The number or bool at an index, one int for each dimension; NULL where the tensor has no such element. */
PyObject *element_at(GuardTree &, Node &node, PyObject *value, const CallView &) {
    const Reader *tensor = on_cpu(value);
    const Py_ssize_t dims = PyTuple_GET_SIZE(node.object);
    if (tensor == nullptr || tensor->dim() != dims) return nullptr;
    const c10::IntArrayRef sizes = tensor->sizes(), strides = tensor->strides();
    size_t before = 0; /* elements: strides are never negative */
    for (Py_ssize_t dim = 0; dim < dims; dim++) {
        const int64_t index = PyLong_AsSsize_t(PyTuple_GET_ITEM(node.object, dim));
        if (index >= sizes[dim]) return nullptr;
        before += static_cast<size_t>(index) * static_cast<size_t>(strides[dim]);
    }
    const char *data = memory_at(*tensor, (before + 1) * tensor->itemsize());
    return data == nullptr ? nullptr : number_at(data + before * tensor->itemsize(), tensor->dtype().toScalarType());
}

const Registered<AccessorKind> tensor_element({.name = "tensor_element", .read = read_index, .step = element_at, .creates = true});

/* ---- totals of all elements ---- */

enum Total { most, least, sum, any_of, all_of };
enum class Related { itself, equal, unequal, less, at_most, greater, at_least };
constexpr long long totals = 5, relations = 7;

/* The payload: a total, a relation, and the int that each element is compared with. */
bool read_total(GuardTree &tree, Node &node, PyObject *payload) {
    long long parts[3];
    if (!PyTuple_CheckExact(payload) || !PyArg_ParseTuple(payload, "LLL", &parts[0], &parts[1], &parts[2])) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a total's payload must be a tuple");
        return false;
    }
    if (parts[0] >= 0 && parts[0] < totals && parts[1] >= 0 && parts[1] < relations) return read_object(tree, node, payload);
    PyErr_SetString(PyExc_ValueError, "there is no such total");
    return false;
}

long long part_of(const Node &node, Py_ssize_t place) { return PyLong_AsLongLong(PyTuple_GET_ITEM(node.object, place)); }

bool holds_for(Related relation, int64_t left, int64_t right) {
    switch (relation) {
        case Related::equal: return left == right;
        case Related::unequal: return left != right;
        case Related::less: return left < right;
        case Related::at_most: return left <= right;
        case Related::greater: return left > right;
        case Related::at_least: return left >= right;
        default: return left != 0;
    }
}

template <typename Number>
PyObject *total_in(const char *data, int64_t count, Total total, Related relation, int64_t other) {
    uint64_t added = 0; /* it wraps, as torch's sum does */
    int64_t extreme = 0;
    bool any = false, all = true;
    for (int64_t i = 0; i < count; i++) {
        const int64_t number = static_cast<int64_t>(read_as<Number>(data + static_cast<size_t>(i) * sizeof(Number)));
        const bool holds = holds_for(relation, number, other);
        added += relation == Related::itself ? static_cast<uint64_t>(number) : holds;
        any |= holds;
        all &= holds;
        if (i == 0 || (total == most ? number > extreme : number < extreme)) extreme = number;
    }
    switch (total) {
        case sum: return PyLong_FromLongLong(static_cast<int64_t>(added));
        case any_of: return PyBool_FromLong(any);
        case all_of: return PyBool_FromLong(all);
        default: return count == 0 || relation != Related::itself ? nullptr : PyLong_FromLongLong(extreme);
    }
}

/* A total of the ints or bools in a small tensor that lie in order in the memory of a CPU; NULL of others. */
PyObject *total_of(GuardTree &, Node &node, PyObject *value, const CallView &) {
    const Reader *tensor = on_cpu(value);
    if (tensor == nullptr || !tensor->is_contiguous()) return nullptr;
    const int64_t count = tensor->numel();
    const size_t bytes = static_cast<size_t>(count) * tensor->itemsize();
    if (bytes > most_data) return nullptr;
    const char *data = bytes == 0 ? "" : memory_at(*tensor, bytes);
    if (data == nullptr) return nullptr;
    const auto total = static_cast<Total>(part_of(node, 0));
    const auto relation = static_cast<Related>(part_of(node, 1));
    const int64_t other = part_of(node, 2);
    switch (tensor->dtype().toScalarType()) {
        case c10::kBool: return total == most || total == least ? nullptr : total_in<uint8_t>(data, count, total, relation, other);
        case c10::kInt: return total_in<int32_t>(data, count, total, relation, other);
        case c10::kLong: return total_in<int64_t>(data, count, total, relation, other);
        default: return nullptr;
    }
}

const Registered<AccessorKind> tensor_total({.name = "tensor_total", .read = read_total, .step = total_of, .creates = true});

/* ---- what torch computes ---- */

/* Neither a class nor a mode of the program's is asked meanwhile. */
PyObject *without_overrides(PyObject *(*function)(PyObject *, PyObject *), PyObject *first, PyObject *second) {
    PyObject *guard = PyObject_CallNoArgs(no_overrides);
    PyObject *entered = guard == nullptr ? nullptr : PyObject_CallMethod(guard, "__enter__", nullptr);
    if (entered == nullptr) {
        Py_XDECREF(guard);
        return nullptr;
    }
    PyObject *found = function(first, second);
    if (found == nullptr) PyErr_Clear();
    PyObject *left = PyObject_CallMethod(guard, "__exit__", "OOO", Py_None, Py_None, Py_None);
    if (left == nullptr) Py_CLEAR(found);
    Py_XDECREF(left);
    Py_DECREF(entered);
    Py_DECREF(guard);
    return found;
}

const Registered<AccessorKind> tensor_attribute({
    .name = "tensor_attribute",
    .read = read_name,
    .step = [](GuardTree &, Node &node, PyObject *base, const CallView &) {
        return PyObject_TypeCheck(base, tensor_base) ? without_overrides(PyObject_GetAttr, base, node.object) : nullptr;
    },
    .creates = true,
});

bool read_method(GuardTree &tree, Node &node, PyObject *payload) {
    if (Py_IS_TYPE(payload, &PyMethodDescr_Type)) return read_object(tree, node, payload);
    PyErr_SetString(PyExc_TypeError, "a sparse_part's payload must be a method of tensors");
    return false;
}

PyObject *call_method(const Node &node, PyObject *tensor) {
    if (!PyObject_TypeCheck(tensor, tensor_base) || operators_are_seen()) return nullptr;
    const Reader &reader = read(tensor);
    if (reader.has_custom_layout() || reader.key_set().has(c10::DispatchKey::Python) || reader.layout() == c10::kStrided) return nullptr;
    return without_overrides([](PyObject *method, PyObject *argument) { return PyObject_CallOneArg(method, argument); }, node.object, tensor);
}

const Registered<AccessorKind> sparse_part(
    {.name = "sparse_part", .read = read_method, .step = take_found_before, .before = call_method, .creates = true});

}  // namespace

int init_tensor_accessors() {
    PyObject *native = PyImport_ImportModule("torch._C");
    if (native == nullptr) return -1;
    no_overrides = PyObject_GetAttrString(native, "DisableTorchFunction");
    Py_DECREF(native);
    return no_overrides != nullptr ? 0 : -1;
}

}  // namespace framejit
