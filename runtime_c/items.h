/* items.h: what is done to several references that lie one after another in memory. */
#ifndef FRAMEJIT_ITEMS_H
#define FRAMEJIT_ITEMS_H

#include <Python.h>

/* Lets go of n items; those that are NULL have been taken. */
static inline void FJ_Items_Release(PyObject **items, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_CLEAR(items[i]);
    }
}

/* Moves n items into a new tuple or list of that size, and gives it. `container` may be NULL, with an exception set: the items stay then. */
static inline PyObject *FJ_Items_Take(PyObject *container, PyObject **items, Py_ssize_t n) {
    if (container != NULL) {
        PyObject **places = PyTuple_Check(container) ? ((PyTupleObject *)container)->ob_item : ((PyListObject *)container)->ob_item;
        for (Py_ssize_t i = 0; i < n; i++) {
            places[i] = items[i];
            items[i] = NULL;
        }
    }
    return container;
}

#endif
