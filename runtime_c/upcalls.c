/* upcalls.c: upcalls, which are calls of the program's Python functions by native code that runs at a graph break. What is known of a
   function is recorded on its code object: whether it is ever compiled, and the CompiledFunctions that stand for it, one for each
   decider (`upcalls` in cache.h) that has met it. */
#include "upcalls.h"

#include "arguments.h"
#include "callbacks.h"

/* Lives as long as the code object. The CompiledFunctions are borrowed: each takes itself out of the list before it goes. */
struct FJ_CodeRecord {
    FJ_CompiledFunction *compiled;
    unsigned interval; /* after how many calls the decider is asked once more whether the function is worth compiling */
    unsigned wait;     /* how many of them are left */
    int kind;          /* 0, FJ_CODE_NEVER or FJ_CODE_OPAQUE */
};

static Py_ssize_t extra_index = -1;

static void free_record(void *extra) {
    FJ_CodeRecord *record = extra;
    if (record == NULL) { /* the code object has extras of another tool only */
        return;
    }
    for (FJ_CompiledFunction *compiled = record->compiled; compiled != NULL; compiled = compiled->next_of_code) {
        compiled->record = NULL;
    }
    PyMem_Free(record);
}

int FJ_Upcalls_Init(void) {
    if (extra_index < 0) {
        extra_index = FJ_CodeExtra_Index(free_record);
        if (extra_index < 0) {
            PyErr_SetString(PyExc_RuntimeError, "framejit: other tools have taken all places for extra data of code objects");
            return -1;
        }
    }
    return 0;
}

static FJ_CodeRecord *record_of(PyObject *code) {
    FJ_CodeRecord *record = FJ_CodeExtra_Get(code, extra_index);
    if (record == NULL) {
        record = PyMem_Calloc(1, sizeof(FJ_CodeRecord));
        if (record == NULL) {
            PyErr_NoMemory();
        } else if (FJ_CodeExtra_Set(code, extra_index, record) < 0) {
            PyMem_Free(record);
            record = NULL;
        }
    }
    return record;
}

int FJ_Upcalls_MarkCode(PyObject *code, int kind) {
    FJ_CodeRecord *record = record_of(code);
    if (record == NULL) {
        return -1;
    }
    record->kind = kind;
    return 0;
}

static void link_to_code(FJ_CodeRecord *record, FJ_CompiledFunction *compiled) {
    compiled->record = record;
    compiled->next_of_code = record->compiled;
    record->compiled = compiled;
}

void FJ_Upcalls_Unlink(FJ_CompiledFunction *compiled) {
    if (compiled->record == NULL) {
        return;
    }
    FJ_CompiledFunction **place = &compiled->record->compiled;
    while (*place != compiled) {
        place = &(*place)->next_of_code;
    }
    *place = compiled->next_of_code;
    compiled->record = NULL;
}

/* The CompiledFunction that a decider has made for functions of this code. Functions that share their code may have different globals. */
static FJ_CompiledFunction *find(FJ_CodeRecord *record, PyObject *upcalls, PyObject *function) {
    for (FJ_CompiledFunction *compiled = record->compiled; compiled != NULL; compiled = compiled->next_of_code) {
        PyFunctionObject *known = (PyFunctionObject *)compiled->function;
        if (compiled->upcalls == upcalls && known != NULL && known->func_globals == PyFunction_GET_GLOBALS(function) &&
            known->func_builtins == ((PyFunctionObject *)function)->func_builtins) {
            return compiled;
        }
    }
    return NULL;
}

/* Not worth it this time: the next questions come after 1, 2, 4 ... calls. */
static void ask_later(FJ_CodeRecord *record) {
    enum { LONGEST = 4096 };
    record->interval = record->interval == 0 ? 1 : record->interval < LONGEST ? record->interval * 2 : LONGEST;
    record->wait = record->interval;
}

/* Takes what a decider answers. */
static int accept_answer(PyObject *code, PyObject *answer, FJ_CompiledFunction **target) {
    FJ_CodeRecord *record = record_of(code);
    if (record == NULL) {
        return -1;
    }
    if (answer == Py_None) {
        ask_later(record);
        return FJ_CODE_NEVER;
    }
    if (PyLong_Check(answer)) {
        record->kind = (int)PyLong_AsLong(answer) == FJ_CODE_OPAQUE ? FJ_CODE_OPAQUE : FJ_CODE_NEVER;
        return record->kind;
    }
    if (!PyObject_TypeCheck(answer, FJ_CompiledFunctionType) || ((FJ_CompiledFunction *)answer)->record != NULL) {
        PyErr_Format(PyExc_TypeError, "framejit: upcalls must answer with a new CompiledFunction, NEVER, OPAQUE or None, not %.100s",
                     Py_TYPE(answer)->tp_name);
        return -1;
    }
    link_to_code(record, (FJ_CompiledFunction *)answer);
    *target = (FJ_CompiledFunction *)Py_NewRef(answer);
    return FJ_CODE_COMPILED;
}

/* What a decider says of a function that is called, as FJ_Upcalls_Decide. Not inlined: nothing of it is to stay on the C stack while the frame runs. */
__attribute__((noinline)) static int ask(PyObject *upcalls, FJ_Frame *frame, FJ_CompiledFunction **target) {
    PyCodeObject *code = FJ_Frame_Code(frame);
    Py_ssize_t n = FJ_Arguments_Count(code);
    PyObject *room[n + 1];
    PyObject *arguments = FJ_Arguments_Tuple(FJ_Frame_Arguments(frame, n, room), n);
    PyObject *answer = arguments != NULL ? FJ_Callback_Call(upcalls, FJ_Frame_Function(frame), arguments, NULL) : NULL;
    Py_XDECREF(arguments);
    int kind = answer != NULL ? accept_answer((PyObject *)code, answer, target) : -1;
    Py_XDECREF(answer);
    return kind;
}

int FJ_Upcalls_Decide(PyObject *upcalls, FJ_Frame *frame, FJ_CompiledFunction **target) {
    enum { OF_A_FUNCTION = CO_OPTIMIZED | CO_NEWLOCALS };
    PyObject *code = (PyObject *)FJ_Frame_Code(frame);
    if ((((PyCodeObject *)code)->co_flags & OF_A_FUNCTION) != OF_A_FUNCTION) { /* a module's or a class's body */
        return FJ_CODE_NEVER;
    }
    FJ_CodeRecord *record = FJ_CodeExtra_Get(code, extra_index);
    if (record != NULL) {
        if (record->kind != 0) {
            return record->kind;
        }
        *target = find(record, upcalls, FJ_Frame_Function(frame));
        if (*target != NULL) {
            Py_INCREF(*target);
            return FJ_CODE_COMPILED;
        }
        if (record->wait > 0) {
            record->wait--;
            return FJ_CODE_NEVER;
        }
    }
    return FJ_Frame_IsReplaceable(frame) ? ask(upcalls, frame, target) : FJ_CODE_NEVER;
}
