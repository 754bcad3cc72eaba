/* py314.c: frames of CPython 3.14, which are laid out as stackref_frames.h says. */
#include <patchlevel.h>

#if PY_VERSION_HEX < 0x030E0000 || PY_VERSION_HEX >= 0x030F0000
#error "py314.c describes the frames of CPython 3.14 only"
#endif

#include "stackref_frames.h"
