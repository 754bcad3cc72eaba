"""torch's registry of classes of opaque objects, which operators of other libraries take. In torch 2.15 it has other names; the old ones warn there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._library import opaque_object

OpaqueBase: type = getattr(opaque_object, "CustomClassBase", None) or opaque_object.OpaqueBase
"""The base of classes that can be registered."""
is_registered: Callable[[type], bool] = getattr(opaque_object, "is_custom_class", None) or opaque_object.is_opaque_type
"""Return whether a class, or a base of it, is registered."""
is_of_constants: Callable[[type], bool] = getattr(opaque_object, "is_opaque_constant_type", None) or opaque_object.is_opaque_value_type
"""Return whether a class is registered as one of values, which are constants, and not as one of references."""
name_of_class: Callable[[type], Any] = opaque_object.get_opaque_type_name
"""The name of a registered class in schemas."""
