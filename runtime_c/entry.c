/* entry.c: Entry, one compiled version of a function: matching it against a call, and what its guard tree has captured. */
#include "entry.h"

#include <stddef.h>
#include <structmember.h>

#include "guards.h"

PyTypeObject *FJ_CompiledFunctionType;

/* `step` and `resumes` come together, and the latter are CompiledFunctions of one argument. */
static int check_step(PyObject *step, PyObject *resumes) {
    if (step == Py_None && (resumes == NULL || PyTuple_GET_SIZE(resumes) == 0)) {
        return 0;
    }
    if (!PyCallable_Check(step) || resumes == NULL) {
        PyErr_SetString(PyExc_TypeError, "Entry: step must be a callable, and come with resumes");
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(resumes); i++) {
        if (!PyObject_TypeCheck(PyTuple_GET_ITEM(resumes, i), FJ_CompiledFunctionType)) {
            PyErr_SetString(PyExc_TypeError, "Entry: resumes must be CompiledFunctions");
            return -1;
        }
    }
    return 0;
}

static PyObject *entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *keywords[] = {"code", "tree", "n_inputs", "spec", "step", "resumes", "direct", "compiles_upcalls", "outcome", "upcalls", NULL};
    PyObject *code, *tree, *spec = Py_None, *step = Py_None, *resumes = NULL, *direct = Py_None, *outcome = Py_None, *upcalls = Py_None;
    Py_ssize_t n_inputs;
    int compiles_upcalls = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!n|OOO!O$pOO:Entry", keywords, &code, FJ_GuardTreeType, &tree, &n_inputs, &spec, &step,
                                     &PyTuple_Type, &resumes, &direct, &compiles_upcalls, &outcome, &upcalls) ||
        check_step(step, resumes) < 0) {
        return NULL;
    }
    if (code != Py_None && !PyCode_Check(code)) {
        return PyErr_Format(PyExc_TypeError, "Entry: code must be a code object or None, not %.100s", Py_TYPE(code)->tp_name);
    }
    if (outcome != Py_None && !PyCallable_Check(outcome)) {
        PyErr_SetString(PyExc_TypeError, "Entry: outcome must be a callable");
        return NULL;
    }
    if (upcalls != Py_None && !PyCallable_Check(upcalls)) {
        PyErr_SetString(PyExc_TypeError, "Entry: upcalls must be a callable");
        return NULL;
    }
    Py_ssize_t n_captures = FJ_GuardTree_NumCaptures(tree);
    if (n_inputs < 0 || n_inputs > n_captures) {
        return PyErr_Format(PyExc_ValueError, "Entry: n_inputs is %zd, but the guard tree has %zd captures", n_inputs, n_captures);
    }
    FJ_Entry *self = (FJ_Entry *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->code = Py_NewRef(code);
    self->tree = Py_NewRef(tree);
    self->spec = Py_NewRef(spec);
    self->step = step == Py_None ? NULL : Py_NewRef(step);
    self->resumes = Py_XNewRef(resumes);
    self->n_inputs = n_inputs;
    self->n_captures = n_captures;
    self->compiles_upcalls = (char)compiles_upcalls;
    self->outcome = outcome == Py_None ? NULL : Py_NewRef(outcome);
    self->upcalls = upcalls == Py_None ? NULL : Py_NewRef(upcalls);
    if (direct != Py_None) {
        self->program = FJ_Program_New(direct, code, n_captures - n_inputs);
        if (self->program == NULL) {
            Py_CLEAR(self);
        }
    }
    return (PyObject *)self;
}

/* Code objects take no part in garbage collection, but the constants of ours hold graphs, and they may hold whatever a backend likes: the
   module's class, and with it this very entry. Who is the only owner of a code object therefore answers for its constants. */
static int visit_constants(PyObject *code, visitproc visit, void *arg) {
    if (code != NULL && PyCode_Check(code) && Py_REFCNT(code) == 1) {
        Py_VISIT(((PyCodeObject *)code)->co_consts);
    }
    return 0;
}

static int entry_traverse(FJ_Entry *self, visitproc visit, void *arg) {
    int stopped = visit_constants(self->code, visit, arg);
    stopped = stopped ? stopped : visit_constants(self->flat_code, visit, arg);
    if (stopped) {
        return stopped;
    }
    Py_VISIT(self->code);
    Py_VISIT(self->tree);
    Py_VISIT(self->spec);
    Py_VISIT(self->step);
    Py_VISIT(self->resumes);
    Py_VISIT(self->outcome);
    Py_VISIT(self->upcalls);
    Py_VISIT(self->flat_code);
    return FJ_Program_Traverse(self->program, visit, arg);
}

static int entry_clear(FJ_Entry *self) {
    Py_CLEAR(self->spec); /* the rest stays valid for whoever still runs the entry */
    Py_CLEAR(self->step);
    Py_CLEAR(self->resumes);
    Py_CLEAR(self->outcome);
    Py_CLEAR(self->upcalls);
    return 0;
}

static void entry_dealloc(FJ_Entry *self) {
    PyObject_GC_UnTrack(self);
    if (self->weak_references != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    Py_CLEAR(self->code);
    Py_CLEAR(self->tree);
    Py_CLEAR(self->spec);
    Py_CLEAR(self->step);
    Py_CLEAR(self->resumes);
    Py_CLEAR(self->outcome);
    Py_CLEAR(self->upcalls);
    Py_CLEAR(self->flat_code);
    FJ_Program_Free(self->program);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *entry_repr(FJ_Entry *self) {
    return PyUnicode_FromFormat("<framejit entry of %S: %zd inputs, %zd other captures, %zd hits>",
                                self->code == Py_None ? Py_None : ((PyCodeObject *)self->code)->co_qualname, self->n_inputs,
                                self->n_captures - self->n_inputs, self->hits);
}

static PyObject *entry_get_direct(FJ_Entry *self, void *closure) { return PyBool_FromLong(self->program != NULL); }

static PyGetSetDef entry_getset[] = {
    {"direct", (getter)entry_get_direct, NULL, "Whether calls need no frame, and so run without one where nobody watches frames.", NULL},
    {NULL},
};

static PyMemberDef entry_members[] = {
    {"code", T_OBJECT, offsetof(FJ_Entry, code), READONLY, "The code that runs in the frame's place, or None to run the frame uncompiled."},
    {"tree", T_OBJECT, offsetof(FJ_Entry, tree), READONLY, "The guard tree that decides whether the entry fits a call."},
    {"spec", T_OBJECT, offsetof(FJ_Entry, spec), READONLY, "What the entry was made of, but for its code (framejit.compiler.entry_spec)."},
    {"step", T_OBJECT, offsetof(FJ_Entry, step), READONLY, "What goes on with the value that the code returns, or None."},
    {"resumes", T_OBJECT, offsetof(FJ_Entry, resumes), READONLY, "The CompiledFunctions of which `step` chooses one, or None."},
    {"compiles_upcalls", T_BOOL, offsetof(FJ_Entry, compiles_upcalls), READONLY, "Without code: whether what native code calls while the frame runs may be compiled."},
    {"outcome", T_OBJECT, offsetof(FJ_Entry, outcome), READONLY, "What looks at how each frame without code has ended, or at what leaves the code; or None."},
    {"upcalls", T_OBJECT, offsetof(FJ_Entry, upcalls), READONLY, "Of an entry that serves one call only: what decides how functions run that its frame calls; or None."},
    {"n_inputs", T_PYSSIZET, offsetof(FJ_Entry, n_inputs), READONLY, "How many of the tree's captures are graph inputs."},
    {"hits", T_PYSSIZET, offsetof(FJ_Entry, hits), READONLY, "How often the entry has run."},
    {"direct_hits", T_PYSSIZET, offsetof(FJ_Entry, direct_hits), READONLY, "How often it has run without a frame."},
    {NULL},
};

PyTypeObject FJ_EntryType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framejit._runtime.Entry",
    .tp_doc = "Entry(code, tree, n_inputs, spec=None, step=None, resumes=(), direct=None, *, compiles_upcalls=False, outcome=None, upcalls=None)\n--\n\n"
              "One compiled version of a function: `code` runs where `tree` matches the call. The first n_inputs captures of the tree arrive in a "
              "list, the others in a tuple, in the two slots after the arguments. "
              "With `step` the code runs a call's first part: step(what it returns) gives (choice, state), and resumes[choice](state) is the rest. "
              "`outcome` is called when a frame without code has ended, and when an exception leaves the code: outcome(compiled function, the "
              "exception or None, entry). "
              "With `upcalls` the entry serves only the call that it was made for; upcalls(function, arguments) tells how a function called there runs. "
              "`direct` says how to get the result of `code` without a frame: (graph or None, what raises for wrong outputs or None, whether the "
              "graph takes one list, number of outputs, offsets in the code of its calls, operations, recovery, constants). `recovery`: None, or (function, "
              "numbers of captures, corrected): if the graph raises, the call gives function([the exception], *those captures), and what that raises is "
              "passed on as corrected(exception).",
    .tp_basicsize = sizeof(FJ_Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = entry_new,
    .tp_traverse = (traverseproc)entry_traverse,
    .tp_clear = (inquiry)entry_clear,
    .tp_dealloc = (destructor)entry_dealloc,
    .tp_repr = (reprfunc)entry_repr,
    .tp_weaklistoffset = offsetof(FJ_Entry, weak_references),
    .tp_members = entry_members,
    .tp_getset = entry_getset,
};

/* From the last to the first, as a tuple of them is freed where the entry runs in a frame. */
void FJ_Captured_Release(FJ_Captured *captured, FJ_Entry *entry, Py_ssize_t first) {
    for (Py_ssize_t i = entry->n_captures - 1; i >= first; i--) {
        Py_CLEAR(captured->values[i]);
    }
    if (captured->values != captured->few + 1) {
        PyMem_Free(captured->values - 1);
    }
}

int FJ_Captured_HandOver(FJ_Captured *captured, FJ_Entry *entry, PyObject **inputs, PyObject **captures) {
    PyObject **values = captured->values;
    *inputs = PyList_New(entry->n_inputs);
    *captures = *inputs != NULL ? PyTuple_New(entry->n_captures - entry->n_inputs) : NULL;
    if (*captures == NULL) {
        Py_CLEAR(*inputs);
    } else {
        for (Py_ssize_t i = 0; i < entry->n_captures; i++) {
            if (i < entry->n_inputs) {
                PyList_SET_ITEM(*inputs, i, values[i]);
            } else {
                PyTuple_SET_ITEM(*captures, i - entry->n_inputs, values[i]);
            }
            values[i] = NULL;
        }
    }
    FJ_Captured_Release(captured, entry, *captures != NULL ? entry->n_captures : 0);
    return *captures != NULL ? 0 : -1;
}

int FJ_Entry_Match(FJ_Entry *entry, PyObject *const *locals, Py_ssize_t n_locals, PyObject *function, FJ_Captured *captured) {
    captured->values = captured->few + 1;
    if ((size_t)entry->n_captures >= sizeof(captured->few) / sizeof(PyObject *)) {
        PyObject **many = PyMem_New(PyObject *, entry->n_captures + 1);
        if (many == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        captured->values = many + 1;
    }
    int result = FJ_GuardTree_Match(entry->tree, locals, n_locals, function, captured->values);
    if (result != 1 && captured->values != captured->few + 1) {
        PyMem_Free(captured->values - 1);
    }
    return result;
}

/* `code` with every slot a plain positional parameter, so that an ordinary call can fill them all. */
static PyObject *flatten(PyObject *code, Py_ssize_t n_arguments) {
    PyObject *replace = PyObject_GetAttrString(code, "replace");
    PyObject *nothing = PyTuple_New(0);
    PyObject *changes = Py_BuildValue("{s:n,s:i,s:i,s:i}", "co_argcount", n_arguments + 2, "co_posonlyargcount", 0, "co_kwonlyargcount", 0,
                                      "co_flags", ((PyCodeObject *)code)->co_flags & ~(CO_VARARGS | CO_VARKEYWORDS));
    PyObject *flat = replace != NULL && nothing != NULL && changes != NULL ? PyObject_Call(replace, nothing, changes) : NULL;
    Py_XDECREF(replace);
    Py_XDECREF(nothing);
    Py_XDECREF(changes);
    return flat;
}

static PyObject *flat_function(FJ_Entry *entry, PyObject *function, Py_ssize_t n_arguments) {
    if (entry->flat_code == NULL) {
        entry->flat_code = flatten(entry->code, n_arguments);
        if (entry->flat_code == NULL) {
            return NULL;
        }
    }
    PyObject *flat = PyFunction_NewWithQualName(entry->flat_code, PyFunction_GET_GLOBALS(function), ((PyFunctionObject *)function)->func_qualname);
    if (flat != NULL && ((PyCodeObject *)entry->flat_code)->co_nfreevars > 0 && PyFunction_SetClosure(flat, PyFunction_GET_CLOSURE(function)) < 0) {
        Py_CLEAR(flat);
    }
    return flat;
}

PyObject *FJ_Entry_CallFlat(FJ_Entry *entry, PyObject *function, Py_ssize_t n_arguments, PyObject *inputs, PyObject *captures) {
    PyObject *flat = flat_function(entry, function, n_arguments);
    PyObject **args = flat != NULL ? PyMem_New(PyObject *, n_arguments + 2) : NULL;
    PyObject *result = NULL;
    if (args != NULL) {
        for (Py_ssize_t i = 0; i < n_arguments; i++) {
            args[i] = Py_None;
        }
        args[n_arguments] = inputs;
        args[n_arguments + 1] = captures;
        result = PyObject_Vectorcall(flat, args, (size_t)n_arguments + 2, NULL);
        PyMem_Free(args);
    } else if (flat != NULL) {
        PyErr_NoMemory();
    }
    Py_XDECREF(flat);
    Py_DECREF(inputs);
    Py_DECREF(captures);
    return result;
}
