/* versions.c: the words that versions.h promises for dicts, for Pythons whose dicts don't have them. */
#define Py_BUILD_CORE
#include <Python.h>
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_dict.h>
#endif
#undef Py_BUILD_CORE

#include "versions.h"

#if PY_VERSION_HEX >= 0x030D0000 && PY_VERSION_HEX < 0x030E0000

/* A store to an attribute leaves the tag of a dict alone that shares the values inside its object (Objects/dictobject.c:
   store_instance_attr_lock_held). FJ_Object_DictSlot makes such a dict have its own. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
const uint64_t *FJ_Dict_VersionWord(PyObject *dict) {
    PyDictObject *self = (PyDictObject *)dict;
    return self->ma_values != NULL && self->ma_values->embedded ? NULL : &self->ma_version_tag;
}
#pragma GCC diagnostic pop

#elif PY_VERSION_HEX >= 0x030E0000

/* One dict watcher tells of the changes of all dicts that have a word. It is called before each change, and gives the word a number that no
   word has had. A dict that nobody has asked for since its last change is watched no longer, and its slot goes to another dict. Guard trees may
   read any word that they have ever been given: slots are never given back to the allocator. All of it is guarded by the GIL. */
typedef struct Slot {
    uint64_t word;
    PyObject *dict;    /* borrowed: its end is an event, too */
    struct Slot *next; /* of a free slot */
    int asked;         /* for its word, since the dict last changed */
} Slot;

static uint64_t last_number; /* 64 bits are never used up */
static Slot *free_slots;
static Slot **table; /* open addressing by the dict's address; NULL: an empty place */
static size_t table_size, n_watched;
static int watcher = -1;
static enum { UNTRIED, OPEN, CLOSED } state;
static PyInterpreterState *interpreter; /* whose watcher it is */

static size_t first_place(PyObject *dict) {
    return (size_t)(((uint64_t)(uintptr_t)dict * 0x9E3779B97F4A7C15u) >> 32) & (table_size - 1);
}

/* The place of a dict's slot, or the empty one where it belongs. */
static Slot **place_of(PyObject *dict) {
    size_t i = first_place(dict);
    while (table[i] != NULL && table[i]->dict != dict) {
        i = (i + 1) & (table_size - 1);
    }
    return &table[i];
}

/* Makes the table twice as large, unless it is less than half full. False: out of memory. */
static int make_room(void) {
    if (2 * (n_watched + 1) <= table_size) {
        return 1;
    }
    size_t old_size = table_size;
    Slot **old = table, **larger = calloc(old_size == 0 ? 256 : 2 * old_size, sizeof(Slot *));
    if (larger == NULL) {
        return 0;
    }
    table = larger;
    table_size = old_size == 0 ? 256 : 2 * old_size;
    for (size_t i = 0; i < old_size; i++) {
        if (old[i] != NULL) {
            *place_of(old[i]->dict) = old[i];
        }
    }
    free(old);
    return 1;
}

static Slot *new_slot(void) {
    enum { AT_ONCE = 128 };
    if (free_slots == NULL) {
        Slot *slots = calloc(AT_ONCE, sizeof(Slot));
        for (size_t i = 0; slots != NULL && i < AT_ONCE; i++) {
            slots[i].next = free_slots;
            free_slots = &slots[i];
        }
    }
    Slot *slot = free_slots;
    if (slot != NULL) {
        free_slots = slot->next;
        slot->word = ++last_number;
    }
    return slot;
}

static void free_slot(Slot *slot) {
    slot->dict = NULL;
    slot->next = free_slots;
    free_slots = slot;
}

/* Empties a place, and moves up those behind it that would no longer be found. */
static void empty(Slot **place) {
    size_t gap = (size_t)(place - table), mask = table_size - 1;
    for (size_t i = (gap + 1) & mask; table[i] != NULL; i = (i + 1) & mask) {
        if (((i - first_place(table[i]->dict)) & mask) >= ((i - gap) & mask)) {
            table[gap] = table[i];
            gap = i;
        }
    }
    table[gap] = NULL;
    n_watched--;
}

static void unwatch(PyObject *dict) {
    if (PyDict_Unwatch(watcher, dict) < 0) {
        PyErr_Clear();
    }
}

static int before_change(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value) {
    Slot **place = table_size > 0 ? place_of(dict) : NULL;
    if (place == NULL || *place == NULL) {
        return 0;
    }
    Slot *slot = *place;
    slot->word = ++last_number;
    if (event == PyDict_EVENT_DEALLOCATED || !slot->asked) {
        empty(place);
        free_slot(slot);
        unwatch(dict);
    }
    slot->asked = 0;
    return 0;
}

/* Gives the watcher back. No word will tell of a change any more: each says at once that its dict has changed. */
static void give_back(void *unused) {
    state = CLOSED;
    for (size_t i = 0; i < table_size; i++) {
        if (table[i] != NULL) {
            table[i]->word = ++last_number;
            unwatch(table[i]->dict);
        }
    }
    if (PyDict_ClearWatcher(watcher) < 0) {
        PyErr_Clear();
    }
}

/* There are eight watchers in all, for all tools: where none is free, dicts have no words. */
static int open_watcher(void) {
    state = CLOSED;
    watcher = PyDict_AddWatcher(before_change);
    if (watcher < 0) {
        PyErr_Clear();
        return 0;
    }
    interpreter = PyInterpreterState_Get();
    if (PyUnstable_AtExit(interpreter, give_back, NULL) < 0) {
        PyErr_Clear();
        give_back(NULL);
        return 0;
    }
    state = OPEN;
    return 1;
}

static const uint64_t *watch(PyObject *dict) {
    if (!make_room()) {
        return NULL;
    }
    Slot *slot = new_slot();
    if (slot == NULL) {
        return NULL;
    }
    if (PyDict_Watch(watcher, dict) < 0) {
        PyErr_Clear();
        free_slot(slot);
        return NULL;
    }
    slot->dict = dict;
    slot->asked = 1;
    *place_of(dict) = slot;
    n_watched++;
    return &slot->word;
}

const uint64_t *FJ_Dict_VersionWord(PyObject *dict) {
    if (state != OPEN && (state == CLOSED || !open_watcher())) {
        return NULL;
    }
    Slot *slot = table_size > 0 ? *place_of(dict) : NULL;
    if (slot != NULL) {
        slot->asked = 1;
        return &slot->word;
    }
    return PyInterpreterState_Get() == interpreter ? watch(dict) : NULL;
}

#endif
