/* leaf_tensor.cpp: leaves about tensors, read from c10's structures without asking torch's Python layer. */
#include "tensors.h"
#include "tree.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>

namespace framejit {

/* Two words at a time: a register of any x86-64 or 64-bit ARM. */
typedef uint64_t Pair __attribute__((vector_size(16)));

static inline Pair pair_at(const void *address) {
    Pair result;
    std::memcpy(&result, address, sizeof result);
    return result;
}

/* All that tensor_matches looks at, as one tensor had it. Many tensors of a model look alike and share one. counts: of the words of sizes and
 * strides, the bits that count; those of sizes that may be any don't. */
struct TensorLook {
    PyObject *cls; /* compared only */
    bool requires_grad, all_count;
    bool is_flat; /* of at most two dimensions, of which all sizes and strides count: then only the few words in `flat` are compared */
    Pair flat[4];
    uint64_t words[13], counts[11];
};

PyTypeObject *tensor_base, *plain_tensor;

namespace {

/* What a tensor has to be. sizes and strides: -1 accepts any number; computes_sizes: its class computes them, and its layout, in Python. */
struct TensorFacts : Facts {
    PyObject *cls = nullptr; /* borrowed from the tree's held objects */
    unsigned long long keys = 0;
    c10::ScalarType dtype = c10::ScalarType::Undefined;
    c10::Device device = c10::kCPU;
    c10::Layout layout = c10::kStrided;
    bool requires_grad = false, any_size = false, any_stride = false, has_strides = false, computes_sizes = false;
    std::vector<int64_t> sizes, strides;
};

/* torch's other Python objects, as far as they are read here (tensors.h). */
struct PythonDtype {
    PyObject_HEAD
    c10::ScalarType value;
};
struct PythonLayout {
    PyObject_HEAD
    c10::Layout value;
};
struct PythonDevice {
    PyObject_HEAD
    c10::Device value;
};

static_assert(Reader::all_words == std::size(TensorLook{}.words) && Reader::size_words == std::size(TensorLook{}.counts));

PyTypeObject *dtype_type, *layout_type, *device_type;

/* Whether strides do. Those of a tensor that `torch.vmap` maps are said to be custom, but are not (BatchedTensorImpl::strides_custom). */
bool keeps_strides(const Reader &tensor) { return !tensor.has_custom_strides() || tensor.key_set().has(c10::DispatchKey::FuncTorchBatched); }

bool all_equal(const std::vector<int64_t> &expected, c10::IntArrayRef found, bool any) {
    if (found.size() != expected.size()) return false;
    if (!any) {
        for (size_t i = 0; i < expected.size(); i++) {
            if (expected[i] != found[i]) return false;
        }
        return true;
    }
    for (size_t i = 0; i < expected.size(); i++) {
        if (expected[i] != found[i] && expected[i] != -1) return false;
    }
    return true;
}

bool parse_numbers(PyObject *tuple, std::vector<int64_t> &numbers, bool &any) {
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "sizes and strides must be tuples");
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        if (item == Py_None) any = true;
        numbers.push_back(item == Py_None ? -1 : PyLong_AsLongLong(item));
    }
    return !PyErr_Occurred();
}

PyTypeObject *type_attribute(PyObject *module, const char *name) {
    PyObject *found = PyObject_GetAttrString(module, name);
    if (found != nullptr && !PyType_Check(found)) {
        PyErr_Format(PyExc_ImportError, "torch's %s is not a class", name);
        Py_CLEAR(found);
    }
    return reinterpret_cast<PyTypeObject *>(found);
}

int wrong_layout(const char *what) {
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ImportError,
                     "framejit._runtime was built for another torch than the one that is installed (%s is laid out otherwise); build framejit again",
                     what);
    }
    return -1;
}

template <typename Object, typename Value>
bool holds_value(PyObject *torch, const char *name, PyTypeObject *type, Value expected) {
    PyObject *object = PyObject_GetAttrString(torch, name);
    bool right = object != nullptr && Py_IS_TYPE(object, type) && reinterpret_cast<Object *>(object)->value == expected;
    Py_XDECREF(object);
    return right;
}

int check_tensor_layout(PyObject *torch) {
    PyObject *tensor = PyObject_CallMethod(torch, "Tensor", nullptr);
    PyObject *address = tensor == nullptr ? nullptr : PyObject_GetAttrString(tensor, "_cdata");
    bool right = address != nullptr && PyLong_AsVoidPtr(address) == reinterpret_cast<PythonTensor *>(tensor)->impl;
    if (right) {
        const Reader &reader = read(tensor);
        right = !reader.has_custom_sizes() && reader.sizes().size() == 1 && reader.sizes()[0] == 0 && reader.has_device() &&
                reader.layout() == c10::kStrided && reader.strides().size() == 1;
    }
    PyObject *flag = right ? PyObject_CallMethod(tensor, "requires_grad_", nullptr) : nullptr;
    right = flag != nullptr && read(tensor).meta() != nullptr && read(tensor).meta() == read(tensor).autograd_meta() && read(tensor).needs_grad() &&
            read(tensor).keys_end() - read(tensor).type_begin() == 16;
    Py_XDECREF(flag);
    Py_XDECREF(address);
    Py_XDECREF(tensor);
    return right ? 0 : wrong_layout("torch.Tensor");
}

int check_layouts(PyObject *torch) {
    if (check_tensor_layout(torch) < 0) return -1;
    if (!holds_value<PythonDtype>(torch, "float32", dtype_type, c10::ScalarType::Float) ||
        !holds_value<PythonDtype>(torch, "int64", dtype_type, c10::ScalarType::Long) ||
        !holds_value<PythonDtype>(torch, "bool", dtype_type, c10::ScalarType::Bool) ||
        !holds_value<PythonDtype>(torch, "bfloat16", dtype_type, c10::ScalarType::BFloat16)) {
        return wrong_layout("torch.dtype");
    }
    if (!holds_value<PythonLayout>(torch, "strided", layout_type, c10::kStrided) ||
        !holds_value<PythonLayout>(torch, "sparse_coo", layout_type, c10::kSparse) ||
        !holds_value<PythonLayout>(torch, "jagged", layout_type, c10::kJagged)) {
        return wrong_layout("torch.layout");
    }
    PyObject *device = PyObject_CallMethod(torch, "device", "s", "cuda:3");
    bool right = device != nullptr && Py_IS_TYPE(device, device_type) &&
                 reinterpret_cast<PythonDevice *>(device)->value == c10::Device(c10::kCUDA, 3);
    Py_XDECREF(device);
    return right ? 0 : wrong_layout("torch.device");
}

/* A storage of the same size as another, be that a number or symbolic, on the device of which no data is kept. */
c10::Storage without_data(const c10::Storage &storage) {
    c10::StorageImpl *other = storage.unsafeGetStorageImpl();
    c10::DataPtr none(nullptr, other->device());
    return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), other->sym_nbytes(), std::move(none), other->allocator(), true);
}

PyObject *has_plain_sizes(PyObject *self, PyObject *tensor) {
    if (!PyObject_TypeCheck(tensor, tensor_base)) {
        PyErr_SetString(PyExc_TypeError, "has_plain_sizes() takes a tensor");
        return nullptr;
    }
    return PyBool_FromLong(is_plain(read(tensor)));
}

PyObject *has_plain_strides(PyObject *self, PyObject *tensor) {
    PyObject *plain = has_plain_sizes(self, tensor);
    if (plain == Py_True && !has_strides(read(tensor))) Py_SETREF(plain, Py_NewRef(Py_False));
    return plain;
}

PyObject *renew_storage(PyObject *self, PyObject *tensor) {
    if (!Py_IS_TYPE(tensor, plain_tensor) || !read(tensor).has_storage()) {
        PyErr_SetString(PyExc_TypeError, "renew_storage() takes a tensor with a storage");
        return nullptr;
    }
    try {
        reinterpret_cast<PythonTensor *>(tensor)->impl->set_storage_keep_dtype(without_data(read(tensor).storage()));
    } catch (const std::exception &error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"renew_storage", renew_storage, METH_O,
     "renew_storage(tensor, /)\n--\n\n"
     "Give a meta tensor a storage of its own, of the size of the one that it has shared."},
    {"has_plain_strides", has_plain_strides, METH_O,
     "has_plain_strides(tensor, /)\n--\n\n"
     "Whether the tensor has strides and an offset, and they lie in its C++ object as its sizes do."},
    {"has_plain_sizes", has_plain_sizes, METH_O,
     "has_plain_sizes(tensor, /)\n--\n\n"
     "Whether the tensor's sizes, device and layout lie in its C++ object, where a guard can read them: not symbolic, not given by Python code."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

/* payload: (class, raw key set, dtype, device, layout, requires_grad, sizes or None, strides or None). */
static bool read_tensor_facts(GuardTree &tree, Leaf &leaf, PyObject *payload) {
    auto facts = std::make_unique<TensorFacts>();
    PyObject *dtype, *device, *layout, *sizes, *strides;
    int requires_grad;
    if (!PyArg_ParseTuple(payload, "O!KO!O!O!pOO", &PyType_Type, &facts->cls, &facts->keys, dtype_type, &dtype, device_type, &device, layout_type,
                          &layout, &requires_grad, &sizes, &strides)) {
        return false;
    }
    if (!PyType_IsSubtype(reinterpret_cast<PyTypeObject *>(facts->cls), tensor_base)) {
        PyErr_SetString(PyExc_TypeError, "tensor_match needs a subclass of torch.Tensor");
        return false;
    }
    facts->dtype = reinterpret_cast<PythonDtype *>(dtype)->value;
    facts->device = reinterpret_cast<PythonDevice *>(device)->value;
    facts->layout = reinterpret_cast<PythonLayout *>(layout)->value;
    facts->requires_grad = requires_grad != 0;
    facts->has_strides = strides != Py_None;
    facts->computes_sizes = sizes == Py_None;
    if ((!facts->computes_sizes && !parse_numbers(sizes, facts->sizes, facts->any_size)) ||
        (facts->has_strides && !parse_numbers(strides, facts->strides, facts->any_stride)) ||
        hold(tree, facts->cls, true, &leaf.held) == nullptr) {
        return false;
    }
    leaf.facts = facts.get();
    tree.facts.push_back(std::move(facts));
    return true;
}

static bool tensor_matches(const Leaf &leaf, PyObject *value) {
    const auto &facts = *static_cast<const TensorFacts *>(leaf.facts);
    if (reinterpret_cast<PyObject *>(Py_TYPE(value)) != facts.cls) return false;
    const Reader &tensor = read(value);
    if (tensor.key_set().raw_repr() != facts.keys || tensor.has_custom_device() || tensor.has_custom_sizes() != facts.computes_sizes) return false;
    if (facts.computes_sizes) {
        return tensor.dtype().toScalarType() == facts.dtype && tensor.has_device() && tensor.device() == facts.device &&
               tensor.needs_grad() == facts.requires_grad;
    }
    if (tensor.has_custom_layout()) return false;
    if (tensor.dtype().toScalarType() != facts.dtype || !all_equal(facts.sizes, tensor.sizes(), facts.any_size)) return false;
    if (!tensor.has_device() || tensor.device() != facts.device || tensor.needs_grad() != facts.requires_grad) return false;
    if (tensor.layout() != facts.layout) return false;
    return !facts.has_strides || (keeps_strides(tensor) && all_equal(facts.strides, tensor.strides(), facts.any_stride));
}

static const Registered<LeafKind> tensor_match({.name = "tensor_match", .read = read_tensor_facts, .holds = tensor_matches, .looks_at_tensor = true});

/* The words of sizes and strides inside a tensor: how many there are of each, then room for all sizes, then for all strides. */
constexpr size_t first_size = 1, first_stride = first_size + C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE;
/* Where the pairs of words begin in which the sizes and strides of a tensor of at most two dimensions lie, with their number. */
constexpr size_t flat_words[] = {0, first_size, first_stride};

/* Whether a tensor still looks as it did: if so, whatever matched it matches it. `value` may be any object. */
__attribute__((always_inline)) static inline bool looks_same(const TensorLook &look, PyObject *value) {
    if (reinterpret_cast<PyObject *>(Py_TYPE(value)) != look.cls) return false;
    const Reader &tensor = read(value);
    constexpr size_t last = Reader::size_words - 1;
    static_assert(last % 2 == 0);
    const char *sizes = tensor.sizes_begin();
    if (look.is_flat) {
        Pair difference = pair_at(tensor.type_begin()) ^ look.flat[std::size(flat_words)];
        for (size_t i = 0; i < std::size(flat_words); i++) difference |= pair_at(sizes + 8 * flat_words[i]) ^ look.flat[i];
        return (difference[0] | difference[1]) == 0 && tensor.needs_grad() == look.requires_grad;
    }
    Pair difference = pair_at(tensor.type_begin()) ^ pair_at(look.words + Reader::size_words);
    uint64_t rest = load(sizes + 8 * last) ^ look.words[last];
    if (look.all_count) {
#pragma GCC unroll 8
        for (size_t i = 0; i < last; i += 2) difference |= pair_at(sizes + 8 * i) ^ pair_at(look.words + i);
    } else {
        rest &= look.counts[last];
        for (size_t i = 0; i < last; i += 2) difference |= (pair_at(sizes + 8 * i) ^ pair_at(look.words + i)) & pair_at(look.counts + i);
    }
    return (difference[0] | difference[1] | rest) == 0 && tensor.needs_grad() == look.requires_grad;
}

/* The words of sizes, or of strides, that begin at `first` and may be any don't count. */
static void leave_out(TensorLook &look, const Reader &tensor, const int64_t *first, const std::vector<int64_t> &expected) {
    const size_t begin = (reinterpret_cast<const char *>(first) - tensor.sizes_begin()) / 8;
    for (size_t i = 0; i < expected.size(); i++) {
        if (expected[i] == -1) look.counts[begin + i] = 0;
    }
}

/* Whether a tensor has at most two dimensions, and its words are laid out as looks_same takes them to be. */
static bool is_flat(const Reader &tensor) {
    auto at = [&](size_t i) { return reinterpret_cast<const int64_t *>(tensor.sizes_begin() + 8 * i); };
    const c10::IntArrayRef sizes = tensor.raw_sizes();
    return sizes.size() <= 2 && load(at(0)) == sizes.size() && sizes.data() == at(first_size) && tensor.raw_strides().data() == at(first_stride);
}

/* How a tensor that a leaf holds for looks. NULL where not all is in one place, and where too many looks are known: then the facts are
 * compared each time. Leaves share a look only if they leave the same sizes and strides open. */
const TensorLook *new_look(std::vector<TensorLook *> &looks, const Leaf &leaf, PyObject *value) {
    constexpr size_t most = 512;
    const auto &facts = *static_cast<const TensorFacts *>(leaf.facts);
    const Reader &tensor = read(value);
    if (!tensor.keeps_sizes_inside()) return nullptr;
    auto look = std::make_unique<TensorLook>(TensorLook{reinterpret_cast<PyObject *>(Py_TYPE(value)), tensor.needs_grad(), true, false, {}, {}, {}});
    std::fill(std::begin(look->counts), std::end(look->counts), ~uint64_t{0});
    if (facts.any_size || facts.any_stride) {
        look->all_count = false;
        leave_out(*look, tensor, tensor.sizes().data(), facts.sizes);
        if (tensor.layout() == c10::kStrided && !tensor.has_custom_strides()) {
            leave_out(*look, tensor, tensor.strides().data(), facts.has_strides ? facts.strides : std::vector<int64_t>(facts.sizes.size(), -1));
        }
    }
    std::memcpy(look->words, tensor.sizes_begin(), 8 * Reader::size_words);
    std::memcpy(look->words + Reader::size_words, tensor.type_begin(), 16);
    look->is_flat = look->all_count && is_flat(tensor);
    for (size_t i = 0; i < std::size(flat_words); i++) look->flat[i] = pair_at(look->words + flat_words[i]);
    look->flat[std::size(flat_words)] = pair_at(look->words + Reader::size_words);
    for (TensorLook *known : looks) {
        if (std::equal(std::begin(known->counts), std::end(known->counts), look->counts) && looks_same(*known, value)) return known;
    }
    if (looks.size() >= most) return nullptr;
    looks.push_back(look.get());
    return look.release();
}

constexpr ptrdiff_t ahead = 6;

/* Takes tensors that look as they did, and fetches those after them into the cache, if there are as many. The first that doesn't. */
template <bool fetches>
static inline const TensorMemo *take_same(const TensorMemo *memo, const TensorMemo *end, PyObject **captures) {
    for (; memo != end; memo++) {
        if (fetches) {
            __builtin_prefetch(memo[2 * ahead].tensor, 1);
            const char *near = static_cast<const char *>(memo[ahead].near);
            for (int line = 0; line < 3; line++) __builtin_prefetch(near + 64 * line);
        }
        if (memo->look == nullptr || !looks_same(*memo->look, memo->tensor)) break;
        if (memo->capture >= 0) captures[memo->capture] = Py_NewRef(memo->tensor);
    }
    return memo;
}

int32_t take_same_tensors(const TensorMemo *memos, int32_t next, int32_t size, PyObject **captures) {
    const TensorMemo *memo = memos + next, *const end = memos + size, *const last_fetch = memos + std::max<ptrdiff_t>(next, size - 2 * ahead);
    memo = take_same<true>(memo, last_fetch, captures);
    if (memo == last_fetch) memo = take_same<false>(memo, end, captures);
    return static_cast<int32_t>(memo - memos);
}

const void *tensor_data(PyObject *value) { return reinterpret_cast<PythonTensor *>(value)->impl; }

void delete_look(TensorLook *look) { delete look; }

/* Where a storage lies in memory; one without data lies in a place of its own. */
struct Memory {
    const char *begin, *end;
    bool is_numbered;
};

static Memory memory_of(const c10::StorageImpl *storage, bool is_numbered) {
    const auto *begin = static_cast<const char *>(storage->data());
    const size_t size = begin == nullptr ? 0 : storage->nbytes();
    if (size != 0) return {begin, begin + size, is_numbered};
    begin = reinterpret_cast<const char *>(storage);
    return {begin, begin + 1, is_numbered};
}

/* Whether no numbered memory overlaps with any other. */
static bool lie_apart(std::vector<Memory> &places) {
    std::sort(places.begin(), places.end(), [](const Memory &a, const Memory &b) { return a.begin < b.begin; });
    const char *end_of_all = nullptr, *end_of_numbered = nullptr;
    for (const Memory &place : places) {
        if (place.begin < (place.is_numbered ? end_of_all : end_of_numbered)) return false;
        end_of_all = std::max(end_of_all, place.end);
        if (place.is_numbered) end_of_numbered = std::max(end_of_numbered, place.end);
    }
    return true;
}

/* The storages, numbered by first appearance, and the offsets are those of the trace, and numbered storages share memory with no other. Two numbers for each
 * tensor: of its storage, -1 where that is none of the numbered ones, and its offset, -1 for any. */
static bool storages_match(const Relation &relation, const std::vector<PyObject *> &values) {
    std::vector<const c10::StorageImpl *> storages(relation.nodes.size(), nullptr); /* by their numbers, as far as they have appeared */
    std::vector<Memory> places;
    size_t known = 0;
    for (size_t i = 0; i < relation.nodes.size(); i++) {
        PyObject *value = values[relation.nodes[i]];
        if (value == nullptr || !PyObject_TypeCheck(value, tensor_base)) return false;
        const Reader &tensor = read(value);
        if (tensor.has_custom_sizes() || !tensor.has_storage()) return false;
        const int64_t number = relation.numbers[2 * i], offset = relation.numbers[2 * i + 1];
        if (offset != -1 && tensor.offset() != offset) return false;
        const c10::StorageImpl *storage = tensor.unsafe_storage().unsafeGetStorageImpl();
        if (number > static_cast<int64_t>(known)) return false;
        if (number == -1) {
            places.push_back(memory_of(storage, false));
        } else if (number == static_cast<int64_t>(known)) {
            storages[known++] = storage;
            places.push_back(memory_of(storage, true));
        } else if (storages[number] != storage) {
            return false;
        }
    }
    return lie_apart(places);
}

static const Registered<RelationKind> storage_aliasing({.name = "storage_aliasing", .holds = storages_match, .numbers = 2});

/* The storage of a tensor; NULL if it has none, and of what is no tensor. */
static const c10::StorageImpl *storage_of(PyObject *value) {
    if (value == nullptr || !PyObject_TypeCheck(value, tensor_base)) return nullptr;
    const Reader &tensor = read(value);
    return tensor.has_custom_sizes() || !tensor.has_storage() ? nullptr : tensor.unsafe_storage().unsafeGetStorageImpl();
}

/* The first value is a tensor whose `_base`, the second, is None or has its storage. */
static bool lies_in_base(const Relation &relation, const std::vector<PyObject *> &values) {
    const c10::StorageImpl *storage = storage_of(values[relation.nodes[0]]);
    PyObject *base = values[relation.nodes[1]];
    return storage != nullptr && (base == Py_None || storage_of(base) == storage);
}

static const Registered<RelationKind> in_base({.name = "lies_in_base", .holds = lies_in_base, .nodes = 2});

int dtype_number(PyObject *dtype) {
    if (!Py_IS_TYPE(dtype, dtype_type)) {
        PyErr_Format(PyExc_TypeError, "a torch.dtype is needed, not %.100s", Py_TYPE(dtype)->tp_name);
        return -1;
    }
    return static_cast<int>(reinterpret_cast<PythonDtype *>(dtype)->value);
}

int init_leaf_tensor(PyObject *module) {
    PyObject *torch = PyImport_ImportModule("torch");
    if (torch == nullptr) return -1;
    PyObject *native = PyObject_GetAttrString(torch, "_C");
    int status = -1;
    if (native != nullptr) {
        tensor_base = type_attribute(native, "TensorBase");
        plain_tensor = type_attribute(torch, "Tensor");
        dtype_type = type_attribute(torch, "dtype");
        layout_type = type_attribute(torch, "layout");
        device_type = type_attribute(torch, "device");
        const bool complete = tensor_base != nullptr && plain_tensor != nullptr && dtype_type != nullptr && layout_type != nullptr && device_type != nullptr;
        if (complete) status = check_layouts(torch);
    }
    Py_XDECREF(native);
    Py_DECREF(torch);
    return status < 0 ? -1 : PyModule_AddFunctions(module, functions);
}

}  // namespace framejit
