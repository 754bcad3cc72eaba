/* versions.h: words of memory that tell whether a dict or a type has changed.
 *
 * A dict's word has another value after each change of its keys or values, one that no dict has had before: the same value means the same
 * dict, holding the same objects ever since. A type's word has another value after each change of the type or a base, or 0. The words
 * live at least as long as the dict or type does. A Python that keeps no such word of dicts keeps them in a file of its own (dict watchers).
 */
#ifndef FRAMEJIT_CPYTHON_VERSIONS_H
#define FRAMEJIT_CPYTHON_VERSIONS_H

#include <Python.h>

#if PY_VERSION_HEX >= 0x030E0000
#error "dicts of this Python have no version: keep one for each dict that is asked for, by a dict watcher"
#endif

/* Objects/dictobject.c: DICT_NEXT_VERSION. 3.12 deprecates it, without a replacement that sees as much; it is gone in 3.14. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static inline const uint64_t *FJ_Dict_VersionWord(PyObject *dict) { return &((PyDictObject *)dict)->ma_version_tag; }
#pragma GCC diagnostic pop

static inline uint64_t FJ_Dict_Version(PyObject *dict) { return *FJ_Dict_VersionWord(dict); }

/* Objects/typeobject.c: assign_version_tag. */
static inline const unsigned int *FJ_Type_VersionWord(PyTypeObject *type) { return &type->tp_version_tag; }

/* 0 where the type has none, and nothing would tell of a change: it is given one, if there are any left. */
static inline unsigned int FJ_Type_Version(PyTypeObject *type) {
#if PY_VERSION_HEX < 0x030C0000
    static PyObject *name;
    if (!PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) && (name != NULL || (name = PyUnicode_InternFromString("__name__")) != NULL)) {
        _PyType_Lookup(type, name);
    }
    return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? *FJ_Type_VersionWord(type) : 0;
#else
    return PyUnstable_Type_AssignVersionTag(type) ? *FJ_Type_VersionWord(type) : 0;
#endif
}

#endif
