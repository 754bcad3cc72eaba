"""Look-ups in `sys.modules` by the program. It changes while the program is traced: framejit and torch's kernels import modules then.

    "jax" in sys.modules        # guarded
    "sympy" in sys.modules      # if it isn't there yet: a graph break, since framejit may import it before the trace ends
    len(sys.modules)            # a graph break, as long as stand-ins are there
"""

from __future__ import annotations

import sys
from typing import Any

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.core.object import VM
from framejit.process.when_needed import STAND_INS, is_there

IMPORTED = frozenset(("torch", "torchgen", "functorch", "framejit", "sympy", "mpmath", "z3", "triton", "numpy"))
"""The packages, beside those of the standard library, of which traces import modules."""


def module_found(vm: VM, name: Any, found: Any) -> Any:
    """The module of a name, or MISSING. `found`: what is in `sys.modules` at the moment.

    If the module is missing, and the trace may import it, the graph breaks; once it is there, the next call is compiled without the break.
    """
    if not isinstance(name, str) or is_there(name):
        return found
    package = name.partition(".")[0]
    if package in IMPORTED or package in sys.stdlib_module_names:
        vm.guards.read(is_there, name)
        vm.unsupported(breaks.UnsupportedOperation(f"the look-up of {name} in sys.modules, where it isn't yet: framejit itself may import it"))
    return MISSING


def going_through_modules(vm: VM) -> None:
    """Break the graph at an operation on all of `sys.modules`, if framejit's stand-ins are among them."""
    if STAND_INS:
        vm.unsupported(breaks.UnsupportedOperation("an operation on all of sys.modules, to which framejit itself may add some"))
