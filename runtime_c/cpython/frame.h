/* frame.h: what the runtime needs of one CPython version's frames; pyXYZ.c implements it for version X.YZ, and refuses others. frame.c has what
   several versions have in common. */
#ifndef FRAMEJIT_FRAME_H
#define FRAMEJIT_FRAME_H

#include <Python.h>

typedef struct _PyInterpreterFrame FJ_Frame;

/* Borrowed references to parts of a frame. */
PyCodeObject *FJ_Frame_Code(FJ_Frame *frame);
PyObject *FJ_Frame_Function(FJ_Frame *frame);

/* The first n slots of the local variables, as borrowed references; NULL where a slot is empty. Where the frame keeps something else in them, they
   are copied to `room`, which has a place for each. */
PyObject *const *FJ_Frame_Arguments(FJ_Frame *frame, Py_ssize_t n, PyObject **room);

/* Empties the first n slots. */
void FJ_Frame_ReleaseArguments(FJ_Frame *frame, Py_ssize_t n);

/* True for a function's own frame at its very start: owned by the thread, and neither a generator's nor a coroutine's. */
int FJ_Frame_IsReplaceable(FJ_Frame *frame);

/* Runs `code` in place of the frame's own code. The first n_arguments slots are released; slot n_arguments gets `inputs` and the one
   after it `captures` (both references are stolen). The frame is cleaned up as if its own code had run.
   Returns -1 with nothing changed when the new code doesn't fit behind the frame; 0 otherwise, with the outcome in *result. */
int FJ_Frame_RunInPlace(PyThreadState *tstate, FJ_Frame *frame, PyCodeObject *code, Py_ssize_t n_arguments, PyObject *inputs, PyObject *captures,
                        PyObject **result);

/* Cleans up a frame that will not run, leaving the current exception, if any, as it is. The hook returns its own result afterwards. */
void FJ_Frame_Abandon(PyThreadState *tstate, FJ_Frame *frame);

/* Around a call of a function through CompiledFunction: such a call must count towards the recursion limit exactly as the
   Python-to-Python call that it stands for. Leave takes back what Enter has given. stack_left: the bytes that are left of the C stack. */
int FJ_Recursion_Enter(PyThreadState *tstate, Py_ssize_t stack_left);
void FJ_Recursion_Leave(PyThreadState *tstate, int given);

/* Around what stands for a Python function's frame and has none. HasRoom: false at the limit, where a frame would raise. */
int FJ_Recursion_HasRoom(PyThreadState *tstate);
void FJ_Recursion_EnterFrame(PyThreadState *tstate);
void FJ_Recursion_LeaveFrame(PyThreadState *tstate);

/* Room for so many more frames than the recursion limit leaves; a negative number takes it back. */
void FJ_Recursion_AddRoom(PyThreadState *tstate, int frames);

/* Whether a tracer, a profiler or a monitoring tool would be told of a frame that runs. */
int FJ_Frame_IsMonitored(PyThreadState *tstate);

/* A frame that stands at the instruction at an offset of a code without free variables, whose cells f_locals would look into. */
PyFrameObject *FJ_Frame_Stopped(PyCodeObject *code, PyObject *globals, int offset);

/* Puts a frame of the code, which has no cells, in front of the traceback of the current exception, as if the instruction at that
   offset in the code had raised it. */
void FJ_Traceback_Add(PyThreadState *tstate, PyCodeObject *code, PyObject *globals, int offset);

/* Lets go of the local variables of a frame that has been run, unless something else holds the frame. */
void FJ_Frame_Release(FJ_Frame *frame);

/* Extra data of code objects. Index: a place for ours, or -1; `release` is called with it when the code object goes. */
Py_ssize_t FJ_CodeExtra_Index(freefunc release);
void *FJ_CodeExtra_Get(PyObject *code, Py_ssize_t index);
int FJ_CodeExtra_Set(PyObject *code, Py_ssize_t index, void *extra);

/* Makes what this version's functions above need once. 0, or -1 with an exception set. */
int FJ_Frame_Init(void);

#endif
