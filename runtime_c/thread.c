/* thread.c: the state of each thread, and the end of its C stack. */
#include <Python.h> /* first: it asks the C library for pthread_getattr_np */

#include <pthread.h>

#include "thread.h"

_Thread_local FJ_ThreadState FJ_thread;

/* With a reserve above the very end for what is called from there. */
char *FJ_Thread_FindStackFloor(void) {
    enum { RESERVE = 512 * 1024 };
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return (char *)1;
    }
    pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_destroy(&attributes);
    return (char *)lowest + (size / 4 < RESERVE ? size / 4 : RESERVE);
}
