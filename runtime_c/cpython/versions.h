/* versions.h: words of memory that tell whether a dict or a type has changed.
 *
 * A dict's word has another value after each change of its keys or values, one that no dict has had before: the same value means the same
 * dict, holding the same objects ever since. A type's word has another value after each change of the type or a base, or 0.
 *
 * A type's word lives as long as the type does. A dict's is its version tag up to 3.13, and lives as long as the dict. 3.14 has no such tag;
 * there, versions.c keeps a word for each dict that is asked for, and the word can be read even when the dict is gone.
 */
#ifndef FRAMEJIT_CPYTHON_VERSIONS_H
#define FRAMEJIT_CPYTHON_VERSIONS_H

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A dict's word, until the dict changes: afterwards it may have another. NULL where nothing would tell of a change. */
#if PY_VERSION_HEX < 0x030D0000
/* Objects/dictobject.c: DICT_NEXT_VERSION. 3.12 deprecates it, without a replacement that sees as much. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static inline const uint64_t *FJ_Dict_VersionWord(PyObject *dict) { return &((PyDictObject *)dict)->ma_version_tag; }
#pragma GCC diagnostic pop
#else
const uint64_t *FJ_Dict_VersionWord(PyObject *dict);
#endif

/* What the word says; 0 where there is none. */
static inline uint64_t FJ_Dict_Version(PyObject *dict) {
    const uint64_t *word = FJ_Dict_VersionWord(dict);
    return word != NULL ? *word : 0;
}

/* Objects/typeobject.c: assign_version_tag. */
static inline const unsigned int *FJ_Type_VersionWord(PyTypeObject *type) { return &type->tp_version_tag; }

/* 0 where the type has no version, and nothing would tell of a change: it is given one, if there are any left. */
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

#ifdef __cplusplus
}
#endif

#endif
