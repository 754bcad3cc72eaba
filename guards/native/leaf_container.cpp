/* leaf_container.cpp: leaves about lengths, keys and elements of the builtin containers, or of that part of their subclasses. */
#include "tree.h"

#include <vector>

namespace framejit {

/* By the memory of the builtin type, so that a subclass's __len__ isn't called. */
static bool has_length(PyObject *value, Py_ssize_t length) {
    if (PyDict_Check(value)) return PyDict_GET_SIZE(value) == length;
    if (PyTuple_Check(value)) return PyTuple_GET_SIZE(value) == length;
    if (PyList_Check(value)) return PyList_GET_SIZE(value) == length;
    if (PyUnicode_Check(value)) return PyUnicode_GET_LENGTH(value) == length;
    if (PyBytes_Check(value)) return PyBytes_GET_SIZE(value) == length;
    if (PyAnySet_Check(value)) return PySet_GET_SIZE(value) == length;
    if (PyObject_TypeCheck(value, deque_type())) return Py_SIZE(value) == length;
    return false;
}

/* An OrderedDict has an order of its own, which only its iterator knows. The iterator looks keys up again: constants only. */
static bool has_ordered_keys(PyObject *dict, PyObject *keys) {
    Py_ssize_t position = 0;
    PyObject *key;
    while (PyDict_Next(dict, &position, &key, nullptr)) {
        if (!is_immutable_constant(key)) return false;
    }
    PyObject *iterator = PyODict_Type.tp_iter(dict);
    if (iterator == nullptr) {
        PyErr_Clear();
        return false;
    }
    Py_ssize_t count = 0;
    bool same = true;
    while (same && (key = Py_TYPE(iterator)->tp_iternext(iterator)) != nullptr) {
        same = count < PyTuple_GET_SIZE(keys) && same_constant(key, PyTuple_GET_ITEM(keys, count));
        count++;
        Py_DECREF(key);  /* the dict holds it */
    }
    if (PyErr_Occurred()) PyErr_Clear();
    Py_DECREF(iterator);
    return same && count == PyTuple_GET_SIZE(keys);
}

/* An OrderedDict counts the changes of its order, which no version tag shows, in the sixth word behind its dict (odictobject.c: od_state). */
static bool counts_changes = false;

static const void *order_of(PyObject *ordered_dict) {
    return counts_changes ? reinterpret_cast<const char *>(ordered_dict) + sizeof(PyDictObject) + 5 * sizeof(void *) : nullptr;
}

/* Finds out whether that is so. 0, or -1 with an exception set. */
int init_leaf_container() {
    PyObject *collections = PyImport_ImportModule("collections");
    PyObject *ordered = collections == nullptr ? nullptr : PyObject_CallMethod(collections, "OrderedDict", "({s:i,s:i})", "a", 1, "b", 2);
    Py_XDECREF(collections);
    if (ordered == nullptr) return -1;
    counts_changes = PyODict_CheckExact(ordered);
    for (int i = 0; i < 4 && counts_changes; i++) {
        uint64_t before = load(order_of(ordered));
        PyObject *none = i < 2 ? PyObject_CallMethod(ordered, "move_to_end", "si", "a", 1 - i) : PyObject_CallMethod(ordered, "popitem", "i", i - 2);
        if (none == nullptr) break;
        Py_DECREF(none);
        counts_changes = load(order_of(ordered)) > before;
    }
    Py_DECREF(ordered);
    return PyErr_Occurred() ? -1 : 0;
}

/* These keys in this order. */
static bool has_keys(PyObject *dict, PyObject *keys) {
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return false;
    if (PyODict_Check(dict)) return has_ordered_keys(dict, keys);
    Py_ssize_t position = 0, count = 0;
    PyObject *key;
    while (PyDict_Next(dict, &position, &key, nullptr)) {
        if (!same_constant(key, PyTuple_GET_ITEM(keys, count++))) return false;
    }
    return true;
}

/* Reads a tuple of elements: a constant is held itself, and what is compared by identity by a weak reference, which stands for it in the leaf's tuple. */
static bool read_elements(GuardTree &tree, Leaf &leaf, PyObject *payload) {
    if (!PyTuple_CheckExact(payload)) return read_tuple(tree, leaf, payload);
    const Py_ssize_t size = PyTuple_GET_SIZE(payload);
    PyObject *held = PyTuple_New(size);
    if (held == nullptr) return false;
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *element = PyTuple_GET_ITEM(payload, i);
        int32_t index = 0;
        if (!is_immutable_constant(element)) {
            if (hold(tree, element, true, &index) == nullptr) {
                Py_DECREF(held);
                return false;
            }
            element = tree.held[index];
        }
        PyTuple_SET_ITEM(held, i, Py_NewRef(element));
    }
    const bool read = read_constant(tree, leaf, held);
    Py_DECREF(held);
    return read;
}

static bool is_element(PyObject *element, PyObject *expected) {
    return PyWeakref_CheckRefExact(expected) ? FJ_Weakref_Object(expected) == element : same_constant(element, expected);
}

/* Exactly these elements, in this order of iteration. */
static bool has_elements(PyObject *set, PyObject *elements) {
    if (!PyAnySet_Check(set) || PySet_GET_SIZE(set) != PyTuple_GET_SIZE(elements)) return false;
    Py_ssize_t position = 0, count = 0;
    PyObject *element;
    while (FJ_Set_Next(set, &position, &element)) {
        if (!is_element(element, PyTuple_GET_ITEM(elements, count++))) return false;
    }
    return true;
}

/* The word of a container that says how many items it has; NULL where that isn't one word. */
static const void *length_word(PyObject *value) {
    if (PyDict_Check(value)) return &reinterpret_cast<PyDictObject *>(value)->ma_used;
    const bool sized = PyList_Check(value) || PyTuple_Check(value) || PyObject_TypeCheck(value, deque_type());
    if (sized) return &reinterpret_cast<PyVarObject *>(value)->ob_size;
    return PyAnySet_Check(value) ? &reinterpret_cast<PySetObject *>(value)->used : nullptr;
}

/* Adds a word that lies in a node's value, if there is one. */
static bool add_word(Memo &memo, int32_t node, PyObject *value, const void *word) {
    if (word == nullptr || !memo.has_layout(node, value)) return false;
    memo.add(word);
    return true;
}

/* ---- the leaves ---- */

static const Registered<LeafKind> length({
    .name = "length",
    .read = [](GuardTree &, Leaf &leaf, PyObject *payload) {
        leaf.length = PyLong_AsSsize_t(payload);
        return PyErr_Occurred() == nullptr;
    },
    .holds = [](const Leaf &leaf, PyObject *value) { return has_length(value, leaf.length); },
    .vouch = [](Memo &memo, int32_t node, PyObject *value, const Leaf &) { return add_word(memo, node, value, length_word(value)); },
});

static const Registered<LeafKind> key_absent({
    .name = "key_absent",
    .read = [](GuardTree &tree, Leaf &leaf, PyObject *payload) { return PyObject_Hash(payload) != -1 && read_constant(tree, leaf, payload); },
    .holds = [](const Leaf &leaf, PyObject *value) {
        int32_t hint = 0;
        bool ambiguous = false;
        return PyDict_Check(value) && find_item(value, leaf.object, &hint, &ambiguous) == nullptr && !ambiguous;
    },
    .vouch = [](Memo &memo, int32_t node, PyObject *value, const Leaf &) { return value == nullptr || memo.has_version(node); },
    .holds_of_missing = true,
    .knows_keys = true,
});

/* The value at a string in a dict; NULL if there is none, or if only the user's code can tell. */
static PyObject *item_at(PyObject *dict, PyObject *name) {
    if (FJ_Dict_HasOnlyStringKeys(dict)) {
        PyObject *found = FJ_Dict_Find(dict, name, PyObject_Hash(name));
        if (found == nullptr && PyErr_Occurred()) PyErr_Clear();
        return found;
    }
    int32_t hint = 0;
    bool ambiguous = false;
    PyObject *found = find_item(dict, name, &hint, &ambiguous);
    return ambiguous ? nullptr : found;
}

static bool has_empty_items(PyObject *dict, PyObject *names) {
    if (!PyDict_Check(dict)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        PyObject *item = item_at(dict, PyTuple_GET_ITEM(names, i));
        if (item == nullptr || !PyODict_CheckExact(item) || PyDict_GET_SIZE(item) != 0) return false;
    }
    return true;
}

/* While the version stands that is added first, the same OrderedDicts are in the dict. */
static bool add_lengths_of_items(Memo &memo, int32_t node, PyObject *dict, PyObject *names) {
    if (!memo.has_version(node) || !memo.add_version(node)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        PyObject *item = item_at(dict, PyTuple_GET_ITEM(names, i));
        if (item == nullptr) return false;
        memo.add(length_word(item));
    }
    return true;
}

/* Reads a tuple of strings. */
static bool read_names(GuardTree &tree, Leaf &leaf, PyObject *payload) {
    if (!read_tuple(tree, leaf, payload)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(payload); i++) {
        if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(payload, i))) {
            PyErr_SetString(PyExc_TypeError, "a tuple of strings is expected");
            return false;
        }
    }
    return true;
}

static const Registered<LeafKind> items_empty({
    .name = "items_empty",
    .read = read_names,
    .holds = [](const Leaf &leaf, PyObject *value) { return has_empty_items(value, leaf.object); },
    .vouch = [](Memo &memo, int32_t node, PyObject *value, const Leaf &leaf) { return add_lengths_of_items(memo, node, value, leaf.object); },
});

static const Registered<LeafKind> dict_keys({
    .name = "dict_keys",
    .read = read_tuple,
    .holds = [](const Leaf &leaf, PyObject *value) { return has_keys(value, leaf.object); },
    .vouch = [](Memo &memo, int32_t node, PyObject *value, const Leaf &) {
        return memo.has_version(node) && (!PyODict_Check(value) || add_word(memo, node, value, order_of(value)));
    },
    .knows_keys = true,
});

/* An OrderedDict, with so many constants as keys, whose own order is that of the dict that it is. */
static bool is_in_order_of_dict(PyObject *dict, Py_ssize_t length) {
    if (!PyODict_Check(dict) || PyDict_GET_SIZE(dict) != length) return false;
    PyObject *keys = PyTuple_New(length), *key;
    if (keys == nullptr) {
        PyErr_Clear();
        return false;
    }
    Py_ssize_t position = 0, count = 0;
    while (count < length && PyDict_Next(dict, &position, &key, nullptr)) PyTuple_SET_ITEM(keys, count++, Py_NewRef(key));
    const bool same = count == length && has_ordered_keys(dict, keys);
    Py_DECREF(keys);
    return same;
}

static const Registered<LeafKind> in_order_of_dict({
    .name = "in_order_of_dict",
    .read = [](GuardTree &, Leaf &leaf, PyObject *payload) {
        leaf.length = PyLong_AsSsize_t(payload);
        return PyErr_Occurred() == nullptr;
    },
    .holds = [](const Leaf &leaf, PyObject *value) { return is_in_order_of_dict(value, leaf.length); },
    .vouch = [](Memo &memo, int32_t node, PyObject *value, const Leaf &) { return memo.has_version(node) && add_word(memo, node, value, order_of(value)); },
    .knows_keys = true,
});

static const Registered<LeafKind> set_equals({
    .name = "set_equals",
    .read = read_elements,
    .holds = [](const Leaf &leaf, PyObject *value) { return has_elements(value, leaf.object); },
});

/* Whether the hash in an entry of a table is the expected one; None stands for any. */
static bool has_hash(Py_hash_t hash, PyObject *expected) {
    return Py_IsNone(expected) || PyLong_AsSsize_t(expected) == hash; /* `read_words` has seen that it is such an int */
}

/* So many keys or elements, whose hashes are in the table as they are in `hashes`, in the order of iteration. */
static bool has_hashes(PyObject *container, PyObject *hashes) {
    const bool is_dict = PyDict_Check(container);
    if (!is_dict && !PyAnySet_Check(container)) return false;
    const Py_ssize_t size = is_dict ? PyDict_GET_SIZE(container) : PySet_GET_SIZE(container);
    if (size != PyTuple_GET_SIZE(hashes)) return false;
    Py_ssize_t position = 0, count = 0;
    PyObject *key, *value;
    Py_hash_t hash;
    while (count < size) {
        const int found = is_dict ? FJ_Dict_Next(container, &position, &key, &value, &hash) : FJ_Set_NextHashed(container, &position, &key, &hash);
        if (!found || !has_hash(hash, PyTuple_GET_ITEM(hashes, count++))) return false;
    }
    return true;
}

/* Reads a tuple of ints that fit a word, or None. */
static bool read_words(GuardTree &tree, Leaf &leaf, PyObject *payload) {
    if (!read_tuple(tree, leaf, payload)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(payload); i++) {
        PyObject *number = PyTuple_GET_ITEM(payload, i);
        if (!Py_IsNone(number) && PyLong_AsSsize_t(number) == -1 && PyErr_Occurred()) return false;
    }
    return true;
}

static const Registered<LeafKind> stored_hashes({
    .name = "stored_hashes",
    .read = read_words,
    .holds = [](const Leaf &leaf, PyObject *value) { return has_hashes(value, leaf.object); },
    .vouch = [](Memo &memo, int32_t node, PyObject *value, const Leaf &) { return PyDict_Check(value) && memo.has_version(node); },
});

/* A copy of the set goes through its elements in the order that these places in its own order make. No element is hashed or compared for that. */
static bool has_order_of_copy(PyObject *set, PyObject *places) {
    if (!(PySet_CheckExact(set) || PyFrozenSet_CheckExact(set)) || PySet_GET_SIZE(set) != PyTuple_GET_SIZE(places)) return false;
    std::vector<PyObject *> elements;
    PyObject *element, *copy = PySet_New(set);
    if (copy == nullptr) {
        PyErr_Clear();
        return false;
    }
    for (Py_ssize_t position = 0; FJ_Set_Next(set, &position, &element);) elements.push_back(element);
    size_t count = 0;
    bool same = elements.size() == static_cast<size_t>(PyTuple_GET_SIZE(places));
    for (Py_ssize_t position = 0; same && FJ_Set_Next(copy, &position, &element);) {
        const auto place = static_cast<size_t>(PyLong_AsSsize_t(PyTuple_GET_ITEM(places, count++)));
        same = place < elements.size() && elements[place] == element;
    }
    Py_DECREF(copy);
    return same;
}

static const Registered<LeafKind> order_of_copy({
    .name = "order_of_copy",
    .read = read_words,
    .holds = [](const Leaf &leaf, PyObject *value) { return has_order_of_copy(value, leaf.object); },
});

}  // namespace framejit
