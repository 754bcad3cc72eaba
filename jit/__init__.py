"""framejit: a bytecode-level tracing JIT for Python programs that use PyTorch."""

import sys

from framejit import environment
from framejit.build_check import check_build
from framejit.process import collector

try:
    check_build()
except ImportError as error:
    asked = environment.asked(sys.argv, sys.orig_argv)
    if not asked:
        raise
    print(environment.version() if asked == "--version" else environment.report(str(error)))
    sys.exit(0 if asked == "--version" else 1)

with collector.off():
    from framejit.backends.registry import list_backends, register_backend
    from framejit.driver.beside import wait_until_compiled
    from framejit.errors import (
        ArtifactError,
        BackendError,
        BadArgument,
        ConfigError,
        ConstraintViolation,
        FramejitError,
        InternalError,
        NotPrecompiled,
        RecompileError,
        UnknownBackend,
        UnknownLog,
        UnknownMode,
        UnknownOperator,
        UnknownOption,
        Unsupported,
    )
    from framejit.logs import set_logs
    from framejit.report import statistics
    from framejit.said.functions import allow_in_graph, assume_constant_result, disallow_in_graph, substitute_in_graph
    from framejit.said.stance import set_stance
    from framejit.user.api import compile, is_compiling, reset
    from framejit.user.callbacks import on_compile
    from framejit.user.eager_operators import compile_eager_operators
    from framejit.user.explanation import explain
    from framejit.user.export import export
    from framejit.user.marks import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic
    from framejit.user.operators import compile_operators
    from framejit.user.precompile import Artifact, load, precompile
    from framejit.user.profiles import load_profile, save_profile
    from framejit.user.regions import disable, disable_nested_graph_breaks, error_on_graph_break, graph_break, skip_frame
    from framejit.user.valid_inputs import valid_inputs

__version__ = environment.VERSION
__all__ = [
    "Artifact", "ArtifactError", "BackendError", "BadArgument", "ConfigError", "ConstraintViolation", "FramejitError", "InternalError", "NotPrecompiled",
    "RecompileError", "UnknownBackend", "UnknownLog", "UnknownMode", "UnknownOperator", "UnknownOption", "Unsupported",
    "allow_in_graph", "assume_constant_result", "compile", "compile_eager_operators", "compile_operators", "disable", "disable_nested_graph_breaks",
    "disallow_in_graph", "error_on_graph_break", "explain", "export", "graph_break", "is_compiling", "list_backends", "load", "load_profile",
    "mark_dynamic", "mark_static", "mark_unbacked", "maybe_mark_dynamic", "on_compile", "precompile", "register_backend", "reset", "save_profile", "set_logs",
    "set_stance", "skip_frame", "statistics", "substitute_in_graph", "valid_inputs", "wait_until_compiled",
]  # fmt: skip
