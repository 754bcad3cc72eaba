/* hook.h: the PEP 523 hook, which is up for a call on its way to its frame, and in native sections. */
#ifndef FRAMEJIT_HOOK_H
#define FRAMEJIT_HOOK_H

#include "thread.h"

/* Once, before all else here: what the hook runs frames with. */
void FJ_Hook_Init(_PyFrameEvalFunction evaluator);

/* The hook belongs to the whole interpreter, so it is counted: it is up from the first Up to the last Down of all threads. */
void FJ_Hook_Up(PyInterpreterState *interpreter);
void FJ_Hook_Down(PyInterpreterState *interpreter);
int FJ_Hook_IsNeeded(void);

/* Takes the hook down, whoever needs it, unless another tool has put its own over it. */
void FJ_Hook_Leave(PyInterpreterState *interpreter);

int FJ_Hook_IsInstalled(void);

/* Hands a frame that stays as it is to the hook that was installed before ours. That hook may have been installed over ours earlier, and hand
   the frame back: it is the thread's `forwarded` one then. */
PyObject *FJ_Hook_RunUncompiled(PyThreadState *tstate, FJ_Frame *frame, int throwflag);

/* An entry in whose native sections so many frames in a row were not worth compiling opens no more of them. */
enum { FJ_MOST_FRUITLESS = 100000 };

/* Begins a native section, or with NULL interrupts one: steals the references, and gives those of the one before, which is to be restored. */
FJ_NativeSection FJ_NativeSection_Begin(PyObject *upcalls, FJ_Entry *entry);

/* Begins the native section that an entry's step opens, or an entry's frame that runs uncompiled. It is not opened where `upcalls` is NULL, nor
   where that has long come to nothing: then native code is to be as fast as it is without a hook. */
FJ_NativeSection FJ_NativeSection_BeginFor(FJ_Entry *entry, PyObject *upcalls);

static inline FJ_NativeSection FJ_NativeSection_Interrupt(void) {
    return FJ_thread.section.upcalls != NULL ? FJ_NativeSection_Begin(NULL, NULL) : (FJ_NativeSection){NULL, NULL};
}

static inline void FJ_NativeSection_Restore(FJ_NativeSection before) {
    if (before.upcalls != NULL || FJ_thread.section.upcalls != NULL) {
        FJ_NativeSection ended = FJ_NativeSection_Begin(before.upcalls, before.entry);
        Py_XDECREF(ended.upcalls);
        Py_XDECREF(ended.entry);
    }
}

#endif
