/* iterator_fields.cpp: iterators whose whole state is a few fields (zip, map, itertools.islice ...): these are read by guards, and written by generated code. */
#include <cstring>
#include <iterator>

#include "tree.h"

#include "cpython/iterators.h"

#include "arguments.h" /* of runtime_c/: Unset stands for nothing */

namespace framejit {

namespace {

constexpr Py_ssize_t n_fields = std::size(FJ_IteratorFields);
constexpr const char *sequence_fields[iterator_own] = {"sequence", "intact", "position"};
PyTypeObject *types[n_fields]; /* whose field it is; all outlive the module */

PyObject **object_at(PyObject *iterator, const FJ_IteratorField &field) {
    return reinterpret_cast<PyObject **>(iterator + 1) + field.which;
}

Py_ssize_t &size_at(PyObject *iterator, const FJ_IteratorField &field) { return reinterpret_cast<Py_ssize_t &>(*object_at(iterator, field)); }

int &int_at(PyObject *iterator, const FJ_IteratorField &field) { return reinterpret_cast<int &>(*object_at(iterator, field)); }

/* Of FJ_COUNT, the place of the int that counts on where a Py_ssize_t ends. */
PyObject *&long_count(PyObject *iterator, const FJ_IteratorField &field) { return object_at(iterator, field)[3]; }

/* A copy of a tuple of iterators, with None in the place of those that have ended, or the other way round. */
PyObject *copy_iterators(PyObject *tuple, bool ends_are_none) {
    PyObject *copy = PyTuple_New(PyTuple_GET_SIZE(tuple));
    for (Py_ssize_t i = 0; copy != nullptr && i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        if (ends_are_none && item == nullptr) item = Py_None;
        else if (!ends_are_none && item == Py_None) item = nullptr;
        PyTuple_SET_ITEM(copy, i, Py_XNewRef(item));
    }
    return copy;
}

/* A new reference; NULL where the field holds nothing. */
PyObject *read_field(PyObject *iterator, const FJ_IteratorField &field) {
    switch (field.kind) {
        case FJ_OBJECT: return Py_XNewRef(*object_at(iterator, field));
        case FJ_SIZE: return PyLong_FromSsize_t(size_at(iterator, field));
        case FJ_INT: return PyLong_FromLong(int_at(iterator, field));
        case FJ_COUNT: {
            Py_ssize_t count = size_at(iterator, field);
            PyObject *more = long_count(iterator, field);
            return count == PY_SSIZE_T_MAX && more != nullptr ? Py_NewRef(more) : PyLong_FromSsize_t(count);
        }
        case FJ_ITERATORS: return copy_iterators(*object_at(iterator, field), true);
    }
    return nullptr;
}

/* 0, or -1 with an exception set. FJ_Unset stands for nothing. */
int write_field(PyObject *iterator, const FJ_IteratorField &field, PyObject *value) {
    switch (field.kind) {
        case FJ_OBJECT: Py_XSETREF(*object_at(iterator, field), value == FJ_Unset ? nullptr : Py_NewRef(value)); return 0;
        case FJ_SIZE:
        case FJ_INT: {
            Py_ssize_t number = PyLong_AsSsize_t(value);
            if (number == -1 && PyErr_Occurred()) return -1;
            if (field.kind == FJ_SIZE) size_at(iterator, field) = number;
            else int_at(iterator, field) = static_cast<int>(number);
            return 0;
        }
        case FJ_COUNT: {
            Py_ssize_t number = PyLong_AsSsize_t(value);
            bool too_long = number == -1 && PyErr_Occurred();
            if (too_long && !PyErr_ExceptionMatches(PyExc_OverflowError)) return -1;
            PyErr_Clear();
            bool counts_on = too_long || number == PY_SSIZE_T_MAX;
            size_at(iterator, field) = counts_on ? PY_SSIZE_T_MAX : number;
            Py_XSETREF(long_count(iterator, field), counts_on ? Py_NewRef(value) : nullptr);
            return 0;
        }
        case FJ_ITERATORS: {
            PyObject *copy = PyTuple_CheckExact(value) ? copy_iterators(value, false) : nullptr;
            if (copy != nullptr) Py_SETREF(*object_at(iterator, field), copy);
            else if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "iterators must be a tuple");
            return copy == nullptr ? -1 : 0;
        }
    }
    return 0;
}

/* The number of a field of this name, those of iterators over sequences and dicts first. 0, or -1 with an exception set. */
int find_field(PyObject *payload, Py_ssize_t *number) {
    for (Py_ssize_t i = 0; PyUnicode_Check(payload) && i < iterator_own + n_fields; i++) {
        const char *name = i < iterator_own ? sequence_fields[i] : FJ_IteratorFields[i - iterator_own].name;
        if (PyUnicode_CompareWithASCIIString(payload, name) != 0) continue;
        *number = i;
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "no iterator has a field %R", payload);
    return -1;
}

/* What a field of an iterator holds, a new reference; NULL where it holds nothing, or the iterator is of another type. */
PyObject *content(PyObject *iterator, Py_ssize_t which) {
    if (which < iterator_own) return sequence_field(iterator, which);
    Py_ssize_t number = which - iterator_own;
    return Py_IS_TYPE(iterator, types[number]) ? read_field(iterator, FJ_IteratorFields[number]) : nullptr;
}

const Registered<AccessorKind> iterator_field({
    .name = "iterator_field",
    .read = [](GuardTree &, Node &node, PyObject *payload) { return find_field(payload, &node.number) == 0; },
    .step = [](GuardTree &, Node &node, PyObject *base, const CallView &) { return content(base, node.number); },
    .creates = true,
});

/* The number of an iterator's field of this name; -1 with an exception set where its type has none. */
Py_ssize_t own_field(PyObject *iterator, PyObject *name) {
    Py_ssize_t number = -1;
    if (find_field(name, &number) < 0) return -1;
    number -= iterator_own;
    if (number >= 0 && Py_IS_TYPE(iterator, types[number])) return number;
    PyErr_Format(PyExc_TypeError, "a %s has no field %R", Py_TYPE(iterator)->tp_name, name);
    return -1;
}

PyObject *get_field(PyObject *, PyObject *args) {
    PyObject *iterator, *name;
    if (!PyArg_ParseTuple(args, "OU:iterator_field", &iterator, &name)) return nullptr;
    Py_ssize_t number = own_field(iterator, name);
    if (number < 0) return nullptr;
    PyObject *found = read_field(iterator, FJ_IteratorFields[number]);
    return found != nullptr || PyErr_Occurred() ? found : Py_NewRef(FJ_Unset);
}

PyObject *set_fields(PyObject *, PyObject *args) {
    PyObject *iterator, *names, *values;
    if (!PyArg_ParseTuple(args, "OO!O!:set_iterator_fields", &iterator, &PyTuple_Type, &names, &PyTuple_Type, &values)) return nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names) && i < PyTuple_GET_SIZE(values); i++) {
        Py_ssize_t number = own_field(iterator, PyTuple_GET_ITEM(names, i));
        if (number < 0 || write_field(iterator, FJ_IteratorFields[number], PyTuple_GET_ITEM(values, i)) < 0) return nullptr;
    }
    return Py_NewRef(iterator);
}

PyMethodDef functions[] = {
    {"iterator_field", get_field, METH_VARARGS,
     "iterator_field(iterator, name, /)\n--\n\nA field of a builtin iterator, such as \"islice.cnt\"; Unset where it holds nothing."},
    {"set_iterator_fields", set_fields, METH_VARARGS,
     "set_iterator_fields(iterator, names, values, /)\n--\n\nSet fields of a builtin iterator; Unset for nothing. Gives the iterator. Values are taken as they "
     "are: what C code takes to be an iterator must be one."},
    {nullptr},
};

/* Examples of all types: an iterator, and what its fields hold, of all Pythons together. */
constexpr const char *examples =
    "[(enumerate(i, 3), 'enumerate', dict(it=i, count=3)), (zip(i, i, strict=True), 'zip', dict(ittuple=(i, i), strict=1)),"
    " (map(f, i, i), 'map', dict(iters=(i, i), func=f, strict=0)), (filter(f, i), 'filter', dict(func=f, it=i)),"
    " (iter(f, 7), 'callable_iterator', dict(callable=f, sentinel=7)), (iter(sequence), 'iterator', dict(index=0, seq=sequence)),"
    " (accumulate(i, f, initial=7), 'accumulate', dict(total=None, it=i, binop=f, initial=7)),"
    " (batched(i, 7) if batched else None, 'batched', dict(it=i, batch_size=7, strict=0)),"
    " (chain.from_iterable(i), 'chain', dict(source=i, active=None)), (compress(i, j), 'compress', dict(data=i, selectors=j)),"
    " (count(5), 'count', dict(cnt=5, long_cnt=None, long_step=1)), (count(7, 2), 'count', dict(cnt=largest, long_cnt=7, long_step=2)),"
    " (next_of(cycle(j)), 'cycle', dict(it=j, saved=[1], index=cycle_start, firstpass=0)),"
    " (next_of(dropwhile(f, j)), 'dropwhile', dict(func=f, it=j, start=1)), (filterfalse(f, i), 'filterfalse', dict(func=f, it=i)),"
    " (islice(i, 2, 9, 3), 'islice', dict(it=i, next=2, stop=9, step=3, cnt=0)), (next_of(pairwise(k)), 'pairwise', dict(it=k, old=2)),"
    " (next_of(repeat(f, 7)), 'repeat', dict(element=f, cnt=6)), (repeat(f), 'repeat', dict(element=f, cnt=-1)),"
    " (starmap(f, i), 'starmap', dict(func=f, it=i)), (next_of(takewhile(f, j)), 'takewhile', dict(func=f, it=j, stop=1)),"
    " (next_of(zip_longest((), k, fillvalue=7)), 'zip_longest', dict(numactive=1, ittuple=(None, k), fillvalue=7))]";
constexpr const char *setting =
    "from itertools import *\n"
    "import sys\n"
    "batched = globals().get('batched')\n"
    "largest = sys.maxsize\n"
    "f, i, j, k = bool, iter([]), iter([1, 0, 0]), iter([1, 2, 3])\n"
    "sequence = type('Sequence', (), {'__getitem__': None})()\n"
    "def next_of(iterator):\n"
    "    next(iterator, None)\n"
    "    return iterator\n";

/* Notes the types that an example's fields are of, and compares what is read with what the example says. 0, or -1 with an exception set. */
int check_example(PyObject *example) {
    PyObject *iterator, *expected;
    const char *prefix;
    if (!PyArg_ParseTuple(example, "OsO!", &iterator, &prefix, &PyDict_Type, &expected)) return -1;
    if (iterator == Py_None) return 0;
    size_t length = std::strlen(prefix);
    bool right = true;
    for (Py_ssize_t n = 0; n < n_fields; n++) {
        const FJ_IteratorField &field = FJ_IteratorFields[n];
        if (std::strncmp(field.name, prefix, length) != 0 || field.name[length] != '.') continue;
        types[n] = Py_TYPE(iterator);
        PyObject *value = PyDict_GetItemString(expected, field.name + length + 1), *found = read_field(iterator, field);
        right = right && value != nullptr && (found == nullptr ? value == Py_None : found == value || PyObject_RichCompareBool(found, value, Py_EQ) == 1);
        Py_XDECREF(found);
    }
    if (right) return 0;
    PyErr_Clear();
    PyErr_Format(PyExc_SystemError, "framejit does not know the layout of a %s of this Python", Py_TYPE(iterator)->tp_name);
    return -1;
}

int check_examples() {
    PyObject *globals = Py_BuildValue("{s:O,s:i}", "__builtins__", PyEval_GetBuiltins(), "cycle_start", FJ_CYCLE_START);
    PyObject *set = globals == nullptr ? nullptr : PyRun_String(setting, Py_file_input, globals, globals);
    PyObject *found = set == nullptr ? nullptr : PyRun_String(examples, Py_eval_input, globals, globals);
    int status = found == nullptr ? -1 : 0;
    for (Py_ssize_t i = 0; status == 0 && i < PyList_GET_SIZE(found); i++) status = check_example(PyList_GET_ITEM(found, i));
    Py_XDECREF(found);
    Py_XDECREF(set);
    Py_XDECREF(globals);
    return status;
}

}  // namespace

/* Finds the types, compares their layouts with what the examples hold, and adds the functions, and the names of the fields, by type. */
int init_iterator_fields(PyObject *module) {
    if (check_examples() < 0 || PyModule_AddFunctions(module, functions) < 0) return -1;
    PyObject *fields = PyDict_New();
    int status = fields == nullptr ? -1 : 0;
    for (Py_ssize_t n = 0; status == 0 && n < n_fields; n++) {
        PyObject *type = reinterpret_cast<PyObject *>(types[n]);
        PyObject *names = PyDict_GetItemWithError(fields, type), *name = PyUnicode_FromString(FJ_IteratorFields[n].name);
        PyObject *single = name == nullptr ? nullptr : PyTuple_Pack(1, name);
        PyObject *longer = single == nullptr || names == nullptr ? Py_XNewRef(single) : PySequence_Concat(names, single);
        status = longer == nullptr ? -1 : PyDict_SetItem(fields, type, longer);
        Py_XDECREF(longer);
        Py_XDECREF(single);
        Py_XDECREF(name);
    }
    if (status == 0) status = PyModule_AddObjectRef(module, "ITERATOR_FIELDS", fields);
    Py_XDECREF(fields);
    return status;
}

}  // namespace framejit
