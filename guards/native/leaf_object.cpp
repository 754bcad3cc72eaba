/* leaf_object.cpp: leaves about which object a value is, what type it has, and what constant it equals; how a tree holds what it compares with. */
#include "tree.h"

#include <cstring>

namespace framejit {

namespace {

PyObject *object_died(PyObject *self, PyObject *reference) {
    reinterpret_cast<Alive *>(self)->dead = true;
    Py_RETURN_NONE;
}

PyMethodDef died_method = {"object_died", object_died, METH_O, nullptr};

PyTypeObject alive_type = [] {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "framejit._runtime.Alive";
    type.tp_basicsize = sizeof(Alive);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    return type;
}();

/* Of a module's globals, the module; a dict can't be referenced weakly. NULL (no exception): of none that is imported. */
PyObject *module_of_globals(PyObject *globals) {
    PyObject *name = PyDict_GetItemString(globals, "__name__");
    PyObject *modules = PyImport_GetModuleDict();
    if (name == nullptr || !PyUnicode_CheckExact(name) || modules == nullptr) return nullptr;
    PyObject *module = PyDict_GetItem(modules, name);
    return module != nullptr && PyModule_Check(module) && PyModule_GetDict(module) == globals ? module : nullptr;
}

/* The object whose weak reference tells that `object` has died, or NULL where a strong reference is right: it can't be referenced weakly, or
 * it is a static type or another object that lives as long as the process. */
PyObject *weak_target(PyObject *object) {
    if (PyDict_CheckExact(object)) return module_of_globals(object);
    if (PyType_Check(object) && !PyType_HasFeature(reinterpret_cast<PyTypeObject *>(object), Py_TPFLAGS_HEAPTYPE)) return nullptr;
    return PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) ? object : nullptr;
}

}  // namespace

bool is_constant_type(PyTypeObject *type) {
    return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type || type == &PyBytes_Type ||
           type == Py_TYPE(Py_None) || type == &PyComplex_Type || type == Py_TYPE(Py_Ellipsis);
}

/* Whether a value can neither change nor call the user's Python when it is compared. */
bool is_immutable_constant(PyObject *value) {
    if (is_constant_type(Py_TYPE(value))) return true;
    if (PyFrozenSet_CheckExact(value)) {
        Py_ssize_t position = 0;
        PyObject *element;
        while (FJ_Set_Next(value, &position, &element)) {
            if (!is_immutable_constant(element)) return false;
        }
        return true;
    }
    if (!PyTuple_CheckExact(value)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
        if (!is_immutable_constant(PyTuple_GET_ITEM(value, i))) return false;
    }
    return true;
}

/* Sets of constants, compared in the order of iteration, which the program may have seen, and by exact types: == takes 1, 1.0 and
 * True as one, and could ask a user's __eq__. */
static bool same_elements(PyObject *a, PyObject *b) {
    if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b)) return false;
    Py_ssize_t position = 0, other_position = 0;
    PyObject *element, *other;
    while (FJ_Set_Next(a, &position, &element)) {
        if (!FJ_Set_Next(b, &other_position, &other) || !same_constant(element, other)) return false;
    }
    return true;
}

/* range(0) == range(1, 1), but they are told apart by their attributes. */
static bool same_range(PyObject *a, PyObject *b) {
    bool same = true;
    for (const char *name : {"start", "stop", "step"}) {
        PyObject *x = PyObject_GetAttrString(a, name), *y = PyObject_GetAttrString(b, name);
        same = same && x != nullptr && y != nullptr && PyObject_RichCompareBool(x, y, Py_EQ) == 1;
        Py_XDECREF(x);
        Py_XDECREF(y);
    }
    PyErr_Clear();
    return same;
}

bool same_constant(PyObject *a, PyObject *b) {
    if (a == b) return true;
    PyTypeObject *type = Py_TYPE(a);
    if (type != Py_TYPE(b)) return false;
    if (type == &PyBool_Type) return false;
    if (type == &PyUnicode_Type && PyUnicode_IS_READY(a) && PyUnicode_IS_READY(b)) {
        Py_ssize_t length = PyUnicode_GET_LENGTH(a);
        return length == PyUnicode_GET_LENGTH(b) && PyUnicode_KIND(a) == PyUnicode_KIND(b) &&
               std::memcmp(PyUnicode_DATA(a), PyUnicode_DATA(b), length * PyUnicode_KIND(a)) == 0;
    }
    if (type == &PyFloat_Type) {
        double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return std::memcmp(&x, &y, sizeof x) == 0;
    }
    if (type == &PyComplex_Type) {
        return std::memcmp(&reinterpret_cast<PyComplexObject *>(a)->cval, &reinterpret_cast<PyComplexObject *>(b)->cval, sizeof(Py_complex)) == 0;
    }
    if (PyTuple_Check(a)) {
        Py_ssize_t size = PyTuple_GET_SIZE(a);
        if (size != PyTuple_GET_SIZE(b)) return false;
        for (Py_ssize_t i = 0; i < size; i++) {
            if (!same_constant(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
        }
        return true;
    }
    if (type == &PyFrozenSet_Type || type == &PySet_Type) return same_elements(a, b);
    if (type == &PyRange_Type) return same_range(a, b);
    int equal = PyObject_RichCompareBool(a, b, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal > 0;
}

/* Holds `object` for the tree, where `weakly` asks for it weakly if its type allows: an entry must not keep models, classes or
 * code objects alive (the entry hangs on a code object, which the garbage collector can't see through). When a weakly held object
 * dies, the tree is dead before the address can be used again. Returns the object, borrowed, or NULL with an exception set. */
PyObject *hold(GuardTree &tree, PyObject *object, bool weakly, int32_t *index) {
    PyObject *target = weakly ? weak_target(object) : nullptr;
    PyObject *reference;
    if (target == nullptr) {
        reference = Py_NewRef(object);
    } else {
        PyObject *callback = PyCFunction_New(&died_method, reinterpret_cast<PyObject *>(tree.alive));
        if (callback == nullptr) return nullptr;
        reference = PyWeakref_NewRef(target, callback);
        Py_DECREF(callback);
        if (reference == nullptr) return nullptr;
    }
    *index = static_cast<int32_t>(tree.held.size());
    tree.held.push_back(reference);
    return object;
}

static bool read_held(GuardTree &tree, Leaf &leaf, PyObject *payload, bool weakly) {
    leaf.object = hold(tree, payload, weakly, &leaf.held);
    return leaf.object != nullptr;
}

/* Holds the payload strongly: a constant may be known to the trace alone. */
bool read_constant(GuardTree &tree, Leaf &leaf, PyObject *payload) { return read_held(tree, leaf, payload, false); }

static bool wrong_payload(const Leaf &leaf, const char *wanted) {
    PyErr_Format(PyExc_TypeError, "%s needs %s", leaf.kind->name, wanted);
    return false;
}

bool read_tuple(GuardTree &tree, Leaf &leaf, PyObject *payload) {
    return PyTuple_CheckExact(payload) ? read_constant(tree, leaf, payload) : wrong_payload(leaf, "a tuple");
}

bool is_gone(GuardTree &tree, int32_t held) {
    if (held < 0) return false;
    PyObject *reference = tree.held[held];
    return PyWeakref_CheckRefExact(reference) && FJ_Weakref_Object(reference) == Py_None;
}

Alive *new_alive() {
    auto *alive = PyObject_New(Alive, &alive_type);
    if (alive != nullptr) alive->dead = false;
    return alive;
}

int init_leaf_object() { return PyType_Ready(&alive_type); }

/* ---- the leaves ---- */

static const Registered<LeafKind> type_is({
    .name = "type_is",
    .read = [](GuardTree &tree, Leaf &leaf, PyObject *payload) {
        return PyType_Check(payload) ? read_held(tree, leaf, payload, true) : wrong_payload(leaf, "a class");
    },
    .holds = [](const Leaf &leaf, PyObject *value) { return reinterpret_cast<PyObject *>(Py_TYPE(value)) == leaf.object; },
    .vouch = [](Memo &memo, int32_t node, PyObject *value, const Leaf &leaf) {
        auto *type = reinterpret_cast<PyTypeObject *>(leaf.object);
        /* typeobject.c: object_set_class gives no other class to instances of such a one */
        bool for_good = PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) && type != &PyModule_Type;
        return (for_good && (memo.is_fixed(node) || memo.is_versioned_dict(node))) || memo.has_type(node, value);
    },
    .knows_type = true,
});

/* No word need be added: what it is compared with lives, so its address is nobody else's. */
static bool is_vouched_for(Memo &, int32_t, PyObject *, const Leaf &) { return true; }

static const Registered<LeafKind> value_is({
    .name = "value_is",
    .read = [](GuardTree &tree, Leaf &leaf, PyObject *payload) { return read_held(tree, leaf, payload, true); },
    .holds = [](const Leaf &leaf, PyObject *value) { return value == leaf.object; },
    .vouch = is_vouched_for,
});

static const Registered<LeafKind> equals({
    .name = "equals",
    .read = read_constant,
    .holds = [](const Leaf &leaf, PyObject *value) { return same_constant(value, leaf.object); },
    .vouch = [](Memo &memo, int32_t node, PyObject *value, const Leaf &leaf) {
        return value == leaf.object || (memo.is_fixed(node) && is_immutable_constant(leaf.object));
    },
});

/* Data is read into new bytes in each walk, so no word vouches for it. */
static const Registered<LeafKind> data_equals({
    .name = "data_equals",
    .read = read_constant,
    .holds = [](const Leaf &leaf, PyObject *value) { return same_constant(value, leaf.object); },
});

static const Registered<LeafKind> code_is({
    .name = "code_is",
    .read = [](GuardTree &tree, Leaf &leaf, PyObject *payload) {
        return PyCode_Check(payload) ? read_held(tree, leaf, payload, true) : wrong_payload(leaf, "a code object");
    },
    .holds = [](const Leaf &leaf, PyObject *value) {
        return PyFunction_Check(value) && reinterpret_cast<PyFunctionObject *>(value)->func_code == leaf.object;
    },
    .vouch = [](Memo &memo, int32_t node, PyObject *value, const Leaf &) {
        if (!memo.is_fixed(node) && !memo.has_type(node, value)) return false;
        memo.add(&reinterpret_cast<PyFunctionObject *>(value)->func_code);
        return true;
    },
});

/* The words that vouch for a value, or for its absence, say all that these two ask. */
static const Registered<LeafKind> is_missing({
    .name = "is_missing",
    .holds = [](const Leaf &, PyObject *) { return false; },
    .vouch = is_vouched_for,
    .holds_of_missing = true,
});

static const Registered<LeafKind> is_present({
    .name = "is_present",
    .holds = [](const Leaf &, PyObject *) { return true; },
    .vouch = is_vouched_for,
});

}  // namespace framejit
