"""Backends, which turn a captured graph into a callable. They see only FX graphs and plain data, never frames.

`framejit.backends.compile.compile_graph` is the stage itself; it is not imported here, so that looking up a backend stays cheap.
"""

from framejit.backends.registry import Backend, list_backends, lookup, register_backend

__all__ = ["Backend", "list_backends", "lookup", "register_backend"]
