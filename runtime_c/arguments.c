/* arguments.c: the argument slots of a call: binding arguments to them, and the tuple of them for Python, with Unset for a slot without a value. */
#include "arguments.h"

PyObject *FJ_Unset;

static PyObject *unset_repr(PyObject *self) { return PyUnicode_FromString("Unset"); }

static PyTypeObject unset_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framejit._runtime.UnsetType",
    .tp_doc = "The type of Unset, which stands for an argument slot without a value.",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_repr = unset_repr,
};

int FJ_Arguments_Init(void) {
    if (PyType_Ready(&unset_type) < 0) {
        return -1;
    }
    if (FJ_Unset == NULL) {
        FJ_Unset = unset_type.tp_alloc(&unset_type, 0);
    }
    return FJ_Unset != NULL ? 0 : -1;
}

PyObject *FJ_Arguments_Tuple(PyObject *const *slots, Py_ssize_t n_slots) {
    PyObject *tuple = PyTuple_New(n_slots);
    for (Py_ssize_t i = 0; tuple != NULL && i < n_slots; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(slots[i] != NULL ? slots[i] : FJ_Unset));
    }
    return tuple;
}

static Py_ssize_t find_parameter(PyCodeObject *code, PyObject *name) {
    PyObject **names = ((PyTupleObject *)code->co_localsplusnames)->ob_item;
    Py_ssize_t n_named = code->co_argcount + code->co_kwonlyargcount;
    for (Py_ssize_t i = code->co_posonlyargcount; i < n_named; i++) {
        if (names[i] == name) {
            return i;
        }
    }
    for (Py_ssize_t i = code->co_posonlyargcount; i < n_named; i++) {
        if (PyUnicode_Compare(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static int bind_keywords(PyCodeObject *code, PyObject *const *values, PyObject *names, PyObject **slots, PyObject *more) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (!PyUnicode_CheckExact(name)) {
            return 0;
        }
        Py_ssize_t slot = find_parameter(code, name);
        if (slot < 0) {
            if (more == NULL || PyDict_SetItem(more, name, values[i]) < 0) {
                return 0;
            }
        } else if (slots[slot] != NULL) {
            return 0;
        } else {
            slots[slot] = Py_NewRef(values[i]);
        }
    }
    return 1;
}

static int bind_defaults(PyFunctionObject *function, PyCodeObject *code, Py_ssize_t n_given, PyObject **slots) {
    PyObject *defaults = function->func_defaults, *of_keywords = function->func_kwdefaults;
    Py_ssize_t n_parameters = code->co_argcount;
    Py_ssize_t n_defaults = defaults != NULL ? PyTuple_GET_SIZE(defaults) : 0;
    for (Py_ssize_t i = n_given; i < n_parameters; i++) {
        if (slots[i] == NULL) {
            Py_ssize_t index = i - (n_parameters - n_defaults);
            if (index < 0) {
                return 0;
            }
            slots[i] = Py_NewRef(PyTuple_GET_ITEM(defaults, index));
        }
    }
    for (Py_ssize_t i = n_parameters; i < n_parameters + code->co_kwonlyargcount; i++) {
        if (slots[i] == NULL) {
            PyObject *name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
            PyObject *value = of_keywords != NULL ? PyDict_GetItemWithError(of_keywords, name) : NULL;
            if (value == NULL) {
                return 0;
            }
            slots[i] = Py_NewRef(value);
        }
    }
    return 1;
}

int FJ_Arguments_BindAny(PyFunctionObject *function, PyCodeObject *code, PyObject *const *args, Py_ssize_t n_args, PyObject *names, FJ_Arguments *arguments) {
    PyObject **slots = arguments->slots;
    Py_ssize_t n_parameters = code->co_argcount;
    Py_ssize_t n_given = n_args < n_parameters ? n_args : n_parameters;
    Py_ssize_t rest = n_parameters + code->co_kwonlyargcount;
    Py_ssize_t more = rest + ((code->co_flags & CO_VARARGS) != 0);
    for (Py_ssize_t i = 0; i < n_given; i++) {
        slots[i] = Py_NewRef(args[i]);
    }
    for (Py_ssize_t i = n_given; i < arguments->n; i++) {
        slots[i] = NULL;
    }
    if (code->co_flags & CO_VARARGS) {
        slots[rest] = PyTuple_New(n_args - n_given);
        if (slots[rest] == NULL) {
            return 0;
        }
        for (Py_ssize_t i = n_given; i < n_args; i++) {
            PyTuple_SET_ITEM(slots[rest], i - n_given, Py_NewRef(args[i]));
        }
    } else if (n_args > n_parameters) {
        return 0;
    }
    if (code->co_flags & CO_VARKEYWORDS) {
        slots[more] = PyDict_New();
        if (slots[more] == NULL) {
            return 0;
        }
    }
    if (names != NULL && !bind_keywords(code, args + n_args, names, slots, code->co_flags & CO_VARKEYWORDS ? slots[more] : NULL)) {
        return 0;
    }
    return n_given == rest || bind_defaults(function, code, n_given, slots);
}
