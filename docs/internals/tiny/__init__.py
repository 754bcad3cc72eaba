"""A tiny tracing JIT for PyTorch that mirrors framejit, layer by layer: ../tiny.md walks through it."""

from .driver import Compiled as compile

__all__ = ["compile"]
