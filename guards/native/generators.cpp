/* generators.cpp: suspended generators, which guards read; and how generated code leaves them where the traced program would have. guards/generators.py is
   the reference. */
#include "tree.h"

#include "cpython/generators.h"

#include "arguments.h" /* of runtime_c/: Unset stands for an empty slot */

namespace framejit {

namespace {

const Registered<AccessorKind> suspended_slot({
    .name = "suspended_slot",
    .read = read_number,
    .step = [](GuardTree &, Node &node, PyObject *base, const CallView &) -> PyObject * {
        FJ_Suspended found;
        return FJ_Generator_Look(base, &found) && node.number < found.n_slots ? found.slots[node.number] : nullptr;
    },
    .given = true,
});

const Registered<AccessorKind> suspended_function({
    .name = "suspended_function",
    .step = [](GuardTree &, Node &, PyObject *base, const CallView &) -> PyObject * {
        FJ_Suspended found;
        return FJ_Generator_Look(base, &found) ? found.function : nullptr;
    },
    .given = true,
});

/* Where a generator is suspended, and which of its slots hold something. */
struct Place : Facts {
    PyObject *code = nullptr; /* borrowed from what the leaf holds */
    int offset = 0;
    std::vector<PyObject *> filled; /* of each slot: True, False, or None where nothing depends on it */
};

bool read_place(GuardTree &tree, Leaf &leaf, PyObject *payload) {
    auto place = std::make_unique<Place>();
    PyObject *code, *filled;
    if (!PyArg_ParseTuple(payload, "O!iO!", &PyCode_Type, &code, &place->offset, &PyTuple_Type, &filled)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(filled); i++) place->filled.push_back(PyTuple_GET_ITEM(filled, i));
    place->code = hold(tree, code, true, &leaf.held);
    leaf.facts = place.get();
    tree.facts.push_back(std::move(place));
    return static_cast<const Place *>(leaf.facts)->code != nullptr;
}

bool is_at_place(const Leaf &leaf, PyObject *value) {
    const auto &place = *static_cast<const Place *>(leaf.facts);
    FJ_Suspended found;
    if (!FJ_Generator_Look(value, &found) || reinterpret_cast<PyObject *>(found.code) != place.code || found.offset != place.offset) return false;
    if (found.n_slots != static_cast<Py_ssize_t>(place.filled.size())) return false;
    for (Py_ssize_t i = 0; i < found.n_slots; i++) {
        if (place.filled[i] == (found.slots[i] == nullptr ? Py_True : Py_False)) return false;
    }
    return true;
}

const Registered<LeafKind> suspended_at({.name = "suspended_at", .read = read_place, .holds = is_at_place});

const Registered<LeafKind> has_ended({
    .name = "has_ended",
    .holds = [](const Leaf &, PyObject *value) { return FJ_Generator_HasEnded(value) != 0; },
});

PyObject *suspended_generator(PyObject *, PyObject *generator) {
    FJ_Suspended found;
    if (!FJ_Generator_Look(generator, &found)) Py_RETURN_NONE;
    PyObject *slots = PyTuple_New(found.n_slots);
    for (Py_ssize_t i = 0; slots != nullptr && i < found.n_slots; i++) {
        PyTuple_SET_ITEM(slots, i, Py_NewRef(found.slots[i] == nullptr ? FJ_Unset : found.slots[i]));
    }
    return slots == nullptr ? nullptr : Py_BuildValue("OiON", found.code, found.offset, found.function, slots);
}

PyObject *has_generator_ended(PyObject *, PyObject *generator) { return PyBool_FromLong(FJ_Generator_HasEnded(generator)); }

/* 0 if a generator is suspended where the guards have found it; -1 with an exception set otherwise: another thread has resumed it meanwhile. */
int check_is_at(PyObject *generator, int offset, FJ_Suspended *found) {
    if (FJ_Generator_Look(generator, found) && found->offset == offset) return 0;
    PyErr_SetString(PyExc_RuntimeError, "a generator was resumed by something else while a compiled function resumed it");
    return -1;
}

/* Takes the contents out of the slots from the one at `first` on. */
void empty(const FJ_Suspended &found, Py_ssize_t first, std::vector<PyObject *> &released) {
    for (Py_ssize_t i = first; i < found.n_slots; i++) {
        released.push_back(found.slots[i]);
        found.slots[i] = nullptr;
    }
}

/* What the slots held is released when the generator is whole again: that may run anything, and look at the generator. */
void release(const std::vector<PyObject *> &released) {
    for (PyObject *object : released) Py_XDECREF(object);
}

PyObject *move_generator(PyObject *, PyObject *args) {
    PyObject *generator, *indices, *values;
    int before, offset;
    Py_ssize_t n_slots;
    if (!PyArg_ParseTuple(args, "OiinO!O!:move_generator", &generator, &before, &offset, &n_slots, &PyTuple_Type, &indices, &PyTuple_Type, &values)) {
        return nullptr;
    }
    FJ_Suspended found;
    if (check_is_at(generator, before, &found) < 0) return nullptr;
    const PyCodeObject *its = found.code;
    const Py_ssize_t size = PyTuple_GET_SIZE(indices), room = its->co_nlocalsplus + its->co_stacksize;
    bool fits = n_slots >= its->co_nlocalsplus && n_slots < room && size == PyTuple_GET_SIZE(values) && offset >= 0 && offset < FJ_Code_Size(reinterpret_cast<PyObject *>(found.code));
    std::vector<Py_ssize_t> places;
    for (Py_ssize_t i = 0; fits && i < size; i++) {
        places.push_back(PyLong_AsSsize_t(PyTuple_GET_ITEM(indices, i)));
        fits = places.back() >= 0 && places.back() < n_slots;
    }
    if (!fits) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "move_generator() takes slots and an instruction of the generator's code");
        return nullptr;
    }
    std::vector<PyObject *> released;
    released.reserve(size + found.n_slots);
    empty(found, n_slots, released);
    for (Py_ssize_t i = found.n_slots; i < n_slots; i++) found.slots[i] = nullptr; /* what lies above the stack is nobody's */
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *value = PyTuple_GET_ITEM(values, i);
        released.push_back(found.slots[places[i]]);
        found.slots[places[i]] = value == FJ_Unset ? nullptr : Py_NewRef(value);
    }
    FJ_Generator_Suspend(generator, n_slots, offset);
    release(released);
    Py_RETURN_NONE;
}

PyObject *end_generator(PyObject *, PyObject *args) {
    PyObject *generator;
    int before, created;
    if (!PyArg_ParseTuple(args, "Oii:end_generator", &generator, &before, &created)) return nullptr;
    FJ_Suspended found;
    if (check_is_at(generator, before, &found) < 0) return nullptr;
    std::vector<PyObject *> released;
    released.reserve(found.n_slots);
    empty(found, 0, released);
    if (FJ_Generator_End(generator, created) < 0) PyErr_WriteUnraisable(generator);
    release(released);
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"suspended_generator", suspended_generator, METH_O,
     "suspended_generator(generator, /)\n--\n\nWhere an exact generator is suspended, as its code, the offset of the instruction that suspended it, its function, and a\n"
     "tuple of its variables and the values on its stack, with Unset for those that are empty. None where it runs, has ended, handles an exception, or\n"
     "something else holds its frame."},
    {"has_generator_ended", has_generator_ended, METH_O, "has_generator_ended(generator, /)\n--\n\nWhether an exact generator has ended."},
    {"move_generator", move_generator, METH_VARARGS,
     "move_generator(generator, before, offset, n_slots, indices, values, /)\n--\n\nSuspend a generator, which is suspended at the offset `before` of its code,\n"
     "at the offset of another yield, with so many slots, of which those at the indices get these values, and the others keep theirs."},
    {"end_generator", end_generator, METH_VARARGS,
     "end_generator(generator, before, created, /)\n--\n\nEnd a generator, which is suspended at the offset `before` of its code, as if the code had returned.\n"
     "`created` is the offset of the instruction that makes the generator."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

/* Adds the functions. */
int init_generators(PyObject *module) { return PyModule_AddFunctions(module, functions); }

}  // namespace framejit
