/* thread.h: what a thread knows of its calls of compiled functions, and how far its C stack reaches. */
#ifndef FRAMEJIT_THREAD_H
#define FRAMEJIT_THREAD_H

#include "cpython/frame.h"
#include "entry.h"

typedef struct FJ_PendingCall FJ_PendingCall; /* call.h */

/* A stretch of native code in which the user's functions that it calls are compiled. Both references are owned; neither, or both are NULL. */
typedef struct {
    PyObject *upcalls;
    FJ_Entry *entry; /* whose step it is, or whose frame that runs uncompiled */
} FJ_NativeSection;

typedef struct {
    FJ_PendingCall *pending;
    FJ_NativeSection section; /* the hook is up as long as there is one */
    int depth;        /* frames that the hook has passed on, on top of one another */
    FJ_Frame *forwarded; /* the frame that is being handed to the previous hook */
    char *stack_floor;   /* below it the C stack is nearly used up; NULL until asked for */
    int disabled;
    int compiling;
    int checking; /* a call checker is at work: calls run unchecked */
    int announced; /* calls that are running of functions with an `outermost_callback` */
    int eager;    /* FJ_EAGER, FJ_NOT_EAGER, or as the process says */
} FJ_ThreadState;

enum { FJ_EAGER_UNSET, FJ_EAGER, FJ_NOT_EAGER };

extern _Thread_local FJ_ThreadState FJ_thread;

char *FJ_Thread_FindStackFloor(void);

/* The bytes that are left of the C stack, negative where it is nearly used up. */
static inline Py_ssize_t FJ_Thread_StackLeft(FJ_ThreadState *thread) {
    if (thread->stack_floor == NULL) {
        thread->stack_floor = FJ_Thread_FindStackFloor();
    }
    return (char *)__builtin_frame_address(0) - thread->stack_floor;
}

/* Calls between Python functions take no C stack, ours do: a recursion limit raised for the former must not crash the latter. */
static inline int FJ_Thread_IsStackLow(FJ_ThreadState *thread) { return FJ_Thread_StackLeft(thread) < 0; }

#endif
