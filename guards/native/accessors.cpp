/* accessors.cpp: the steps from Python's own objects to what they hold, as Source.step of guards/source.py takes them. */
#include "tree.h"

#include "cpython/iterators.h"

#include <structmember.h>

#include <cstring>

namespace framejit {

/* ---- what accessors of all files use ---- */

bool read_number(GuardTree &, Node &node, PyObject *payload) {
    node.number = PyLong_AsSsize_t(payload);
    if (node.number == -1 && PyErr_Occurred()) return false;
    if (node.number >= 0) return true;
    PyErr_SetString(PyExc_ValueError, "an index in a guard tree can't be negative");
    return false;
}

bool read_object(GuardTree &tree, Node &node, PyObject *payload) {
    node.object = hold(tree, payload, false, &node.held);
    return node.object != nullptr;
}

bool read_name(GuardTree &tree, Node &node, PyObject *payload) {
    if (PyUnicode_CheckExact(payload)) return read_object(tree, node, payload);
    PyErr_SetString(PyExc_TypeError, "an attribute's name must be a str");
    return false;
}

/* Nothing else may be holding what a step has created. */
PyObject *keep(GuardTree &tree, PyObject *created) {
    if (created == nullptr) {
        PyErr_Clear();
        return nullptr;
    }
    tree.temporary.push_back(created);
    return created;
}

const Found &found_before(const GuardTree &tree, const Node &node) {
    static const Found nothing{};
    const auto place = static_cast<size_t>(node.hint);
    return place < tree.found.size() ? tree.found[place] : nothing;
}

PyObject *take_found_before(GuardTree &tree, Node &node, PyObject *base, const CallView &) {
    const Found &found = found_before(tree, node);
    return found.base == base ? Py_XNewRef(found.value) : nullptr; /* otherwise another thread has put another base there meanwhile */
}

static PyTypeObject *deque = nullptr;

PyTypeObject *deque_type() { return deque; }

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

namespace {

/* ---- what the call brings with it ---- */

const Registered<AccessorKind> local({
    .name = "local",
    .read = read_number,
    .step = [](GuardTree &, Node &node, PyObject *, const CallView &call) { return node.number < call.n_locals ? call.locals[node.number] : nullptr; },
    .given = true,
});

const Registered<AccessorKind> frame_function({
    .name = "frame_function",
    .step = [](GuardTree &, Node &, PyObject *, const CallView &call) { return call.function; },
    .given = true,
});

const Registered<AccessorKind> handled_exception({
    .name = "handled_exception",
    .step = [](GuardTree &, Node &, PyObject *, const CallView &) {
        PyObject *handled = PyErr_GetHandledException();
        return handled == nullptr ? Py_NewRef(Py_None) : handled;
    },
    .creates = true,
});

/* ---- what the tree knows ---- */

/* Keys, and much that is pinned, may be known to the trace alone; classes and the globals of modules aren't. */
bool read_pinned(GuardTree &tree, Node &node, PyObject *payload) {
    const bool weakly = PyType_Check(payload) || PyDict_CheckExact(payload);
    node.object = hold(tree, payload, weakly, &node.held);
    return node.object != nullptr;
}

const Registered<AccessorKind> pinned({
    .name = "pinned",
    .read = read_pinned,
    .step = [](GuardTree &, Node &node, PyObject *, const CallView &) { return node.object; },
    .vouch = [](Memo &, const Node &, PyObject *, PyObject *) { return true; },
    .known_layout = true,
});

/* ---- dicts, and what is found in them ---- */

PyObject *dict_of(PyObject *object) {
    if (PyType_Check(object)) return nullptr;
    PyObject **slot = FJ_Object_DictSlot(object);
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

bool vouch_for_instance_dict(Memo &memo, const Node &node, PyObject *base, PyObject *value) {
    if (PyType_Check(base) || !memo.has_layout(node.parent, base)) return false;
    PyObject **slot = FJ_Object_DictSlot(base);
    if (slot != nullptr) memo.add(slot);
    return (slot == nullptr ? nullptr : *slot) == value;
}

const Registered<AccessorKind> instance_dict({
    .name = "instance_dict",
    .step = [](GuardTree &, Node &, PyObject *base, const CallView &) { return dict_of(base); },
    .vouch = vouch_for_instance_dict,
    .known_layout = true,
    .begins_chunk = true,
});

const Registered<AccessorKind> item({
    .name = "item",
    .read = [](GuardTree &tree, Node &node, PyObject *payload) { return read_object(tree, node, payload) && PyObject_Hash(payload) != -1; },
    .step = [](GuardTree &tree, Node &node, PyObject *base, const CallView &) {
        return PyDict_Check(base) ? find_item(base, node.object, &node.hint, &tree.ambiguous) : nullptr;
    },
    .found_in = Versioned::dict,
});

/* The node of a key comes before those that are looked up by it. */
bool read_key(GuardTree &tree, Node &node, PyObject *payload) {
    if (!read_number(tree, node, payload)) return false;
    if (static_cast<size_t>(node.number) < tree.nodes.size()) return true;
    PyErr_SetString(PyExc_ValueError, "a lookup in a guard tree comes after its key");
    return false;
}

/* Like what a call brings with it, what is looked up is found anew in each walk, and words vouch for what lies below it. */
const Registered<AccessorKind> item_looked_up({
    .name = "item_looked_up",
    .read = read_key,
    .look_up = [](GuardTree &tree, Node &node, PyObject *base, PyObject *key) -> PyObject * {
        if (!PyDict_Check(base) || !(PyLong_CheckExact(key) || PyUnicode_CheckExact(key))) return nullptr;
        return find_item(base, key, &node.hint, &tree.ambiguous);
    },
    .given = true,
});

const Registered<AccessorKind> index_looked_up({
    .name = "index_looked_up",
    .read = read_key,
    .look_up = [](GuardTree &, Node &, PyObject *base, PyObject *key) -> PyObject * {
        if (!PyLong_CheckExact(key) || !(PyList_CheckExact(base) || PyTuple_CheckExact(base))) return nullptr;
        const Py_ssize_t index = PyLong_AsSsize_t(key);
        if (index == -1 && PyErr_Occurred()) PyErr_Clear();
        return index >= 0 && index < Py_SIZE(base) ? PySequence_Fast_GET_ITEM(base, index) : nullptr;
    },
    .given = true,
});

PyObject *nth_entry(PyObject *dict, Py_ssize_t n, bool want_key) {
    if (!PyDict_Check(dict) || n >= PyDict_GET_SIZE(dict)) return nullptr;
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t i = 0; i <= n; i++) {
        if (!PyDict_Next(dict, &position, &key, &value)) return nullptr;
    }
    return want_key ? key : value;
}

const Registered<AccessorKind> dict_key({
    .name = "dict_key",
    .read = read_number,
    .step = [](GuardTree &, Node &node, PyObject *base, const CallView &) { return nth_entry(base, node.number, true); },
    .found_in = Versioned::dict,
});

const Registered<AccessorKind> dict_value_at({
    .name = "dict_value_at",
    .read = read_number,
    .step = [](GuardTree &, Node &node, PyObject *base, const CallView &) { return nth_entry(base, node.number, false); },
    .found_in = Versioned::dict,
});

PyObject *nth_element(GuardTree &, Node &node, PyObject *base, const CallView &) {
    if (!PyAnySet_Check(base)) return nullptr;
    Py_ssize_t position = 0;
    PyObject *element = nullptr;
    for (Py_ssize_t n = 0; n <= node.number; n++) {
        if (!FJ_Set_Next(base, &position, &element)) return nullptr;
    }
    return element;
}

const Registered<AccessorKind> set_element({.name = "set_element", .read = read_number, .step = nth_element});

const Registered<AccessorKind> type_attr({
    .name = "type_attr",
    .read = read_name,
    .step = [](GuardTree &, Node &node, PyObject *base, const CallView &) {
        return PyType_Check(base) ? _PyType_Lookup(reinterpret_cast<PyTypeObject *>(base), node.object) : nullptr;
    },
    .found_in = Versioned::type,
});

const Registered<AccessorKind> own_attr({
    .name = "own_attr",
    .read = read_name,
    .step = [](GuardTree &tree, Node &node, PyObject *base, const CallView &) -> PyObject * {
        if (!PyType_Check(base) || !PyType_HasFeature(reinterpret_cast<PyTypeObject *>(base), Py_TPFLAGS_HEAPTYPE)) return nullptr;
        return find_item(reinterpret_cast<PyTypeObject *>(base)->tp_dict, node.object, &node.hint, &tree.ambiguous);
    },
    .found_in = Versioned::type,
});

/* ---- items of sequences ---- */

PyObject *item_at(GuardTree &, Node &node, PyObject *base, const CallView &) {
    if (PyTuple_Check(base)) return node.number < PyTuple_GET_SIZE(base) ? PyTuple_GET_ITEM(base, node.number) : nullptr;
    if (PyList_Check(base)) return node.number < PyList_GET_SIZE(base) ? PyList_GET_ITEM(base, node.number) : nullptr;
    return nullptr;
}

void add_tuple_item(Memo &memo, PyObject *tuple, Py_ssize_t number) {
    memo.add(&reinterpret_cast<PyVarObject *>(tuple)->ob_size);
    if (number < PyTuple_GET_SIZE(tuple)) memo.add(&reinterpret_cast<PyTupleObject *>(tuple)->ob_item[number]);
}

bool vouch_for_item(Memo &memo, const Node &node, PyObject *base, PyObject *) {
    if (!memo.has_type(node.parent, base)) return false;
    if (PyTuple_Check(base)) {
        add_tuple_item(memo, base, node.number);
    } else if (PyList_Check(base)) {
        auto *list = reinterpret_cast<PyListObject *>(base);
        memo.add_items(node.parent, list);
        if (node.number < PyList_GET_SIZE(base)) memo.add(&list->ob_item[node.number]);
    }
    return true;
}

const Registered<AccessorKind> index({.name = "index", .read = read_number, .step = item_at, .vouch = vouch_for_item});

const Registered<AccessorKind> deque_index({
    .name = "deque_index",
    .read = read_number,
    .step = [](GuardTree &, Node &node, PyObject *base, const CallView &) -> PyObject * {
        if (!PyObject_TypeCheck(base, deque) || node.number >= Py_SIZE(base)) return nullptr;
        return deque->tp_as_sequence->sq_item(base, node.number);
    },
    .creates = true,
});

const Registered<AccessorKind> item_count({
    .name = "item_count",
    .step = [](GuardTree &, Node &, PyObject *base, const CallView &) {
        return PyList_Check(base) || PyObject_TypeCheck(base, deque) ? PyLong_FromSsize_t(Py_SIZE(base)) : nullptr;
    },
    .creates = true,
});

/* ---- fields of objects ---- */

/* The field that holds a node's value, by the node and its base; NULL where an object of the base's type has none. */
using FieldOf = PyObject **(*)(const Node &node, PyObject *base);

template <FieldOf field_of>
PyObject *content(GuardTree &, Node &node, PyObject *base, const CallView &) {
    PyObject **field = field_of(node, base);
    return field == nullptr ? nullptr : *field;
}

template <FieldOf field_of>
bool vouch_for_field(Memo &memo, const Node &node, PyObject *base, PyObject *) {
    if (!memo.has_type(node.parent, base)) return false;
    PyObject **field = field_of(node, base);
    if (field != nullptr) memo.add(field);
    return true;
}

/* A node's number is the place of the name that is its payload. */
template <size_t N>
bool read_field(const char *const (&names)[N], Node &node, PyObject *payload) {
    for (size_t i = 0; i < N; i++) {
        if (!PyUnicode_Check(payload) || PyUnicode_CompareWithASCIIString(payload, names[i]) != 0) continue;
        node.number = static_cast<Py_ssize_t>(i);
        return true;
    }
    PyErr_Format(PyExc_ValueError, "a guard tree knows no field %R", payload);
    return false;
}

PyObject **slot(const Node &node, PyObject *base) {
    if (!PyObject_TypeCheck(base, reinterpret_cast<PyTypeObject *>(node.object))) return nullptr;
    return reinterpret_cast<PyObject **>(reinterpret_cast<char *>(base) + node.hint);
}

/* Whether it is the descriptor of `type.__mro__`, which CPython 3.12 has no member for, but a getter: of tp_mro, like the member. */
bool is_mro(PyObject *payload) {
    return PyObject_TypeCheck(payload, &PyGetSetDescr_Type) && PyDescr_TYPE(payload) == &PyType_Type &&
           PyUnicode_CompareWithASCIIString(PyDescr_NAME(payload), "__mro__") == 0;
}

/* Of the descriptor, the node takes the offset, and the class that has the slot, which a descriptor would keep alive. */
bool read_slot(GuardTree &tree, Node &node, PyObject *payload) {
    const bool mro = is_mro(payload);
    if (!mro && !Py_IS_TYPE(payload, &PyMemberDescr_Type)) {
        PyErr_SetString(PyExc_TypeError, "a slot_member's payload must be a member descriptor");
        return false;
    }
    node.object = hold(tree, reinterpret_cast<PyObject *>(PyDescr_TYPE(payload)), true, &node.held);
    if (node.object == nullptr) return false;
    if (mro) {
        node.hint = static_cast<int32_t>(offsetof(PyTypeObject, tp_mro));
        return true;
    }
    const PyMemberDef *member = reinterpret_cast<PyMemberDescrObject *>(payload)->d_member;
    node.hint = static_cast<int32_t>(member->offset);
    node.none_if_null = member->type == T_OBJECT;
    const bool is_after_items = PyDescr_TYPE(payload)->tp_itemsize != 0 && (PyDescr_TYPE(payload)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
    if ((member->type == T_OBJECT || member->type == T_OBJECT_EX) && !is_after_items) return true;
    PyErr_SetString(PyExc_TypeError, "a slot_member's payload must be the descriptor of an object member at a fixed offset");
    return false;
}

PyObject *slot_content(GuardTree &, Node &node, PyObject *base, const CallView &) {
    PyObject **field = slot(node, base);
    if (field == nullptr) return nullptr;
    return *field == nullptr && node.none_if_null ? Py_None : *field;
}

bool vouch_for_slot(Memo &memo, const Node &node, PyObject *base, PyObject *value) {
    if (reinterpret_cast<PyObject *>(Py_TYPE(base)) != node.object) return vouch_for_field<slot>(memo, node, base, value);
    memo.add(&base->ob_type); /* the tree knows that this class lives */
    memo.add(slot(node, base));
    return true;
}

const Registered<AccessorKind> slot_member({.name = "slot_member", .read = read_slot, .step = slot_content, .vouch = vouch_for_slot});

PyObject **cell_field(const Node &, PyObject *base) { return PyCell_Check(base) ? &reinterpret_cast<PyCellObject *>(base)->ob_ref : nullptr; }

const Registered<AccessorKind> cell_contents({.name = "cell_contents", .step = content<cell_field>, .vouch = vouch_for_field<cell_field>});

PyObject **closure_of(const Node &, PyObject *base) { return PyFunction_Check(base) ? &reinterpret_cast<PyFunctionObject *>(base)->func_closure : nullptr; }

PyObject *closure_cell_at(GuardTree &, Node &node, PyObject *base, const CallView &) {
    PyObject **closure = closure_of(node, base);
    const bool has_it = closure != nullptr && *closure != nullptr && node.number < PyTuple_GET_SIZE(*closure);
    return has_it ? PyTuple_GET_ITEM(*closure, node.number) : nullptr;
}

bool vouch_for_closure_cell(Memo &memo, const Node &node, PyObject *base, PyObject *value) {
    if (!vouch_for_field<closure_of>(memo, node, base, value)) return false;
    PyObject **closure = closure_of(node, base);
    if (closure != nullptr && *closure != nullptr) add_tuple_item(memo, *closure, node.number);
    return true;
}

const Registered<AccessorKind> closure_cell({.name = "closure_cell", .read = read_number, .step = closure_cell_at, .vouch = vouch_for_closure_cell});

constexpr const char *function_fields[] = {"code", "defaults", "kwdefaults", "globals", "closure", "dict"};
constexpr Py_ssize_t function_dict = 5; /* the field that counts as missing while it is empty */

PyObject **function_field_of(const Node &node, PyObject *base) {
    if (!PyFunction_Check(base)) return nullptr;
    auto *function = reinterpret_cast<PyFunctionObject *>(base);
    PyObject **fields[] = {&function->func_code,    &function->func_defaults, &function->func_kwdefaults,
                           &function->func_globals, &function->func_closure,  &function->func_dict};
    return fields[node.number];
}

PyObject *function_content(GuardTree &, Node &node, PyObject *base, const CallView &) {
    PyObject **field = function_field_of(node, base);
    if (field == nullptr || *field == nullptr || *field == Py_None) return nullptr;
    return node.number == function_dict && PyDict_GET_SIZE(*field) == 0 ? nullptr : *field;
}

bool vouch_for_function_field(Memo &memo, const Node &node, PyObject *base, PyObject *value) {
    if (!vouch_for_field<function_field_of>(memo, node, base, value)) return false;
    PyObject **field = function_field_of(node, base);
    if (field != nullptr && *field != nullptr && node.number == function_dict) memo.add(&reinterpret_cast<PyDictObject *>(*field)->ma_used);
    return true;
}

const Registered<AccessorKind> function_field({
    .name = "function_field",
    .read = [](GuardTree &, Node &node, PyObject *payload) { return read_field(function_fields, node, payload); },
    .step = function_content,
    .vouch = vouch_for_function_field,
});

constexpr const char *method_fields[] = {"function", "self"};

PyObject **method_field_of(const Node &node, PyObject *base) {
    if (!PyMethod_Check(base)) return nullptr;
    auto *method = reinterpret_cast<PyMethodObject *>(base);
    return node.number == 0 ? &method->im_func : &method->im_self;
}

const Registered<AccessorKind> method_field({
    .name = "method_field",
    .read = [](GuardTree &, Node &node, PyObject *payload) { return read_field(method_fields, node, payload); },
    .step = content<method_field_of>,
    .vouch = vouch_for_field<method_field_of>,
});

/* A view of a dict, and the views of an OrderedDict, which derive from it. */
PyObject **viewed_dict_of(const Node &, PyObject *base) {
    bool is_view = PyDictKeys_Check(base) || PyDictItems_Check(base) || PyDictValues_Check(base);
    return is_view ? &reinterpret_cast<FJ_DictView *>(base)->dict : nullptr;
}

const Registered<AccessorKind> viewed_dict({.name = "viewed_dict", .step = content<viewed_dict_of>, .vouch = vouch_for_field<viewed_dict_of>});

/* ---- what C code computes ---- */

const Registered<AccessorKind> c_attr({
    .name = "c_attr",
    .read = read_name,
    .step = [](GuardTree &, Node &node, PyObject *base, const CallView &) { return PyObject_GetAttr(base, node.object); },
    .creates = true,
});

/* The object that a weak reference or a proxy refers to; NULL once it is gone. */
PyObject *living(PyObject *reference) {
    PyObject *object = FJ_Weakref_Object(reference);
    return object == Py_None ? nullptr : Py_NewRef(object);
}

const Registered<AccessorKind> referent({
    .name = "referent",
    .step = [](GuardTree &, Node &, PyObject *base, const CallView &) -> PyObject * {
        return PyWeakref_CheckRef(base) ? living(base) : nullptr;
    },
    .creates = true,
});

const Registered<AccessorKind> proxied({
    .name = "proxied",
    .step = [](GuardTree &, Node &, PyObject *base, const CallView &) -> PyObject * {
        return PyWeakref_CheckProxy(base) ? living(base) : nullptr;
    },
    .creates = true,
});

/* A proxy hands attribute accesses on to what it refers to, so Python code can't tell what that is. */
PyObject *referent_of(PyObject *, PyObject *reference) {
    if (!PyWeakref_Check(reference)) return PyErr_Format(PyExc_TypeError, "referent() takes a weak reference or a proxy");
    return Py_NewRef(FJ_Weakref_Object(reference));
}

PyMethodDef functions[] = {
    {"referent", referent_of, METH_O, "referent(reference, /)\n--\n\nThe object that a weak reference or a proxy refers to; None once it is gone."},
    {nullptr, nullptr, 0, nullptr},
};

/* Whether the layout of views of dicts is the one that runtime_c/cpython/iterators.h says. */
bool knows_views() {
    PyObject *dict = PyDict_New(), *view = dict == nullptr ? nullptr : PyObject_CallMethod(dict, "keys", nullptr);
    bool is_known = view != nullptr && reinterpret_cast<FJ_DictView *>(view)->dict == dict;
    if (view != nullptr && !is_known) PyErr_SetString(PyExc_ImportError, "this Python's views of dicts have another layout than framejit knows");
    Py_XDECREF(view);
    Py_XDECREF(dict);
    return is_known;
}

}  // namespace

int init_accessors(PyObject *module) {
    if (!knows_views()) return -1;
    PyObject *collections = PyImport_ImportModule("collections");
    if (collections == nullptr) return -1;
    deque = reinterpret_cast<PyTypeObject *>(PyObject_GetAttrString(collections, "deque"));
    Py_DECREF(collections);
    return deque != nullptr ? PyModule_AddFunctions(module, functions) : -1;
}

}  // namespace framejit
