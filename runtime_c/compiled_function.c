/* compiled_function.c: CompiledFunction as an object: what Python sees of it, and its life from a function to the end of its entries. */
#include "compiled_function.h"

#include <stddef.h>
#include <structmember.h>

#include "cache.h"
#include "call.h"
#include "upcalls.h"

/* ---- its entries ---- */

static PyObject *function_add(FJ_CompiledFunction *self, PyObject *entry) {
    if (!PyObject_TypeCheck(entry, &FJ_EntryType)) {
        return PyErr_Format(PyExc_TypeError, "add: an Entry is needed, not %.100s", Py_TYPE(entry)->tp_name);
    }
    if (FJ_Cache_Add(self, (FJ_Entry *)entry) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *function_remove(FJ_CompiledFunction *self, PyObject *entry) { return PyBool_FromLong(FJ_Cache_Remove(self, entry)); }

static PyObject *function_prefer(FJ_CompiledFunction *self, PyObject *entry) { return PyBool_FromLong(FJ_Cache_Prefer(self, entry)); }

static PyObject *function_clear_entries(FJ_CompiledFunction *self, PyObject *unused) {
    FJ_Cache_Clear(self);
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

/* ---- its life ---- */

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
    self->vectorcall = FJ_Call_Vectorcall;
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
    FJ_Cache_Clear(self);
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
    return attribute != NULL && Py_TYPE(attribute)->tp_descr_set != NULL && PyUnicode_CompareWithASCIIString(name, "__dict__") != 0;
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

static PyTypeObject compiled_function_type = {
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

int FJ_CompiledFunction_Init(PyObject *module) {
    FJ_CompiledFunctionType = &compiled_function_type;
    return PyModule_AddType(module, FJ_CompiledFunctionType);
}
