/* py315.c: frames of CPython 3.15, which are laid out as stackref_frames.h says. */
#include <patchlevel.h>

#if PY_VERSION_HEX < 0x030F0000 || PY_VERSION_HEX >= 0x03100000
#error "py315.c describes the frames of CPython 3.15 only"
#endif

#include "stackref_frames.h"
