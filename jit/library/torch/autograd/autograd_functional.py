"""torch.autograd.functional: stand-ins in Python, traced in place of functions that ask autograd for the records of the program's function."""

from __future__ import annotations

from torch.autograd import functional

from framejit.objects.core.registry import app
from framejit.plain import autograd_functional as plain

app(functional.vjp)(plain.vjp)
app(functional.jvp)(plain.jvp)
app(functional.vhp)(plain.vhp)
app(functional.hvp)(plain.hvp)
app(functional.jacobian)(plain.jacobian)
app(functional.hessian)(plain.hessian)
