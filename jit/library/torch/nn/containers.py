"""nn.ModuleList and nn.Sequential: a loop over one of them backwards (`for layer in reversed(self.layers)`) goes on after a graph break."""

from __future__ import annotations

from torch import nn

from framejit.objects.types.iterobject import HELD_IN

HELD_IN |= {(vars(cls)["__len__"], vars(cls)["__getitem__"]): "_modules" for cls in (nn.ModuleList, nn.Sequential)}
