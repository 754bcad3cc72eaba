"""framejit: a bytecode-level tracing JIT for Python programs that use PyTorch."""

from framejit.build_check import check_build

check_build()

from framejit.backends.registry import list_backends, register_backend  # noqa: E402
from framejit.errors import (  # noqa: E402
    BackendError,
    BadArgument,
    ConfigError,
    ConstraintViolation,
    FramejitError,
    InternalError,
    RecompileError,
    UnknownBackend,
    UnknownLog,
    UnknownMode,
    UnknownOption,
    Unsupported,
)
from framejit.logs import set_logs  # noqa: E402
from framejit.report import statistics  # noqa: E402
from framejit.stance import set_stance  # noqa: E402
from framejit.user.api import compile, is_compiling, reset  # noqa: E402
from framejit.user.explanation import explain  # noqa: E402
from framejit.user.export import export  # noqa: E402
from framejit.user.functions import allow_in_graph, assume_constant_result, disallow_in_graph, substitute_in_graph  # noqa: E402
from framejit.user.marks import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic  # noqa: E402
from framejit.user.operators import compile_operators  # noqa: E402
from framejit.user.profiles import load_profile, save_profile  # noqa: E402
from framejit.user.regions import disable, disable_nested_graph_breaks, error_on_graph_break, graph_break, skip_frame  # noqa: E402
from framejit.user.valid_inputs import valid_inputs  # noqa: E402

__version__ = "0.1.0"
__all__ = [
    "BackendError", "BadArgument", "ConfigError", "ConstraintViolation", "FramejitError", "InternalError", "RecompileError", "UnknownBackend",
    "UnknownLog", "UnknownMode", "UnknownOption", "Unsupported",
    "allow_in_graph", "assume_constant_result", "compile", "compile_operators", "disable", "disable_nested_graph_breaks", "disallow_in_graph",
    "error_on_graph_break", "explain", "export", "graph_break", "is_compiling", "list_backends", "load_profile", "mark_dynamic", "mark_static", "mark_unbacked",
    "maybe_mark_dynamic", "register_backend", "reset", "save_profile", "set_logs", "set_stance", "skip_frame", "statistics", "substitute_in_graph",
    "valid_inputs",
]  # fmt: skip
