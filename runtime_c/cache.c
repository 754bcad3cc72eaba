/* cache.c: CompiledFunction, a function and its entries, each most recently used first. */
#include <Python.h>

#include <stddef.h>
#include <structmember.h>

#include "runtime.h"

/* ---- the entries of a CompiledFunction ---- */

/* Where there are many entries, one for each of many modules, the search begins with the one that the first argument had last. The
   addresses of both are only ever compared, and a hint that is wrong costs one walk. */
enum { HINTS_FROM = 3, N_HINTS = 512 };

static FJ_Hint *hint_of(FJ_CompiledFunction *self, PyObject *const *locals, Py_ssize_t n_locals) {
    if (self->n_entries < HINTS_FROM || n_locals == 0 || locals[0] == NULL) {
        return NULL;
    }
    if (self->hints == NULL) {
        self->hints = PyMem_Calloc(N_HINTS, sizeof(FJ_Hint));
        if (self->hints == NULL) {
            return NULL;
        }
    }
    uintptr_t address = (uintptr_t)locals[0] >> 4;
    return &self->hints[(address ^ (address >> 7)) % N_HINTS];
}

/* Moves an entry to the front of those that are preferred, or of the others, which stand after these. */
static void move_forward(FJ_CompiledFunction *self, Py_ssize_t i) {
    Py_ssize_t place = i < self->n_preferred ? 0 : self->n_preferred;
    if (i != place) {
        FJ_Entry *entry = self->entries[i];
        memmove(self->entries + place + 1, self->entries + place, (size_t)(i - place) * sizeof(FJ_Entry *));
        self->entries[place] = entry;
        self->version++;
    }
}

/* Puts the entry that a hint names in front, where the search begins. */
static void follow_hint(FJ_CompiledFunction *self, PyObject *argument, const FJ_Hint *hint) {
    if (hint == NULL || hint->argument != argument || hint->entry == self->entries[0]) {
        return;
    }
    for (Py_ssize_t i = 1; i < self->n_entries; i++) {
        if (self->entries[i] == hint->entry) {
            move_forward(self, i);
            return;
        }
    }
}

/* Has the guard checker look at the call. 0, or -1 with an exception set. */
static int check_guards(FJ_CompiledFunction *self, PyObject *function, PyObject *const *locals, Py_ssize_t n_locals) {
    PyObject *checker = Py_NewRef(FJ_guard_checker);
    PyObject *arguments = FJ_Arguments_Tuple(locals, n_locals);
    PyObject *result = arguments != NULL ? PyObject_CallFunctionObjArgs(checker, (PyObject *)self, arguments, function, NULL) : NULL;
    Py_XDECREF(arguments);
    Py_XDECREF(result);
    Py_DECREF(checker);
    return result != NULL ? 0 : -1;
}

FJ_Entry *FJ_CompiledFunction_Find(FJ_CompiledFunction *self, PyObject *function, PyObject *const *locals, Py_ssize_t n_locals,
                                   FJ_Captured *captured) {
    if (FJ_guard_checker != NULL && check_guards(self, function, locals, n_locals) < 0) {
        return NULL;
    }
    FJ_Hint *hint = hint_of(self, locals, n_locals);
    if (hint != NULL) {
        follow_hint(self, locals[0], hint);
    }
    size_t version = self->version;
    for (Py_ssize_t i = 0; i < self->n_entries; i++) {
        FJ_Entry *entry = (FJ_Entry *)Py_NewRef(self->entries[i]);
        int result = FJ_Entry_Match(entry, locals, n_locals, function, captured);
        if (result == 1) {
            if (version == self->version) {
                move_forward(self, i);
            }
            if (hint != NULL) {
                *hint = (FJ_Hint){locals[0], entry};
            }
            return entry;
        }
        Py_DECREF(entry);
        if (result < 0) {
            return NULL;
        }
        if (version != self->version) { /* releasing something let other code change the entries */
            version = self->version;
            i = -1;
        }
    }
    return NULL;
}

static void drop_entries(FJ_CompiledFunction *self) {
    FJ_Entry **entries = self->entries;
    Py_ssize_t n_entries = self->n_entries;
    self->entries = NULL;
    self->n_entries = self->n_preferred = self->n_direct = self->allocated = 0;
    self->version++;
    for (Py_ssize_t i = 0; i < n_entries; i++) {
        Py_DECREF(entries[i]);
    }
    PyMem_Free(entries);
}

void FJ_CompiledFunction_CheckCode(FJ_CompiledFunction *self) {
    PyObject *code = PyFunction_GET_CODE(self->function);
    if (self->code != code) {
        Py_XSETREF(self->code, Py_NewRef(code));
        drop_entries(self);
    }
}

static int check_entry_fits(FJ_CompiledFunction *self, FJ_Entry *entry) {
    if (entry->code == Py_None) {
        return 0;
    }
    PyCodeObject *code = (PyCodeObject *)entry->code;
    Py_ssize_t n_arguments = FJ_Arguments_Count((PyCodeObject *)self->code);
    if (FJ_Arguments_Count(code) != n_arguments || code->co_nlocals < n_arguments + 2) {
        PyErr_Format(PyExc_ValueError, "Entry: its code has %zd argument slots and %d locals; %S needs %zd and at least two more locals",
                     FJ_Arguments_Count(code), code->co_nlocals, ((PyFunctionObject *)self->function)->func_qualname, n_arguments);
        return -1;
    }
    if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) {
        PyErr_SetString(PyExc_ValueError, "Entry: its code is a generator's or a coroutine's");
        return -1;
    }
    return 0;
}

int FJ_CompiledFunction_Add(FJ_CompiledFunction *self, FJ_Entry *entry) {
    FJ_CompiledFunction_CheckCode(self);
    if (check_entry_fits(self, entry) < 0) {
        return -1;
    }
    if (self->n_entries == self->allocated) {
        Py_ssize_t allocated = self->allocated + 4;
        FJ_Entry **entries = PyMem_Realloc(self->entries, (size_t)allocated * sizeof(FJ_Entry *));
        if (entries == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        self->entries = entries;
        self->allocated = allocated;
    }
    Py_ssize_t place = self->n_preferred;
    if (self->n_entries > place) {
        memmove(self->entries + place + 1, self->entries + place, (size_t)(self->n_entries - place) * sizeof(FJ_Entry *));
    }
    self->entries[place] = (FJ_Entry *)Py_NewRef(entry);
    self->n_entries++;
    self->n_direct += entry->program != NULL;
    self->version++;
    return 0;
}

static PyObject *function_add(FJ_CompiledFunction *self, PyObject *entry) {
    if (!PyObject_TypeCheck(entry, &FJ_EntryType)) {
        return PyErr_Format(PyExc_TypeError, "add: an Entry is needed, not %.100s", Py_TYPE(entry)->tp_name);
    }
    if (FJ_CompiledFunction_Add(self, (FJ_Entry *)entry) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *function_remove(FJ_CompiledFunction *self, PyObject *entry) {
    for (Py_ssize_t i = 0; i < self->n_entries; i++) {
        if ((PyObject *)self->entries[i] == entry) {
            self->n_entries--;
            self->n_preferred -= i < self->n_preferred;
            self->n_direct -= self->entries[i]->program != NULL;
            self->version++;
            memmove(self->entries + i, self->entries + i + 1, (size_t)(self->n_entries - i) * sizeof(FJ_Entry *));
            Py_DECREF(entry);
            Py_RETURN_TRUE;
        }
    }
    Py_RETURN_FALSE;
}

static PyObject *function_prefer(FJ_CompiledFunction *self, PyObject *entry) {
    for (Py_ssize_t i = 0; i < self->n_entries; i++) {
        if ((PyObject *)self->entries[i] == entry) {
            if (i >= self->n_preferred) {
                move_forward(self, i);
                self->n_preferred++;
            }
            Py_RETURN_TRUE;
        }
    }
    Py_RETURN_FALSE;
}

static PyObject *function_clear_entries(FJ_CompiledFunction *self, PyObject *unused) {
    drop_entries(self);
    Py_RETURN_NONE;
}

static PyObject *function_get_entries(FJ_CompiledFunction *self, void *closure) {
    PyObject *tuple = PyTuple_New(self->n_entries);
    for (Py_ssize_t i = 0; tuple != NULL && i < self->n_entries; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(self->entries[i]));
    }
    return tuple;
}

static PyObject *function_get_upcalls(FJ_CompiledFunction *self, void *closure) {
    return Py_NewRef(self->upcalls != NULL ? self->upcalls : Py_None);
}

static int function_set_upcalls(FJ_CompiledFunction *self, PyObject *value, void *closure) {
    if (value != NULL && value != Py_None && !PyCallable_Check(value)) {
        PyErr_Format(PyExc_TypeError, "upcalls must be callable or None, not %.100s", Py_TYPE(value)->tp_name);
        return -1;
    }
    Py_XSETREF(self->upcalls, value != Py_None ? Py_XNewRef(value) : NULL);
    return 0;
}

/* ---- CompiledFunction as an object ---- */

static PyObject *function_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *keywords[] = {"function", "compile_callback", "rejected_callback", "ended_callback", "outermost_callback", NULL};
    PyObject *function, *callback, *rejected = Py_None, *ended = Py_None, *outermost = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|OOO:CompiledFunction", keywords, &PyFunction_Type, &function, &callback, &rejected,
                                     &ended, &outermost)) {
        return NULL;
    }
    PyObject *callbacks[] = {callback, rejected != Py_None ? rejected : callback, ended != Py_None ? ended : callback,
                              outermost != Py_None ? outermost : callback};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(callbacks); i++) {
        if (!PyCallable_Check(callbacks[i])) {
            return PyErr_Format(PyExc_TypeError, "CompiledFunction: a callback must be callable, not %.100s", Py_TYPE(callbacks[i])->tp_name);
        }
    }
    FJ_CompiledFunction *self = (FJ_CompiledFunction *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = FJ_CompiledFunction_Vectorcall;
    self->function = Py_NewRef(function);
    self->compile_callback = Py_NewRef(callback);
    self->rejected_callback = rejected != Py_None ? Py_NewRef(rejected) : NULL;
    self->ended_callback = ended != Py_None ? Py_NewRef(ended) : NULL;
    self->outermost_callback = outermost != Py_None ? Py_NewRef(outermost) : NULL;
    self->code = Py_NewRef(PyFunction_GET_CODE(function));
    self->enabled = 1;
    return (PyObject *)self;
}

static int function_traverse(FJ_CompiledFunction *self, visitproc visit, void *arg) {
    Py_VISIT(self->function);
    Py_VISIT(self->compile_callback);
    Py_VISIT(self->upcalls);
    Py_VISIT(self->rejected_callback);
    Py_VISIT(self->ended_callback);
    Py_VISIT(self->outermost_callback);
    Py_VISIT(self->code);
    Py_VISIT(self->dict);
    for (Py_ssize_t i = 0; i < self->n_entries; i++) {
        Py_VISIT(self->entries[i]);
    }
    return 0;
}

static int function_clear(FJ_CompiledFunction *self) {
    FJ_Upcalls_Unlink(self);
    Py_CLEAR(self->function);
    Py_CLEAR(self->compile_callback);
    Py_CLEAR(self->upcalls);
    Py_CLEAR(self->rejected_callback);
    Py_CLEAR(self->ended_callback);
    Py_CLEAR(self->outermost_callback);
    Py_CLEAR(self->code);
    Py_CLEAR(self->dict);
    drop_entries(self);
    return 0;
}

/* Says that the object is going, and hands its entries over: whoever wants them to live on may take them.
   Not where the garbage collector takes it, which calls this with a reference of its own: it has cleared all weak references by then that are garbage
   together with the object (Modules/gcmodule.c: handle_weakrefs), without a word to their callbacks. So the guards of its entries wouldn't notice any
   more that an object is gone that they know by its address. */
static void function_finalize(PyObject *object) {
    FJ_CompiledFunction *self = (FJ_CompiledFunction *)object;
    const int collected = Py_REFCNT(object) > 1;
    if (self->ended_callback == NULL || self->n_entries == 0 || collected) {
        return;
    }
    PyObject *error_type, *error, *traceback;
    PyErr_Fetch(&error_type, &error, &traceback);
    PyObject *entries = function_get_entries(self, NULL);
    PyObject *result = entries != NULL ? PyObject_CallFunctionObjArgs(self->ended_callback, self->function, entries, NULL) : NULL;
    if (result == NULL) {
        PyErr_WriteUnraisable(self->ended_callback);
    }
    Py_XDECREF(result);
    Py_XDECREF(entries);
    PyErr_Restore(error_type, error, traceback);
}

static void function_dealloc(FJ_CompiledFunction *self) {
    if (PyObject_CallFinalizerFromDealloc((PyObject *)self) < 0) {
        return;
    }
    PyObject_GC_UnTrack(self);
    if (self->weak_references != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    function_clear(self);
    PyMem_Free(self->hints);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *function_descr_get(PyObject *self, PyObject *object, PyObject *type) {
    if (object == NULL || object == Py_None) {
        return Py_NewRef(self);
    }
    return PyMethod_New(self, object);
}

/* What a function keeps in slots of its own (__name__, __doc__, __defaults__, __code__ ...) is read from, and written to, the function. */
static int belongs_to_function(PyObject *name) {
    PyObject *attribute = _PyType_Lookup(&PyFunction_Type, name);
    return attribute != NULL && Py_TYPE(attribute)->tp_descr_set != NULL && !_PyUnicode_EqualToASCIIString(name, "__dict__");
}

static PyObject *function_getattro(PyObject *object, PyObject *name) {
    FJ_CompiledFunction *self = (FJ_CompiledFunction *)object;
    if (self->function != NULL && belongs_to_function(name)) {
        return PyObject_GetAttr(self->function, name);
    }
    PyObject *value = PyObject_GenericGetAttr(object, name);
    if (value == NULL && self->function != NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        value = PyObject_GetAttr(self->function, name);
    }
    return value;
}

static int function_setattro(PyObject *object, PyObject *name, PyObject *value) {
    FJ_CompiledFunction *self = (FJ_CompiledFunction *)object;
    if (self->function != NULL && belongs_to_function(name)) {
        return PyObject_SetAttr(self->function, name, value);
    }
    return PyObject_GenericSetAttr(object, name, value);
}

static PyObject *function_repr(FJ_CompiledFunction *self) {
    if (self->function == NULL) {
        return PyUnicode_FromString("<framejit compiled function>");
    }
    return PyUnicode_FromFormat("<framejit compiled function %U at %p>", ((PyFunctionObject *)self->function)->func_qualname, self);
}

/* Pickled and copied as a function is: by its qualified name. */
static PyObject *function_reduce(FJ_CompiledFunction *self, PyObject *unused) { return PyObject_GetAttrString(self->function, "__qualname__"); }

static PyMethodDef function_methods[] = {
    {"add", (PyCFunction)function_add, METH_O,
     "add($self, entry, /)\n--\n\nPut an entry in front of those that aren't preferred. ValueError if its code doesn't fit the function's."},
    {"prefer", (PyCFunction)function_prefer, METH_O,
     "prefer($self, entry, /)\n--\n\nHave an entry tried before all that aren't preferred, whenever those were used; False if it isn't there."},
    {"remove", (PyCFunction)function_remove, METH_O, "remove($self, entry, /)\n--\n\nTake an entry out; False if it isn't there."},
    {"clear", (PyCFunction)function_clear_entries, METH_NOARGS, "clear($self, /)\n--\n\nTake all entries out."},
    {"__reduce__", (PyCFunction)function_reduce, METH_NOARGS, NULL},
    {NULL},
};

static PyMemberDef function_members[] = {
    {"function", T_OBJECT, offsetof(FJ_CompiledFunction, function), READONLY, "The function as it was written."},
    {"__wrapped__", T_OBJECT, offsetof(FJ_CompiledFunction, function), READONLY, NULL},
    {"compile_callback", T_OBJECT, offsetof(FJ_CompiledFunction, compile_callback), READONLY,
     "Called as (function, arguments) where no entry matches."},
    {"ended_callback", T_OBJECT, offsetof(FJ_CompiledFunction, ended_callback), READONLY,
     "Called as (function, entries) when the object goes while it has entries, or None."},
    {"outermost_callback", T_OBJECT, offsetof(FJ_CompiledFunction, outermost_callback), READONLY,
     "Called when a call begins that is inside no other call, on this thread, of a function that has such a callback, or None."},
    {"n_preferred", T_PYSSIZET, offsetof(FJ_CompiledFunction, n_preferred), READONLY, "How many of the entries are preferred."},
    {"enabled", T_BOOL, offsetof(FJ_CompiledFunction, enabled), 0, "If False, calls run the function as it was written."},
    {NULL},
};

static PyGetSetDef function_getset[] = {
    {"entries", (getter)function_get_entries, NULL, "The entries as a tuple: those that are preferred, then the others, each most recently used first.", NULL},
    {"upcalls", (getter)function_get_upcalls, (setter)function_set_upcalls,
     "Called as (function, arguments) for a Python function that native code calls at a break: a new CompiledFunction to run such calls, NEVER, "
     "OPAQUE, or None to be asked again later. None: all of them run uncompiled.", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL},
};

PyTypeObject FJ_CompiledFunctionType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framejit._runtime.CompiledFunction",
    .tp_doc = "CompiledFunction(function, compile_callback, rejected_callback=None, ended_callback=None, outermost_callback=None)\n--\n\nA function whose calls run compiled code. "
              "compile_callback(function, arguments) is called where no entry matches the call; arguments are the raw argument slots. It returns "
              "an Entry, None to run this call uncompiled, or NotImplemented to look for an entry once more; what it raises, the call raises. "
              "rejected_callback(function, arguments, entry) is called when none of a few entries made for a call accepts it: the call then "
              "runs uncompiled. Without it that is a RuntimeError. "
              "ended_callback(function, entries) is called when the object goes while it has entries. "
              "outermost_callback() is called when a call begins that doesn't run uncompiled, and is inside no other call, on this thread, of a function "
              "that has such a callback.",
    .tp_basicsize = sizeof(FJ_CompiledFunction),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = function_new,
    .tp_traverse = (traverseproc)function_traverse,
    .tp_clear = (inquiry)function_clear,
    .tp_dealloc = (destructor)function_dealloc,
    .tp_finalize = function_finalize,
    .tp_repr = (reprfunc)function_repr,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(FJ_CompiledFunction, vectorcall),
    .tp_descr_get = function_descr_get,
    .tp_getattro = function_getattro,
    .tp_setattro = function_setattro,
    .tp_dictoffset = offsetof(FJ_CompiledFunction, dict),
    .tp_weaklistoffset = offsetof(FJ_CompiledFunction, weak_references),
    .tp_methods = function_methods,
    .tp_members = function_members,
    .tp_getset = function_getset,
};
