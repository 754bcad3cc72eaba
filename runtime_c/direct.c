/* direct.c: calls that need no frame: binds the arguments, calls the graph and builds what it returns, without running any bytecode. */
#include <Python.h>

#include "cpython/objects.h"
#include "guards.h"
#include "runtime.h"

/* ---- the program that builds a call's result ---- */

#define OPERATIONS(X)                                                                                                                          \
    X(output)        /* push an output of the graph */                                                                                         \
    X(capture)       /* push a captured value that is no graph input */                                                                        \
    X(constant)      /* push a constant */                                                                                                     \
    X(copy)          /* push the top of the stack once more */                                                                                 \
    X(store)         /* pop into a variable */                                                                                                 \
    X(load)          /* push a variable */                                                                                                     \
    X(tuple)         /* pop n items, push a tuple of them */                                                                                   \
    X(list)          /* pop n items, push a list of them */                                                                                    \
    X(dict)          /* pop n keys and values, push a dict of them */                                                                          \
    X(append)        /* pop an item and append it to the list below */                                                                         \
    X(insert)        /* pop a key and a value and put them into the dict below */                                                              \
    X(list_to_tuple) /* pop a list, push a tuple of its items */                                                                              \
    X(call)          /* pop n arguments and a function below them, push what it returns */                                                     \
    X(set_item)      /* pop a value, a dict and a key, and put the value into the dict */                                                      \
    X(pop)           /* pop an item */

typedef enum {
#define NAME(name) OP_##name,
    OPERATIONS(NAME)
#undef NAME
        N_OPERATIONS
} OperationCode;

static const char *const operation_names[] = {
#define TEXT(name) #name,
    OPERATIONS(TEXT)
#undef TEXT
};

typedef struct {
    OperationCode code;
    Py_ssize_t argument;
} Operation;

struct FJ_Direct {
    PyObject *graph;  /* or NULL: nothing is called */
    PyObject *refuse; /* or NULL; raises for what the graph has returned */
    int boxed;        /* it takes one list, which it may empty */
    PyObject *calls;  /* a tuple: the offsets in the entry's code of its calls, the graph's first */
    Py_ssize_t n_outputs;
    PyObject *constants; /* a tuple */
    Py_ssize_t n_variables;
    Py_ssize_t n_places; /* variables and the deepest stack */
    Py_ssize_t n_operations;
    Operation operations[];
};

/* Follows one operation; the depth of the stack behind it, or -1 where it doesn't fit. */
static Py_ssize_t follow(const FJ_Direct *direct, Operation operation, Py_ssize_t depth, Py_ssize_t n_captures) {
    Py_ssize_t n = operation.argument;
    if (n < 0) {
        return -1;
    }
    switch (operation.code) {
        case OP_output: return n < direct->n_outputs ? depth + 1 : -1;
        case OP_capture: return n < n_captures ? depth + 1 : -1;
        case OP_constant: return n < PyTuple_GET_SIZE(direct->constants) ? depth + 1 : -1;
        case OP_copy: return depth >= 1 ? depth + 1 : -1;
        case OP_store: return depth >= 1 ? depth - 1 : -1;
        case OP_load: return n < direct->n_variables ? depth + 1 : -1;
        case OP_tuple:
        case OP_list: return n <= depth ? depth - n + 1 : -1;
        case OP_dict: return n <= depth / 2 ? depth - 2 * n + 1 : -1;
        case OP_append: return depth >= 2 ? depth - 1 : -1;
        case OP_insert: return depth >= 3 ? depth - 2 : -1;
        case OP_list_to_tuple: return depth >= 1 ? depth : -1;
        case OP_call: return n < depth ? depth - n : -1;
        case OP_set_item: return depth >= 3 ? depth - 3 : -1;
        case OP_pop: return depth >= 1 ? depth - 1 : -1;
        default: return -1;
    }
}

/* Checks the program once, so that running it needs no checks, and finds how much room it takes. Items have the types that their
   operations need by construction: the translator in jit/codegen/direct.py makes them so. */
static int check_program(FJ_Direct *direct, Py_ssize_t n_captures) {
    for (Py_ssize_t i = 0; i < direct->n_operations; i++) {
        Operation operation = direct->operations[i];
        if (operation.code == OP_store && operation.argument == direct->n_variables) {
            direct->n_variables++; /* they come in order of their first store */
        }
    }
    Py_ssize_t depth = 0, deepest = 0, stored = 0;
    for (Py_ssize_t i = 0; i < direct->n_operations; i++) {
        Operation operation = direct->operations[i];
        if (operation.code == OP_store && operation.argument == stored) {
            stored++;
        }
        int unset = (operation.code == OP_store || operation.code == OP_load) && operation.argument >= stored;
        depth = unset ? -1 : follow(direct, operation, depth, n_captures);
        if (depth < 0) {
            PyErr_Format(PyExc_ValueError, "Entry: operation %zd of its direct program doesn't fit", i);
            return -1;
        }
        deepest = depth > deepest ? depth : deepest;
    }
    if (depth != 1) {
        PyErr_Format(PyExc_ValueError, "Entry: its direct program leaves %zd values", depth);
        return -1;
    }
    direct->n_places = direct->n_variables + deepest;
    return 0;
}

/* Offsets of instructions of the code, one for each call. */
static int check_calls(PyObject *calls, PyObject *code, Py_ssize_t n_calls) {
    int right = PyTuple_GET_SIZE(calls) == n_calls;
    for (Py_ssize_t i = 0; right && i < n_calls; i++) {
        Py_ssize_t offset = PyLong_AsSsize_t(PyTuple_GET_ITEM(calls, i));
        right = offset >= 0 && offset < FJ_Code_Size(code);
    }
    if (!right && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "Entry: direct names the place in the code of each call");
    }
    return right ? 0 : -1;
}

FJ_Direct *FJ_Direct_New(PyObject *description, PyObject *code, Py_ssize_t n_captures) {
    PyObject *graph, *refuse, *constants, *operations, *calls;
    int boxed;
    Py_ssize_t n_outputs;
    if (!PyTuple_Check(description)) {
        PyErr_SetString(PyExc_TypeError, "Entry: direct must be a tuple");
        return NULL;
    }
    if (!PyArg_ParseTuple(description, "OOpnO!O!O!:direct", &graph, &refuse, &boxed, &n_outputs, &PyTuple_Type, &calls, &PyTuple_Type, &operations,
                          &PyTuple_Type, &constants)) {
        return NULL;
    }
    if (!PyCode_Check(code) || (graph != Py_None && !PyCallable_Check(graph)) || (refuse != Py_None && !PyCallable_Check(refuse)) ||
        n_outputs < 0 || (graph == Py_None && n_outputs > 0)) {
        PyErr_SetString(PyExc_ValueError, "Entry: direct goes with code, and names a callable and its outputs");
        return NULL;
    }
    Py_ssize_t n_operations = PyTuple_GET_SIZE(operations);
    FJ_Direct *self = PyMem_Calloc(1, sizeof(FJ_Direct) + (size_t)n_operations * sizeof(Operation));
    if (self == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    self->graph = graph == Py_None ? NULL : Py_NewRef(graph);
    self->refuse = refuse == Py_None ? NULL : Py_NewRef(refuse);
    self->boxed = boxed;
    self->calls = Py_NewRef(calls);
    self->n_outputs = n_outputs;
    self->constants = Py_NewRef(constants);
    self->n_operations = n_operations;
    Py_ssize_t n_calls = graph != Py_None;
    for (Py_ssize_t i = 0; i < n_operations; i++) {
        PyObject *name, *pair = PyTuple_GET_ITEM(operations, i);
        Operation *operation = &self->operations[i];
        if (!PyTuple_Check(pair)) {
            PyErr_SetString(PyExc_TypeError, "Entry: the operations of direct are pairs");
        }
        if (PyErr_Occurred() || !PyArg_ParseTuple(pair, "Un:operation", &name, &operation->argument)) {
            FJ_Direct_Free(self);
            return NULL;
        }
        operation->code = 0;
        while (operation->code < N_OPERATIONS && !_PyUnicode_EqualToASCIIString(name, operation_names[operation->code])) {
            operation->code++;
        }
        n_calls += operation->code == OP_call;
    }
    if (check_program(self, n_captures) < 0 || check_calls(calls, code, n_calls) < 0) {
        FJ_Direct_Free(self);
        return NULL;
    }
    return self;
}

void FJ_Direct_Free(FJ_Direct *self) {
    if (self != NULL) {
        Py_CLEAR(self->graph);
        Py_CLEAR(self->refuse);
        Py_CLEAR(self->constants);
        Py_CLEAR(self->calls);
        PyMem_Free(self);
    }
}

int FJ_Direct_Traverse(FJ_Direct *self, visitproc visit, void *arg) {
    if (self != NULL) {
        Py_VISIT(self->graph);
        Py_VISIT(self->refuse);
        Py_VISIT(self->constants);
    }
    return 0;
}

/* Takes n items from the stack into a new tuple or list. */
static PyObject *take(PyObject *container, PyObject **items, Py_ssize_t n) {
    if (container != NULL) {
        PyObject **places = PyTuple_Check(container) ? ((PyTupleObject *)container)->ob_item : ((PyListObject *)container)->ob_item;
        for (Py_ssize_t i = 0; i < n; i++) {
            places[i] = items[i];
            items[i] = NULL;
        }
    }
    return container;
}

static PyObject *dict_of(PyObject **items, Py_ssize_t n) {
    PyObject *dict = PyDict_New();
    for (Py_ssize_t i = 0; dict != NULL && i < n; i++) {
        if (PyDict_SetItem(dict, items[2 * i], items[2 * i + 1]) < 0) {
            Py_CLEAR(dict);
        }
    }
    return dict;
}

static void release(PyObject **items, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_CLEAR(items[i]);
    }
}

/* Runs the program over `places`, all NULL at first. *call counts the calls that have returned. */
static PyObject *run_program(const FJ_Direct *direct, PyObject *const *outputs, PyObject *const *captures, PyObject **places, Py_ssize_t *call) {
    PyObject **variables = places, **top = places + direct->n_variables; /* after the last item */
    const Operation *end = direct->operations + direct->n_operations;
    for (const Operation *operation = direct->operations; operation < end; operation++) {
        Py_ssize_t n = operation->argument;
        PyObject *made;
        switch (operation->code) {
            case OP_output: *top++ = Py_NewRef(outputs[n]); continue;
            case OP_capture: *top++ = Py_NewRef(captures[n]); continue;
            case OP_constant: *top++ = Py_NewRef(PyTuple_GET_ITEM(direct->constants, n)); continue;
            case OP_load: *top++ = Py_NewRef(variables[n]); continue;
            case OP_copy:
                *top = Py_NewRef(top[-1]);
                top++;
                continue;
            case OP_store:
                top--;
                Py_XSETREF(variables[n], *top);
                *top = NULL;
                continue;
            case OP_append:
                if (PyList_Append(top[-2], top[-1]) < 0) return NULL;
                top--;
                Py_CLEAR(*top);
                continue;
            case OP_insert:
                if (PyDict_SetItem(top[-3], top[-2], top[-1]) < 0) return NULL;
                top -= 2;
                release(top, 2);
                continue;
            case OP_tuple:
                made = take(PyTuple_New(n), top - n, n);
                top -= n;
                break;
            case OP_list:
                made = take(PyList_New(n), top - n, n);
                top -= n;
                break;
            case OP_dict:
                made = dict_of(top - 2 * n, n);
                top -= 2 * n;
                release(top, 2 * n);
                break;
            case OP_list_to_tuple:
                top--;
                made = PyList_AsTuple(*top);
                Py_CLEAR(*top);
                break;
            case OP_call:
                made = PyObject_Vectorcall(top[-n - 1], top - n, (size_t)n, NULL);
                *call += made != NULL;
                top -= n + 1;
                release(top, n + 1);
                break;
            case OP_set_item:
                if (PyObject_SetItem(top[-2], top[-1], top[-3]) < 0) return NULL;
                top -= 3;
                release(top, 3);
                continue;
            case OP_pop:
                top--;
                Py_CLEAR(*top);
                continue;
            default: Py_UNREACHABLE();
        }
        if (made == NULL) {
            return NULL;
        }
        *top++ = made;
    }
    return Py_NewRef(top[-1]);
}

static PyObject *build(const FJ_Direct *direct, PyObject *const *outputs, PyObject *const *captures, Py_ssize_t *call) {
    enum { ON_STACK = 32 };
    PyObject *few[ON_STACK];
    PyObject **places = few;
    if (direct->n_places > ON_STACK) {
        places = PyMem_New(PyObject *, direct->n_places);
        if (places == NULL) {
            return PyErr_NoMemory();
        }
    }
    memset(places, 0, (size_t)direct->n_places * sizeof(PyObject *));
    PyObject *result = run_program(direct, outputs, captures, places, call);
    release(places, direct->n_places);
    if (places != few) {
        PyMem_Free(places);
    }
    return result;
}

/* ---- the call of the graph ---- */

/* What the graph returned as a tuple or list of all outputs, as UNPACK_SEQUENCE takes it. Steals the reference. */
static PyObject *unpack(const FJ_Direct *direct, PyObject *returned) {
    Py_ssize_t n = direct->n_outputs;
    if (direct->refuse != NULL && !((PyTuple_Check(returned) || PyList_Check(returned)) && PySequence_Size(returned) == n)) {
        PyObject *refused = PyErr_Occurred() ? NULL : PyObject_CallOneArg(direct->refuse, returned);
        if (refused != NULL) {
            PyErr_SetString(PyExc_SystemError, "framejit: wrong outputs were not refused");
            Py_DECREF(refused);
        }
        Py_DECREF(returned);
        return NULL;
    }
    if (n == 0) {
        return returned;
    }
    if (!PyTuple_CheckExact(returned) && !(PyList_CheckExact(returned) && direct->n_operations == 1)) {
        /* A copy: whoever holds a list could change it while the result is being built. */
        Py_SETREF(returned, PySequence_Tuple(returned));
    }
    if (returned != NULL && PySequence_Fast_GET_SIZE(returned) != n) {
        Py_ssize_t got = PySequence_Fast_GET_SIZE(returned);
        if (got < n) {
            PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %zd, got %zd)", n, got);
        } else {
            PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %zd)", n);
        }
        Py_CLEAR(returned);
    }
    return returned;
}

/* Calls the graph with the values, which are gone afterwards; those of a boxed one are in a list that it may empty. */
static PyObject *call_graph(const FJ_Direct *direct, PyObject **values, Py_ssize_t n_inputs) {
    PyObject *graph = direct->graph, *returned = NULL;
    if (direct->boxed) {
        PyObject *inputs = take(PyList_New(n_inputs), values, n_inputs);
        if (inputs != NULL) {
            returned = PyObject_CallOneArg(graph, inputs);
            Py_DECREF(inputs);
        }
    } else {
        returned = PyObject_Vectorcall(graph, values, (size_t)n_inputs | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    release(values, n_inputs);
    return returned;
}

/* Runs an entry over what its walk has captured. */
static PyObject *run(PyThreadState *tstate, FJ_Entry *entry, PyObject *function, FJ_Captured *captured) {
    const FJ_Direct *direct = entry->direct;
    PyObject **values = captured->values;
    PyObject *returned = NULL, *result = NULL;
    entry->hits++;
    entry->direct_hits++;
    int failed = 0;
    if (direct->graph != NULL) {
        FJ_Recursion_EnterFrame(tstate);
        FJ_NativeSection section = FJ_NativeSection_Interrupt();
        returned = call_graph(direct, values, entry->n_inputs);
        FJ_NativeSection_Restore(section);
        if (returned != NULL) {
            returned = unpack(direct, returned);
        }
        FJ_Recursion_LeaveFrame(tstate);
        failed = returned == NULL;
    } else {
        failed = PyErr_CheckSignals() < 0; /* as every frame does at its start */
    }
    Py_ssize_t call = 0; /* the number of the one that is being made, or has been */
    if (!failed) {
        call = direct->graph != NULL;
        PyObject **outputs = returned != NULL && direct->n_outputs > 0 ? PySequence_Fast_ITEMS(returned) : NULL;
        result = build(direct, outputs, values + entry->n_inputs, &call);
    }
    Py_XDECREF(returned);
    if (result == NULL) {
        Py_ssize_t n_calls = PyTuple_GET_SIZE(direct->calls), last = call < n_calls ? call : n_calls - 1;
        int offset = last < 0 ? 0 : (int)PyLong_AsLong(PyTuple_GET_ITEM(direct->calls, last));
        FJ_Traceback_Add(tstate, (PyCodeObject *)entry->code, PyFunction_GET_GLOBALS(function), offset);
    }
    return result;
}

/* ---- arguments ---- */

enum { MOST_SLOTS = 32 };

/* A call's arguments in the slots that its frame would have them in: new references. */
typedef struct {
    Py_ssize_t n;
    PyObject *slots[MOST_SLOTS];
} Arguments;

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

/* Binds a call's arguments as _PyEval_Vector does (Python/ceval.c: initialize_locals). 0: leave it to CPython, which says what is wrong. */
static int bind(PyFunctionObject *function, PyCodeObject *code, PyObject *const *args, Py_ssize_t n_args, PyObject *names, Arguments *arguments) {
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

/* ---- the call ---- */

/* Whether CPython would do no more with a call of the function than bind its arguments and run its frame. */
static int is_plain(FJ_CompiledFunction *self, PyFunctionObject *function) {
    PyCodeObject *code = (PyCodeObject *)function->func_code;
    return self->code == (PyObject *)code && FJ_Function_IsPlain(function) && (code->co_flags & CO_OPTIMIZED);
}

int FJ_Direct_Call(PyThreadState *tstate, FJ_CompiledFunction *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names, PyObject **state,
                   FJ_Match *match, PyObject **result, FJ_Entry **split) {
    PyFunctionObject *function = (PyFunctionObject *)self->function;
    PyCodeObject *code = (PyCodeObject *)function->func_code;
    Arguments arguments; /* not cleared: that would take longer than binding them */
    arguments.n = FJ_Code_CountArguments(code);
    if (!is_plain(self, function) || arguments.n > MOST_SLOTS || FJ_Frame_IsMonitored(tstate) || !FJ_Recursion_HasRoom(tstate)) {
        return 0;
    }
    if (!bind(function, code, args, n_args, names, &arguments)) {
        PyErr_Clear();
        release(arguments.slots, arguments.n);
        return 0;
    }
    Py_INCREF(function);
    FJ_Captured captured;
    FJ_Entry *entry = FJ_CompiledFunction_Find(self, (PyObject *)function, arguments.slots, arguments.n, &captured);
    release(arguments.slots, arguments.n);
    match->searched = 1;
    match->version = self->version;
    int done = 1;
    *result = NULL;
    if (entry == NULL) {
        done = PyErr_Occurred() != NULL;
    } else if (entry->direct != NULL) {
        if (state != NULL) {
            Py_CLEAR(*state);
        }
        *result = FJ_Entry_Ended(self, entry, run(tstate, entry, (PyObject *)function, &captured));
        *split = entry->step != NULL ? (FJ_Entry *)Py_NewRef(entry) : NULL;
        FJ_Captured_Release(&captured, entry);
        Py_DECREF(entry);
    } else if (FJ_Captured_HandOver(&captured, entry, &match->inputs, &match->captures) < 0) {
        Py_DECREF(entry);
    } else {
        match->entry = entry;
        done = 0;
    }
    Py_DECREF(function);
    return done;
}
