/* iterators.cpp: what exact builtin iterators are about to give, read without advancing them; guards/iterators.py is the reference. */
#include "tree.h"

#include "cpython/iterators.h"

namespace framejit {

namespace {

PyTypeObject *ascii_iterator, *bytes_iterator, *text_iterator, *ordered_iterator;

enum class Shape : uint8_t { unknown, range, forward, backward, dict_forward, dict_backward, ordered };

Shape shape_of(PyObject *iterator) {
    PyTypeObject *type = Py_TYPE(iterator);
    if (type == &PyRangeIter_Type) return Shape::range;
    if (type == &PyListIter_Type || type == &PyTupleIter_Type) return Shape::forward;
    if (type == ascii_iterator || type == text_iterator || type == bytes_iterator) return Shape::forward;
    if (type == &PyListRevIter_Type || type == &PyReversed_Type) return Shape::backward;
    if (type == &PyDictIterKey_Type || type == &PyDictIterValue_Type || type == &PyDictIterItem_Type) return Shape::dict_forward;
    if (type == ordered_iterator) return Shape::ordered;
    bool is_backward = type == &PyDictRevIterKey_Type || type == &PyDictRevIterValue_Type || type == &PyDictRevIterItem_Type;
    return is_backward ? Shape::dict_backward : Shape::unknown;
}

PyObject *range_item(const FJ_RangeIterator *iterator, Py_ssize_t ahead) {
    if (ahead >= iterator->length - FJ_RangeIterator_Given(iterator)) return nullptr;
    auto index = static_cast<unsigned long>(FJ_RangeIterator_Given(iterator) + ahead);
    return PyLong_FromLong(static_cast<long>(static_cast<unsigned long>(iterator->start) + index * static_cast<unsigned long>(iterator->step)));
}

PyObject *sequence_item(const FJ_SequenceIterator *iterator, Py_ssize_t ahead, bool backward) {
    PyObject *sequence = iterator->sequence;
    if (sequence == nullptr) return nullptr;
    Py_ssize_t index = backward ? iterator->index - ahead : iterator->index + ahead;
    if (index < 0) return nullptr;
    if (PyList_Check(sequence)) { /* one that has become too short ends a backward iterator at once */
        Py_ssize_t size = PyList_GET_SIZE(sequence);
        if ((backward ? iterator->index : index) >= size) return nullptr;
        return Py_NewRef(PyList_GET_ITEM(sequence, index));
    }
    if (backward ? PyTuple_CheckExact(sequence) : PyTuple_Check(sequence)) {
        return index < PyTuple_GET_SIZE(sequence) ? Py_NewRef(PyTuple_GET_ITEM(sequence, index)) : nullptr;
    }
    if (backward) return nullptr; /* `reversed` of another type may run anything */
    if (PyUnicode_Check(sequence)) {
        return index < PyUnicode_GET_LENGTH(sequence) ? PyUnicode_FromOrdinal(PyUnicode_READ_CHAR(sequence, index)) : nullptr;
    }
    if (PyBytes_Check(sequence) && index < PyBytes_GET_SIZE(sequence)) {
        return PyLong_FromLong(static_cast<unsigned char>(PyBytes_AS_STRING(sequence)[index]));
    }
    return nullptr;
}

bool is_intact(const FJ_DictIterator *iterator) { return iterator->used == PyDict_GET_SIZE(iterator->dict); }

PyObject *dict_item(PyObject *object, Py_ssize_t ahead, bool backward) {
    const auto *iterator = reinterpret_cast<FJ_DictIterator *>(object);
    if (iterator->dict == nullptr || !is_intact(iterator) || ahead >= iterator->length) return nullptr;
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = iterator->position;
    if (backward) {
        for (; position >= 0; position--) { /* PyDict_Next goes forwards: an entry is at `position` if it ends right behind it */
            Py_ssize_t behind = position;
            if (PyDict_Next(iterator->dict, &behind, &key, &value) && behind == position + 1 && ahead-- == 0) break;
        }
        if (position < 0) return nullptr;
    } else {
        do {
            if (!PyDict_Next(iterator->dict, &position, &key, &value)) return nullptr;
        } while (ahead-- > 0);
    }
    PyTypeObject *type = Py_TYPE(object);
    if (type == &PyDictIterKey_Type || type == &PyDictRevIterKey_Type) return Py_NewRef(key);
    if (type == &PyDictIterValue_Type || type == &PyDictRevIterValue_Type) return Py_NewRef(value);
    return PyTuple_Pack(2, key, value);
}

/* Whether an iterator over an OrderedDict, which looks each key up, runs no code of the program's for that. */
bool has_plain_keys(PyObject *ordered) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr;
    while (PyDict_Next(ordered, &position, &key, nullptr)) {
        if (!PyUnicode_CheckExact(key) && !PyLong_CheckExact(key)) return false;
    }
    return true;
}

/* What an iterator over an OrderedDict has yet to give, a new list (Objects/odictobject.c: odictiter_reduce); NULL where a step would raise, or if the keys
   aren't plain. */
PyObject *ordered_items(const FJ_OrderedIterator *iterator) {
    if (iterator->ordered == nullptr || !has_plain_keys(iterator->ordered)) return nullptr;
    PyObject *parts = PyObject_CallMethod(reinterpret_cast<PyObject *>(const_cast<FJ_OrderedIterator *>(iterator)), "__reduce__", nullptr);
    PyObject *args = parts != nullptr && PyTuple_Check(parts) && PyTuple_GET_SIZE(parts) == 2 ? PyTuple_GET_ITEM(parts, 1) : nullptr;
    PyObject *items = args != nullptr && PyTuple_Check(args) && PyTuple_GET_SIZE(args) == 1 ? Py_NewRef(PyTuple_GET_ITEM(args, 0)) : nullptr;
    Py_XDECREF(parts);
    PyErr_Clear();
    return items;
}

PyObject *ordered_item(const FJ_OrderedIterator *iterator, Py_ssize_t ahead) {
    PyObject *items = ordered_items(iterator);
    PyObject *item = items != nullptr && PyList_Check(items) && ahead < PyList_GET_SIZE(items) ? Py_NewRef(PyList_GET_ITEM(items, ahead)) : nullptr;
    Py_XDECREF(items);
    return item;
}

/* The item that next() gives after `ahead` more steps, a new reference; NULL where the iterator ends before, or isn't one to peek at. */
PyObject *item_ahead(PyObject *iterator, Py_ssize_t ahead) {
    switch (Shape shape = shape_of(iterator)) {
        case Shape::range: return range_item(reinterpret_cast<FJ_RangeIterator *>(iterator), ahead);
        case Shape::forward:
        case Shape::backward: return sequence_item(reinterpret_cast<FJ_SequenceIterator *>(iterator), ahead, shape == Shape::backward);
        case Shape::dict_forward:
        case Shape::dict_backward: return dict_item(iterator, ahead, shape == Shape::dict_backward);
        case Shape::ordered: return ordered_item(reinterpret_cast<FJ_OrderedIterator *>(iterator), ahead);
        default: return nullptr;
    }
}

const Registered<AccessorKind> iterator_item({
    .name = "iterator_item",
    .read = read_number,
    .step = [](GuardTree &, Node &node, PyObject *base, const CallView &) { return item_ahead(base, node.number); },
    .creates = true,
});

/* ---- what is read must be what the iterators give ---- */

bool is_equal(PyObject *found, PyObject *expected) { return found != nullptr && PyObject_RichCompareBool(found, expected, Py_EQ) == 1; }

/* Takes one item, then compares what is peeked at with what the iterator goes on to give. 0, or -1 with an exception set. */
int check_layout(PyObject *iterator) {
    PyTypeObject *type = Py_TYPE(iterator);
    bool right = shape_of(iterator) != Shape::unknown;
    Py_XDECREF(PyIter_Next(iterator));
    PyObject *peeked[3] = {};
    if (right) {
        for (int ahead = 0; ahead < 3; ahead++) peeked[ahead] = item_ahead(iterator, ahead);
    }
    for (PyObject *item : peeked) {
        PyObject *given = PyIter_Next(iterator);
        right = right && (given == nullptr ? item == nullptr : is_equal(item, given));
        Py_XDECREF(given);
        Py_XDECREF(item);
    }
    right = right && !PyErr_Occurred();
    if (right) {
        PyObject *item = item_ahead(iterator, 0), *sequence = sequence_field(iterator, iterator_sequence);
        right = item == nullptr && (sequence == nullptr || type == &PyListRevIter_Type); /* which may keep its list, from Python 3.13 on */
        Py_XDECREF(item);
        Py_XDECREF(sequence);
    }
    if (right) return 0;
    PyErr_Clear();
    PyErr_Format(PyExc_SystemError, "framejit does not know the layout of a %s of this Python", type->tp_name);
    return -1;
}

}  // namespace

/* What an iterator over a sequence or dict runs over, a new reference; NULL where it has no such thing, or not any more. */
PyObject *sequence_field(PyObject *iterator, Py_ssize_t which) {
    switch (shape_of(iterator)) {
        case Shape::forward:
        case Shape::backward: {
            const auto *over = reinterpret_cast<FJ_SequenceIterator *>(iterator);
            if (which == iterator_position) return over->sequence != nullptr && Py_IS_TYPE(iterator, &PyReversed_Type) ? PyLong_FromSsize_t(over->index) : nullptr;
            return which == iterator_sequence ? Py_XNewRef(over->sequence) : nullptr;
        }
        case Shape::dict_forward:
        case Shape::dict_backward: {
            const auto *over = reinterpret_cast<FJ_DictIterator *>(iterator);
            if (over->dict == nullptr) return nullptr;
            if (which == iterator_intact) return PyBool_FromLong(is_intact(over));
            return which == iterator_sequence ? Py_NewRef(over->dict) : nullptr;
        }
        case Shape::ordered: {
            const auto *over = reinterpret_cast<FJ_OrderedIterator *>(iterator);
            if (over->ordered == nullptr || which != iterator_intact) {
                return which == iterator_sequence ? Py_XNewRef(over->ordered) : nullptr;
            }
            PyObject *items = ordered_items(over);
            bool is_intact = items != nullptr;
            Py_XDECREF(items);
            return PyBool_FromLong(is_intact);
        }
        default: return nullptr;
    }
}

/* Finds the types that have no name in C, and compares all layouts with what known iterators give. */
int init_iterators() {
    PyObject *globals = Py_BuildValue("{s:O}", "__builtins__", PyEval_GetBuiltins());
    if (globals == nullptr) return -1;
    if (PyDict_SetItemString(globals, "OrderedDict", reinterpret_cast<PyObject *>(&PyODict_Type)) < 0) return -1;
    PyObject *simple = PyRun_String(
        "[iter('abc'), iter('\\u20ac\\u20ad\\u20ae'), iter(b'abc'), iter(range(5, 99, 30)), iter(range(3, -9, -4)), iter([1, 2, 3]),"
        " reversed([1, 2, 3]), iter((1, 2, 3)), reversed((1, 2, 3)),"
        " *(make(view({'a': 1, 'b': 2, 'c': 3})) for make in (iter, reversed) for view in (dict.keys, dict.values, dict.items)),"
        " *(make(view(OrderedDict({'a': 1, 'b': 2, 'c': 3}))) for make in (iter, reversed) for view in (OrderedDict.keys, OrderedDict.values, OrderedDict.items))]",
        Py_eval_input, globals, globals);
    int status = simple == nullptr ? -1 : 0;
    if (status == 0) {
        ascii_iterator = Py_TYPE(PyList_GET_ITEM(simple, 0));
        text_iterator = Py_TYPE(PyList_GET_ITEM(simple, 1));
        bytes_iterator = Py_TYPE(PyList_GET_ITEM(simple, 2));
        ordered_iterator = Py_TYPE(PyList_GET_ITEM(simple, PyList_GET_SIZE(simple) - 1));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(simple) && status == 0; i++) status = check_layout(PyList_GET_ITEM(simple, i));
    }
    Py_XDECREF(simple);
    Py_DECREF(globals);
    return status;
}

}  // namespace framejit
