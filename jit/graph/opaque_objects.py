"""`FakeOpaque`, the fake of a registered opaque object (`torch._library.opaque_object`), which operators of other libraries take as an argument."""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

from torch import fx
from torch._library.fake_class_registry import FakeScriptObject
from torch._library.opaque_object import FakeOpaqueObject

from framejit.torch_state.opaque_types import name_of_class


class FakeOpaque(FakeScriptObject):
    """The fake of an opaque object, of which a fake implementation can learn the class alone. torch's own fake also answers for items and equality, and keeps
    the object alive for good: torch's dispatcher never frees it.
    """

    def __init__(self, value: Any) -> None:
        fields = {"wrapped_obj": FakeOpaqueObject(), "script_class_name": name_of_class(type(value)), "reference": weakref.ref(value)}
        self.__dict__.update(fields)  # attributes of such an object can't be set

    @property
    def real_obj(self) -> Any:
        """The object, for torch's `isinstance`."""
        return self.reference()

    def __getitem__(self, key: object) -> NoReturn:
        raise TypeError("the fake implementation of an operator asks an opaque object for an item")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def takes_opaque(node: fx.Node) -> bool:
    """Return whether a node's operator takes an opaque object, to which it may do anything."""
    return any(isinstance(used.meta.get("example_value"), FakeOpaque) for used in node.all_input_nodes)
