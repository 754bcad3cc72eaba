/* iterators.h: the memory layouts of CPython's builtin iterators, which its public headers don't declare.
 *
 * They are private to Objects/{range,list,tuple,unicode,bytes,dict,enum}object.c and Python/bltinmodule.c. guards/native/iterators.cpp
 * compares what it reads through them with what known iterators give, and refuses to load where they differ.
 */
#ifndef FRAMEJIT_CPYTHON_ITERATORS_H
#define FRAMEJIT_CPYTHON_ITERATORS_H

#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030D0000
#error "the layouts of this version's iterators are not known"
#endif

typedef struct {
    PyObject_HEAD
#if PY_VERSION_HEX < 0x030C0000
    long index; /* from 3.12 on, `start` moves and `length` shrinks instead */
#endif
    long start;
    long step;
    long length;
} FJ_RangeIterator;

/* How many items a range iterator has given of `length`, counted from `start`. */
static inline long FJ_RangeIterator_Given(const FJ_RangeIterator *iterator) {
#if PY_VERSION_HEX < 0x030C0000
    return iterator->index;
#else
    (void)iterator;
    return 0;
#endif
}

/* Iterators of lists (both directions), tuples, strings and bytes. */
typedef struct {
    PyObject_HEAD
    Py_ssize_t index;
    PyObject *sequence; /* NULL once exhausted */
} FJ_SequenceIterator;

/* Iterators of dicts, both directions. */
typedef struct {
    PyObject_HEAD
    PyObject *dict;  /* NULL once exhausted */
    Py_ssize_t used; /* the dict's size when the iterator was made; -1 once it was found changed */
    Py_ssize_t position;
    PyObject *result;
    Py_ssize_t length; /* items left */
} FJ_DictIterator;

typedef struct {
    PyObject_HEAD
    Py_ssize_t index;
    PyObject *iterator;
    PyObject *result;
    PyObject *long_index; /* counts on from PY_SSIZE_T_MAX */
} FJ_Enumerate;

typedef struct {
    PyObject_HEAD
    Py_ssize_t size;
    PyObject *iterators; /* a tuple */
    PyObject *result;
    int strict;
} FJ_Zip;

#endif
