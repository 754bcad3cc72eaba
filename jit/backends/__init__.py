"""Backends: from a captured graph to a callable. They see FX graphs and plain data only, never frames.

`framejit.backends.compile.compile_graph` is the stage itself; it is not imported here, so that looking a backend up stays cheap.
"""

from framejit.backends.registry import Backend, list_backends, lookup, register_backend

__all__ = ["Backend", "list_backends", "lookup", "register_backend"]
