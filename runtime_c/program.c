/* program.c: the stack machine that builds the result of a call without a frame: its operations, the check of a program, and running it. */
#include "program.h"

#include "cpython/objects.h"
#include "items.h"

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
    X(pop)           /* pop an item */                                                                                                         \
    X(set_constant)  /* load, constant, set_item: pop a value and put it into the dict in a variable, under a constant */

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

/* Follows one operation; the depth of the stack after it, or -1 where it doesn't fit. */
static Py_ssize_t follow(const FJ_Program *program, FJ_Operation operation, Py_ssize_t depth, Py_ssize_t n_captures) {
    Py_ssize_t n = operation.argument;
    if (n < 0) {
        return -1;
    }
    switch (operation.code) {
        case OP_output: return n < program->n_outputs ? depth + 1 : -1;
        case OP_capture: return n < n_captures ? depth + 1 : -1;
        case OP_constant: return n < PyTuple_GET_SIZE(program->constants) ? depth + 1 : -1;
        case OP_copy: return depth >= 1 ? depth + 1 : -1;
        case OP_store: return depth >= 1 ? depth - 1 : -1;
        case OP_load: return n < program->n_variables ? depth + 1 : -1;
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
static int check_program(FJ_Program *program, Py_ssize_t n_captures) {
    for (Py_ssize_t i = 0; i < program->n_operations; i++) {
        FJ_Operation operation = program->operations[i];
        if (operation.code == OP_store && operation.argument == program->n_variables) {
            program->n_variables++; /* they come in order of their first store */
        }
    }
    Py_ssize_t depth = 0, deepest = 0, stored = 0;
    for (Py_ssize_t i = 0; i < program->n_operations; i++) {
        FJ_Operation operation = program->operations[i];
        if (operation.code == OP_store && operation.argument == stored) {
            stored++;
        }
        int unset = (operation.code == OP_store || operation.code == OP_load) && operation.argument >= stored;
        depth = unset ? -1 : follow(program, operation, depth, n_captures);
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
    program->n_places = program->n_variables + deepest;
    return 0;
}

/* Makes one operation of three where a value is put under a constant key into a dict that a variable holds: most of what builds an object's attributes. */
static void fuse(FJ_Program *program) {
    FJ_Operation *operations = program->operations;
    Py_ssize_t n = 0;
    for (Py_ssize_t i = 0; i < program->n_operations; i++) {
        operations[n++] = operations[i];
        FJ_Operation *last = operations + n - 3;
        if (n >= 3 && last[0].code == OP_load && last[1].code == OP_constant && last[2].code == OP_set_item && last[1].argument <= INT_MAX) {
            *last = (FJ_Operation){OP_set_constant, (int)last[1].argument, last[0].argument};
            n -= 2;
        }
    }
    program->n_operations = n;
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

/* Reads pairs of a name and a number into the operations. The number of calls among them, or -1 with an exception set. */
static Py_ssize_t read_operations(FJ_Program *program, PyObject *pairs) {
    Py_ssize_t n_calls = 0;
    for (Py_ssize_t i = 0; i < program->n_operations; i++) {
        PyObject *name, *pair = PyTuple_GET_ITEM(pairs, i);
        FJ_Operation *operation = &program->operations[i];
        if (!PyTuple_Check(pair)) {
            PyErr_SetString(PyExc_TypeError, "Entry: the operations of direct are pairs");
            return -1;
        }
        if (!PyArg_ParseTuple(pair, "Un:operation", &name, &operation->argument)) {
            return -1;
        }
        operation->code = 0;
        while (operation->code < N_OPERATIONS && PyUnicode_CompareWithASCIIString(name, operation_names[operation->code]) != 0) {
            operation->code++;
        }
        n_calls += operation->code == OP_call;
    }
    return n_calls;
}

/* (function, numbers of captures, what gives an error its traceback), or None. */
static int check_recovery(PyObject *recovery, Py_ssize_t n_captures) {
    PyObject *function, *corrected, *captures;
    if (recovery == Py_None) {
        return 0;
    }
    if (!PyTuple_Check(recovery)) {
        PyErr_SetString(PyExc_TypeError, "Entry: the recovery of direct is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(recovery, "OO!O:recovery", &function, &PyTuple_Type, &captures, &corrected)) {
        return -1;
    }
    int right = PyCallable_Check(function) && PyCallable_Check(corrected);
    for (Py_ssize_t i = 0; right && i < PyTuple_GET_SIZE(captures); i++) {
        Py_ssize_t capture = PyLong_AsSsize_t(PyTuple_GET_ITEM(captures, i));
        right = capture >= 0 && capture < n_captures;
    }
    if (!right && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "Entry: the recovery of direct names two callables and captures");
    }
    return right ? 0 : -1;
}

FJ_Program *FJ_Program_New(PyObject *description, PyObject *code, Py_ssize_t n_captures) {
    PyObject *graph, *refuse, *constants, *operations, *calls, *recovery;
    int boxed;
    Py_ssize_t n_outputs;
    if (!PyTuple_Check(description)) {
        PyErr_SetString(PyExc_TypeError, "Entry: direct must be a tuple");
        return NULL;
    }
    if (!PyArg_ParseTuple(description, "OOpnO!O!OO!:direct", &graph, &refuse, &boxed, &n_outputs, &PyTuple_Type, &calls, &PyTuple_Type, &operations,
                          &recovery, &PyTuple_Type, &constants)) {
        return NULL;
    }
    if (!PyCode_Check(code) || (graph != Py_None && !PyCallable_Check(graph)) || (refuse != Py_None && !PyCallable_Check(refuse)) ||
        n_outputs < 0 || (graph == Py_None && n_outputs > 0)) {
        PyErr_SetString(PyExc_ValueError, "Entry: direct goes with code, and names a callable and its outputs");
        return NULL;
    }
    Py_ssize_t n_operations = PyTuple_GET_SIZE(operations);
    FJ_Program *self = PyMem_Calloc(1, sizeof(FJ_Program) + (size_t)n_operations * sizeof(FJ_Operation));
    if (self == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    self->graph = graph == Py_None ? NULL : Py_NewRef(graph);
    self->refuse = refuse == Py_None ? NULL : Py_NewRef(refuse);
    self->boxed = boxed;
    self->calls = Py_NewRef(calls);
    self->n_outputs = n_outputs;
    self->recovery = recovery == Py_None ? NULL : Py_NewRef(recovery);
    self->constants = Py_NewRef(constants);
    self->n_operations = n_operations;
    Py_ssize_t n_calls = read_operations(self, operations);
    n_calls += n_calls < 0 ? 0 : (graph != Py_None) + (self->recovery != NULL ? FJ_CALLS_OF_RECOVERY : 0);
    if (n_calls < 0 || check_recovery(recovery, n_captures) < 0 || check_program(self, n_captures) < 0 || check_calls(calls, code, n_calls) < 0) {
        FJ_Program_Free(self);
        return NULL;
    }
    fuse(self);
    return self;
}

void FJ_Program_Free(FJ_Program *self) {
    if (self != NULL) {
        Py_CLEAR(self->graph);
        Py_CLEAR(self->refuse);
        Py_CLEAR(self->recovery);
        Py_CLEAR(self->constants);
        Py_CLEAR(self->calls);
        PyMem_Free(self);
    }
}

int FJ_Program_Traverse(FJ_Program *self, visitproc visit, void *arg) {
    if (self != NULL) {
        Py_VISIT(self->graph);
        Py_VISIT(self->refuse);
        Py_VISIT(self->recovery);
        Py_VISIT(self->constants);
    }
    return 0;
}

PyObject *FJ_Program_Recover(const FJ_Program *program, PyObject *error, PyObject *const *captures) {
    PyObject *function = PyTuple_GET_ITEM(program->recovery, 0), *numbers = PyTuple_GET_ITEM(program->recovery, 1);
    Py_ssize_t n = PyTuple_GET_SIZE(numbers);
    PyObject *arguments[n + 1], *result = NULL;
    arguments[0] = PyList_New(1);
    if (arguments[0] == NULL) {
        Py_DECREF(error);
        return NULL;
    }
    PyList_SET_ITEM(arguments[0], 0, error); /* the function takes it out, so that nothing else holds it */
    for (Py_ssize_t i = 0; i < n; i++) {
        arguments[i + 1] = captures[PyLong_AsSsize_t(PyTuple_GET_ITEM(numbers, i))];
    }
    result = PyObject_Vectorcall(function, arguments, (size_t)n + 1, NULL);
    Py_DECREF(arguments[0]);
    return result;
}

/* ---- calls ---- */

/* What programs call most: the functions by which objects are made that look as in eager. */
static PyObject *object_new, *object_getattribute, *object_setattr, *ordered_dict_setitem;

static PyObject *attribute_of(PyTypeObject *type, const char *name) { return PyObject_GetAttrString((PyObject *)type, name); }

int FJ_Program_Init(void) {
    object_new = attribute_of(&PyBaseObject_Type, "__new__");
    object_getattribute = attribute_of(&PyBaseObject_Type, "__getattribute__");
    object_setattr = attribute_of(&PyBaseObject_Type, "__setattr__");
    ordered_dict_setitem = attribute_of(&PyODict_Type, "__setitem__");
    return object_new != NULL && object_getattribute != NULL && object_setattr != NULL && ordered_dict_setitem != NULL ? 0 : -1;
}

/* Whether object.__setattr__ may be called for an object: not where the type in C that its class derives from has another (typeobject.c: hackcheck). */
static int may_set(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    while (type != NULL && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
        type = type->tp_base;
    }
    return type != NULL && type->tp_setattro == PyObject_GenericSetAttr;
}

/* Calls a function. What the wrapper of a slot, or of tp_new, would call after making a tuple of the arguments is called at once; the rest of what the
   wrapper does are checks, which are made here first. */
static PyObject *call_function(PyObject *function, PyObject *const *arguments, Py_ssize_t n) {
    if (function == object_getattribute && n == 2 && PyUnicode_CheckExact(arguments[1])) {
        return PyObject_GenericGetAttr(arguments[0], arguments[1]);
    }
    if (function == object_new && n == 1 && PyType_Check(arguments[0]) && ((PyTypeObject *)arguments[0])->tp_new == PyBaseObject_Type.tp_new) {
        PyObject *nothing = PyTuple_New(0), *made = nothing != NULL ? PyBaseObject_Type.tp_new((PyTypeObject *)arguments[0], nothing, NULL) : NULL;
        Py_XDECREF(nothing);
        return made;
    }
    if (function == object_setattr && n == 3 && PyUnicode_CheckExact(arguments[1]) && may_set(arguments[0])) {
        return PyObject_GenericSetAttr(arguments[0], arguments[1], arguments[2]) < 0 ? NULL : Py_NewRef(Py_None);
    }
    if (function == ordered_dict_setitem && n == 3 && PyODict_Check(arguments[0])) {
        return PyODict_Type.tp_as_mapping->mp_ass_subscript(arguments[0], arguments[1], arguments[2]) < 0 ? NULL : Py_NewRef(Py_None);
    }
    return PyObject_Vectorcall(function, arguments, (size_t)n, NULL);
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

/* 0, or -1 with an exception set. */
static inline int set_item(PyObject *dict, PyObject *key, PyObject *value) {
    return (PyDict_CheckExact(dict) ? PyDict_SetItem : PyObject_SetItem)(dict, key, value);
}

/* Runs the program over `places`, all NULL at first. *call counts the calls that have returned. */
static PyObject *run_operations(const FJ_Program *program, PyObject *const *outputs, PyObject *const *captures, PyObject **places, Py_ssize_t *call) {
    PyObject **variables = places, **top = places + program->n_variables; /* after the last item */
    const FJ_Operation *end = program->operations + program->n_operations;
    for (const FJ_Operation *operation = program->operations; operation < end; operation++) {
        Py_ssize_t n = operation->argument;
        PyObject *made;
        switch (operation->code) {
            case OP_output: *top++ = Py_NewRef(outputs[n]); continue;
            case OP_capture: *top++ = Py_NewRef(captures[n]); continue;
            case OP_constant: *top++ = Py_NewRef(PyTuple_GET_ITEM(program->constants, n)); continue;
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
                FJ_Items_Release(top, 2);
                continue;
            case OP_tuple:
                made = FJ_Items_Take(PyTuple_New(n), top - n, n);
                top -= n;
                break;
            case OP_list:
                made = FJ_Items_Take(PyList_New(n), top - n, n);
                top -= n;
                break;
            case OP_dict:
                made = dict_of(top - 2 * n, n);
                top -= 2 * n;
                FJ_Items_Release(top, 2 * n);
                break;
            case OP_list_to_tuple:
                top--;
                made = PyList_AsTuple(*top);
                Py_CLEAR(*top);
                break;
            case OP_call:
                made = call_function(top[-n - 1], top - n, n);
                *call += made != NULL;
                top -= n + 1;
                FJ_Items_Release(top, n + 1);
                break;
            case OP_set_item:
                if (set_item(top[-2], top[-1], top[-3]) < 0) return NULL;
                top -= 3;
                FJ_Items_Release(top, 3);
                continue;
            case OP_set_constant:
                if (set_item(variables[n], PyTuple_GET_ITEM(program->constants, operation->key), top[-1]) < 0) return NULL;
                top--;
                Py_CLEAR(*top);
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

PyObject *FJ_Program_Run(const FJ_Program *program, PyObject *const *outputs, PyObject *const *captures, Py_ssize_t *call) {
    enum { ON_STACK = 32 };
    PyObject *few[ON_STACK];
    PyObject **places = few;
    if (program->n_places > ON_STACK) {
        places = PyMem_New(PyObject *, program->n_places);
        if (places == NULL) {
            return PyErr_NoMemory();
        }
    }
    memset(places, 0, (size_t)program->n_places * sizeof(PyObject *));
    PyObject *result = run_operations(program, outputs, captures, places, call);
    FJ_Items_Release(places, program->n_places);
    if (places != few) {
        PyMem_Free(places);
    }
    return result;
}
