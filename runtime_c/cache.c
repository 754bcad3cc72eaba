/* cache.c: the entries of a CompiledFunction: those that are preferred, then the others, each most recently used first. */
#include "cache.h"

#include "arguments.h"
#include "switches.h"

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

FJ_Entry *FJ_Cache_Find(FJ_CompiledFunction *self, PyObject *function, PyObject *const *locals, Py_ssize_t n_locals,
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

void FJ_Cache_Clear(FJ_CompiledFunction *self) {
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

void FJ_Cache_CheckCode(FJ_CompiledFunction *self) {
    PyObject *code = PyFunction_GET_CODE(self->function);
    if (self->code != code) {
        Py_XSETREF(self->code, Py_NewRef(code));
        FJ_Cache_Clear(self);
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

int FJ_Cache_Add(FJ_CompiledFunction *self, FJ_Entry *entry) {
    FJ_Cache_CheckCode(self);
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

int FJ_Cache_Remove(FJ_CompiledFunction *self, PyObject *entry) {
    for (Py_ssize_t i = 0; i < self->n_entries; i++) {
        if ((PyObject *)self->entries[i] == entry) {
            self->n_entries--;
            self->n_preferred -= i < self->n_preferred;
            self->n_direct -= self->entries[i]->program != NULL;
            self->version++;
            memmove(self->entries + i, self->entries + i + 1, (size_t)(self->n_entries - i) * sizeof(FJ_Entry *));
            Py_DECREF(entry);
            return 1;
        }
    }
    return 0;
}

int FJ_Cache_Prefer(FJ_CompiledFunction *self, PyObject *entry) {
    for (Py_ssize_t i = 0; i < self->n_entries; i++) {
        if ((PyObject *)self->entries[i] == entry) {
            if (i >= self->n_preferred) {
                move_forward(self, i);
                self->n_preferred++;
            }
            return 1;
        }
    }
    return 0;
}
