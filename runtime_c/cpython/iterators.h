/* iterators.h: the memory layouts of CPython's builtin iterators, which its public headers don't declare.
 *
 * They are private to Objects/{range,list,tuple,unicode,bytes,dict,enum,iter}object.c, Python/bltinmodule.c and Modules/itertoolsmodule.c.
 * guards/native/iterators.cpp and iterator_fields.cpp compare what they read through them with what known iterators give and hold, and refuse
 * to load where they differ.
 */
#ifndef FRAMEJIT_CPYTHON_ITERATORS_H
#define FRAMEJIT_CPYTHON_ITERATORS_H

#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x03100000
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

/* Iterators of OrderedDicts, both directions (Objects/odictobject.c: odictiterobject). */
typedef struct {
    PyObject_HEAD
    int kind;
    PyObject *ordered; /* NULL once exhausted */
} FJ_OrderedIterator;

/* Views of dicts and OrderedDicts (Objects/dictobject.c: _PyDictViewObject). */
typedef struct {
    PyObject_HEAD
    PyObject *dict;
} FJ_DictView;

/* Iterators whose whole state is a few fields, all of them words behind the head. `which`: the word's number, counted from 0. */
typedef enum {
    FJ_OBJECT, /* NULL where there is none any more */
    FJ_SIZE,   /* Py_ssize_t or long */
    FJ_INT,
    FJ_COUNT,    /* a Py_ssize_t, and from PY_SSIZE_T_MAX on the int object that is three words further */
    FJ_ITERATORS /* a tuple in which NULL stands for an iterator that has ended; programs of framejit's see None there */
} FJ_FieldKind;

typedef struct {
    const char *name; /* the type's name, a dot, and the field's as CPython's sources have it */
    FJ_FieldKind kind;
    int which;
} FJ_IteratorField;

static const FJ_IteratorField FJ_IteratorFields[] = {
    {"enumerate.count", FJ_COUNT, 0}, {"enumerate.it", FJ_OBJECT, 1},
    {"zip.ittuple", FJ_OBJECT, 1}, {"zip.strict", FJ_INT, 3},
    {"map.iters", FJ_OBJECT, 0}, {"map.func", FJ_OBJECT, 1},
#if PY_VERSION_HEX >= 0x030E0000
    {"map.strict", FJ_INT, 2},
#endif
    {"filter.func", FJ_OBJECT, 0}, {"filter.it", FJ_OBJECT, 1},
    {"callable_iterator.callable", FJ_OBJECT, 0}, {"callable_iterator.sentinel", FJ_OBJECT, 1},
    {"iterator.index", FJ_SIZE, 0}, {"iterator.seq", FJ_OBJECT, 1},
    {"accumulate.total", FJ_OBJECT, 0}, {"accumulate.it", FJ_OBJECT, 1}, {"accumulate.binop", FJ_OBJECT, 2}, {"accumulate.initial", FJ_OBJECT, 3},
#if PY_VERSION_HEX >= 0x030C0000
    {"batched.it", FJ_OBJECT, 0}, {"batched.batch_size", FJ_SIZE, 1},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    {"batched.strict", FJ_INT, 2},
#endif
    {"chain.source", FJ_OBJECT, 0}, {"chain.active", FJ_OBJECT, 1},
    {"compress.data", FJ_OBJECT, 0}, {"compress.selectors", FJ_OBJECT, 1},
    {"count.cnt", FJ_SIZE, 0}, {"count.long_cnt", FJ_OBJECT, 1}, {"count.long_step", FJ_OBJECT, 2},
    {"cycle.it", FJ_OBJECT, 0}, {"cycle.saved", FJ_OBJECT, 1}, {"cycle.index", FJ_SIZE, 2},
#if PY_VERSION_HEX < 0x030E0000
    {"cycle.firstpass", FJ_INT, 3},
#endif
    {"dropwhile.func", FJ_OBJECT, 0}, {"dropwhile.it", FJ_OBJECT, 1}, {"dropwhile.start", FJ_SIZE, 2},
    {"filterfalse.func", FJ_OBJECT, 0}, {"filterfalse.it", FJ_OBJECT, 1},
    {"islice.it", FJ_OBJECT, 0}, {"islice.next", FJ_SIZE, 1}, {"islice.stop", FJ_SIZE, 2}, {"islice.step", FJ_SIZE, 3}, {"islice.cnt", FJ_SIZE, 4},
    {"pairwise.it", FJ_OBJECT, 0}, {"pairwise.old", FJ_OBJECT, 1},
    {"repeat.element", FJ_OBJECT, 0}, {"repeat.cnt", FJ_SIZE, 1},
    {"starmap.func", FJ_OBJECT, 0}, {"starmap.it", FJ_OBJECT, 1},
    {"takewhile.func", FJ_OBJECT, 0}, {"takewhile.it", FJ_OBJECT, 1}, {"takewhile.stop", FJ_SIZE, 2},
    {"zip_longest.numactive", FJ_SIZE, 1}, {"zip_longest.ittuple", FJ_ITERATORS, 2}, {"zip_longest.fillvalue", FJ_OBJECT, 4},
};

/* The index of an itertools.cycle that goes through its iterable for the first time. */
#if PY_VERSION_HEX >= 0x030E0000
enum { FJ_CYCLE_START = -1 };
#else
enum { FJ_CYCLE_START = 0 };
#endif

#endif
