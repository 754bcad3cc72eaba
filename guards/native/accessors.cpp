/* accessors.cpp: one step from a value to the next, as Source.step does it; NULL where there is nothing. Never raises. */
#include "tree.h"

#include <structmember.h>

#include <cstring>

namespace framejit {

namespace {

PyTypeObject *deque = nullptr;

PyObject **field(PyObject *object, Py_ssize_t offset) { return reinterpret_cast<PyObject **>(reinterpret_cast<char *>(object) + offset); }

PyObject *instance_dict(PyObject *object) {
    if (PyType_Check(object)) return nullptr;
    PyObject **slot = _PyObject_GetDictPtr(object);
    if (slot == nullptr) {
        if (PyErr_Occurred()) PyErr_Clear();
        return nullptr;
    }
    if (*slot == nullptr) { /* made when first asked for, as `object.__dict__` makes it */
        Py_XDECREF(PyObject_GenericGetDict(object, nullptr));
        if (PyErr_Occurred()) PyErr_Clear();
    }
    return *slot;
}

/* The fields that sources name: a node's number is the place of the name. */
constexpr const char *function_fields[] = {"code", "defaults", "kwdefaults", "globals", "closure", "dict"};
constexpr const char *method_fields[] = {"function", "self"};

template <size_t N>
int find_field(const char *const (&names)[N], PyObject *payload, Py_ssize_t *number) {
    for (size_t i = 0; i < N; i++) {
        if (!PyUnicode_Check(payload) || PyUnicode_CompareWithASCIIString(payload, names[i]) != 0) continue;
        *number = static_cast<Py_ssize_t>(i);
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "a guard tree knows no field %R", payload);
    return -1;
}

/* Where a function keeps one of its fields. */
PyObject **function_field(PyObject *object, Py_ssize_t which) {
    auto *function = reinterpret_cast<PyFunctionObject *>(object);
    PyObject **places[] = {&function->func_code,    &function->func_defaults, &function->func_kwdefaults,
                           &function->func_globals, &function->func_closure,  &function->func_dict};
    return places[which];
}

PyObject *none_as_null(PyObject **place) { return place == nullptr || *place == Py_None ? nullptr : *place; }

PyObject *nth_entry(PyObject *dict, Py_ssize_t n, bool want_key) {
    if (!PyDict_Check(dict) || n >= PyDict_GET_SIZE(dict)) return nullptr;
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t i = 0; i <= n; i++) {
        if (!PyDict_Next(dict, &position, &key, &value)) return nullptr;
    }
    return want_key ? key : value;
}

/* An object that has to outlive the walk, because nothing else may be holding it. */
PyObject *keep(GuardTree &tree, PyObject *created) {
    if (created == nullptr) {
        PyErr_Clear();
        return nullptr;
    }
    tree.temporary.push_back(created);
    return created;
}

/* What the step of one of the python_nodes has found before the walk. */
Found found_before(const GuardTree &tree, const Node &node) {
    const auto place = static_cast<size_t>(node.hint);
    return place < tree.found.size() ? tree.found[place] : Found{};
}

}  // namespace

PyObject *tensor_number(const Node &node, const TensorNumbers &numbers) {
    const bool is_size = node.accessor == Accessor::tensor_size, is_offset = node.accessor == Accessor::tensor_offset;
    if ((!is_size && numbers.strides == nullptr) || (!is_offset && node.number >= numbers.dims)) return nullptr;
    return PyLong_FromLongLong(is_offset ? numbers.offset : (is_size ? numbers.sizes : numbers.strides)[node.number]);
}

PyTypeObject *deque_type() { return deque; }

/* The field of `base` that holds a node's value; NULL where an object of its type has none. */
PyObject **field_of(const Node &node, PyObject *base) {
    switch (node.accessor) {
        case Accessor::slot_member:
            return PyObject_TypeCheck(base, reinterpret_cast<PyTypeObject *>(node.object)) ? field(base, node.hint) : nullptr;
        case Accessor::cell_contents: return PyCell_Check(base) ? &reinterpret_cast<PyCellObject *>(base)->ob_ref : nullptr;
        case Accessor::method_field:
            if (!PyMethod_Check(base)) return nullptr;
            return node.number == 0 ? &reinterpret_cast<PyMethodObject *>(base)->im_func : &reinterpret_cast<PyMethodObject *>(base)->im_self;
        case Accessor::function_field: return PyFunction_Check(base) ? function_field(base, node.number) : nullptr;
        default: return nullptr;
    }
}

/* Whether an entry's key is surely the constant `key`. */
static bool is_key(PyObject *found, Py_hash_t found_hash, PyObject *key, Py_hash_t hash) {
    if (found == key) return true;
    if (found_hash != hash || Py_TYPE(found) != Py_TYPE(key) || !is_constant_type(Py_TYPE(key))) return false;
    return PyObject_RichCompareBool(found, key, Py_EQ) > 0;
}

/* A constant key in a dict, without ever calling a user's __eq__: a key that isn't a constant but has the same hash could be
 * equal, and only its __eq__ could tell; then *ambiguous is set, and the tree doesn't match.
 * *hint: where in the dict the key was the last time; one look there saves the hash table. */
PyObject *find_item(PyObject *dict, PyObject *key, int32_t *hint, bool *ambiguous) {
    const Py_hash_t hash = PyObject_Hash(key); /* a constant's: of a str, it is in the object */
    constexpr Py_ssize_t scanned = 64;  /* a larger dict isn't worth scanning for a better hint */
    Py_ssize_t position = *hint, before = 0;
    PyObject *found_key, *found;
    Py_hash_t found_hash;
    if (FJ_Dict_Next(dict, &position, &found_key, &found, &found_hash) && is_key(found_key, found_hash, key, hash)) return found;
    if (PyDict_GET_SIZE(dict) == 0) return nullptr;
    bool only_strings = PyUnicode_CheckExact(key) && FJ_Dict_HasOnlyStringKeys(dict);
    PyObject *by_hash = nullptr;
    if (only_strings) {
        by_hash = FJ_Dict_Find(dict, key, hash);
        if (by_hash == nullptr) {
            if (PyErr_Occurred()) PyErr_Clear();
            return nullptr;
        }
        if (PyDict_GET_SIZE(dict) > scanned) return by_hash;
    }
    position = 0;
    while (FJ_Dict_Next(dict, &position, &found_key, &found, &found_hash)) {
        if (is_key(found_key, found_hash, key, hash)) {
            *hint = static_cast<int32_t>(before);
            return found;
        }
        if (found_hash == hash && !only_strings) {
            if (!is_immutable_constant(found_key)) {
                *ambiguous = true;
                return nullptr;
            }
            int equal = PyObject_RichCompareBool(found_key, key, Py_EQ);
            if (equal < 0) PyErr_Clear();
            if (equal > 0) return found;
        }
        before = position;
    }
    return by_hash;
}

/* `base` is NULL where the path ended earlier. */
PyObject *step(GuardTree &tree, Node &node, PyObject *base, const CallView &call) {
    if (base == nullptr) return nullptr;
    switch (node.accessor) {
        case Accessor::root: return &tree;
        case Accessor::local: return node.number < call.n_locals ? call.locals[node.number] : nullptr;
        case Accessor::frame_function: return call.function;
        case Accessor::handled_exception: {
            PyObject *handled = PyErr_GetHandledException();
            return handled == nullptr ? Py_None : keep(tree, handled);
        }
        case Accessor::pinned: return node.object;
        case Accessor::instance_dict: return instance_dict(base);
        case Accessor::item: return PyDict_Check(base) ? find_item(base, node.object, &node.hint, &tree.ambiguous) : nullptr;
        case Accessor::dict_key:
        case Accessor::dict_value_at: return nth_entry(base, node.number, node.accessor == Accessor::dict_key);
        case Accessor::index:
            if (PyTuple_Check(base)) return node.number < PyTuple_GET_SIZE(base) ? PyTuple_GET_ITEM(base, node.number) : nullptr;
            if (PyList_Check(base)) return node.number < PyList_GET_SIZE(base) ? PyList_GET_ITEM(base, node.number) : nullptr;
            return nullptr;
        case Accessor::slot_member: {
            PyObject **place = field_of(node, base);
            if (place == nullptr) return nullptr;
            return *place == nullptr && node.none_if_null ? Py_None : *place; /* of a member declared as T_OBJECT, NULL stands for None */
        }
        case Accessor::c_attr: return keep(tree, PyObject_GetAttr(base, node.object));
        case Accessor::type_attr: return PyType_Check(base) ? _PyType_Lookup(reinterpret_cast<PyTypeObject *>(base), node.object) : nullptr;
        case Accessor::closure_cell: {
            if (!PyFunction_Check(base)) return nullptr;
            PyObject *cells = reinterpret_cast<PyFunctionObject *>(base)->func_closure;
            return cells != nullptr && node.number < PyTuple_GET_SIZE(cells) ? PyTuple_GET_ITEM(cells, node.number) : nullptr;
        }
        case Accessor::function_field: {
            PyObject *found = none_as_null(field_of(node, base));
            bool is_empty = found != nullptr && node.number == function_dict && PyDict_GET_SIZE(found) == 0;
            return is_empty ? nullptr : found;
        }
        case Accessor::cell_contents:
        case Accessor::method_field: {
            PyObject **place = field_of(node, base);
            return place == nullptr ? nullptr : *place;
        }
        case Accessor::deque_index:
            if (!PyObject_TypeCheck(base, deque) || node.number >= Py_SIZE(base)) return nullptr;
            return keep(tree, deque->tp_as_sequence->sq_item(base, node.number));
        case Accessor::item_count: return PyList_Check(base) ? keep(tree, PyLong_FromSsize_t(PyList_GET_SIZE(base))) : nullptr;
        case Accessor::iterator_item: return keep(tree, iterator_item(base, node.number));
        case Accessor::iterator_field: return keep(tree, iterator_field(base, node.number));
        case Accessor::tensor_size:
        case Accessor::tensor_stride:
        case Accessor::tensor_offset: {
            TensorNumbers numbers;
            return tensor_numbers(base, &numbers) ? keep(tree, tensor_number(node, numbers)) : nullptr;
        }
        case Accessor::tensor_item: return keep(tree, tensor_item(base));
        case Accessor::array_tensor: return keep(tree, array_tensor(base, node.number != 0));
        case Accessor::tensor_attribute: return keep(tree, tensor_attribute(base, node.object));
        case Accessor::torchbind_state:
        case Accessor::sparse_part: {
            const Found found = found_before(tree, node);
            return found.base == base ? found.value : nullptr; /* otherwise another thread has put another one there meanwhile */
        }
        case Accessor::script_code: {
            PyObject *known = keep(tree, known_script_code(node, base));
            return known != nullptr ? known : found_before(tree, node).value;
        }
        case Accessor::tensor_data: return keep(tree, tensor_bytes(base));
        case Accessor::script_answer: return keep(tree, PyObject_CallOneArg(node.object, base));
        case Accessor::function_mode: return keep(tree, function_mode(node.number));
        case Accessor::referent: {
            if (!PyWeakref_CheckRefExact(base)) return nullptr;
            PyObject *object = FJ_Weakref_Object(base);
            return object == Py_None ? nullptr : keep(tree, Py_NewRef(object));
        }
    }
    return nullptr;
}

/* Whether it is the descriptor of `type.__mro__`, which CPython 3.12 has no member for, but a getter: of tp_mro, like the member. */
bool is_mro(PyObject *payload) {
    return PyObject_TypeCheck(payload, &PyGetSetDescr_Type) && PyDescr_TYPE(payload) == &PyType_Type &&
           PyUnicode_CompareWithASCIIString(PyDescr_NAME(payload), "__mro__") == 0;
}

/* The object that a node compares or walks with: its payload, or of a slot_member the class, since a descriptor would keep that
 * alive. Borrowed; NULL where the payload is a number or nothing. */
PyObject *payload_object(const Node &node, PyObject *payload) {
    switch (node.accessor) {
        case Accessor::pinned:
        case Accessor::item:
        case Accessor::c_attr:
        case Accessor::sparse_part:
        case Accessor::tensor_attribute:
        case Accessor::script_answer:
        case Accessor::script_code:
        case Accessor::torchbind_state:
        case Accessor::type_attr: return payload;
        case Accessor::slot_member:
            if (Py_IS_TYPE(payload, &PyMemberDescr_Type) || is_mro(payload)) return reinterpret_cast<PyObject *>(PyDescr_TYPE(payload));
            PyErr_SetString(PyExc_TypeError, "a slot_member's payload must be a member descriptor");
            return nullptr;
        default: return nullptr;
    }
}

static int read_number(Node &node, PyObject *payload) {
    node.number = PyLong_AsSsize_t(payload);
    if (node.number == -1 && PyErr_Occurred()) return -1;
    if (node.number >= 0) return 0;
    PyErr_SetString(PyExc_ValueError, "an index in a guard tree can't be negative");
    return -1;
}

/* Turns a node's payload, already in node.object where it is an object, into what `step` reads. 0, or -1 with an exception set. */
int lower_payload(Node &node, PyObject *payload) {
    switch (node.accessor) {
        case Accessor::item:
            return PyObject_Hash(payload) == -1 ? -1 : 0;
        case Accessor::slot_member: {
            if (is_mro(payload)) {
                node.hint = static_cast<int32_t>(offsetof(PyTypeObject, tp_mro));
                return 0;
            }
            const PyMemberDef *member = reinterpret_cast<PyMemberDescrObject *>(payload)->d_member; /* checked by payload_object */
            node.hint = static_cast<int32_t>(member->offset);
            node.none_if_null = member->type == T_OBJECT;
            if (member->type == T_OBJECT || member->type == T_OBJECT_EX) return 0;
            PyErr_SetString(PyExc_TypeError, "a slot_member's payload must be the descriptor of an object member");
            return -1;
        }
        case Accessor::c_attr:
        case Accessor::tensor_attribute:
        case Accessor::type_attr:
            if (PyUnicode_CheckExact(payload)) return 0;
            PyErr_SetString(PyExc_TypeError, "an attribute's name must be a str");
            return -1;
        case Accessor::sparse_part:
            if (Py_IS_TYPE(payload, &PyMethodDescr_Type)) return 0;
            PyErr_SetString(PyExc_TypeError, "a sparse_part's payload must be a method of tensors");
            return -1;
        case Accessor::local:
        case Accessor::dict_key:
        case Accessor::dict_value_at:
        case Accessor::index:
        case Accessor::closure_cell:
        case Accessor::deque_index:
        case Accessor::tensor_size:
        case Accessor::tensor_stride:
        case Accessor::array_tensor:
        case Accessor::function_mode:
        case Accessor::iterator_item: return read_number(node, payload);
        case Accessor::function_field: return find_field(function_fields, payload, &node.number);
        case Accessor::method_field: return find_field(method_fields, payload, &node.number);
        case Accessor::iterator_field: return find_iterator_field(payload, &node.number);
        default: return 0;
    }
}

int init_accessors() {
    PyObject *collections = PyImport_ImportModule("collections");
    if (collections == nullptr) return -1;
    deque = reinterpret_cast<PyTypeObject *>(PyObject_GetAttrString(collections, "deque"));
    Py_DECREF(collections);
    if (deque == nullptr || init_arrays() < 0) return -1;
    return init_iterators();
}

}  // namespace framejit
