"""The picture in docs/architecture.md holds: who may know whom, and what each kind of file promises. Computed by parsing."""

from __future__ import annotations

import ast
import builtins
import dis
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType
from typing import Any, TypeVar

import pytest
import torch

from framejit import _runtime
from framejit.bytecode.versions import CURRENT
from framejit.ceval import loop

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"jit": "framejit", "guards": "framejit.guards"}
PROGRAMS = ROOT / "jit" / "breaks" / "programs"
"""Programs as users write them, which the break pages show: nothing imports them."""

# Room -> the rooms that it may import of, besides itself and the foundation, which everyone may know.
FOUNDATION = {"_operators", "_runtime", "breaks", "config", "errors", "logs", "process", "program", "quick_dataclass", "report", "said", "torch_state", "trail"}
ENTRANCES = {"", "__main__", "build_check", "environment"}
"""The rest of the root: the package's own surface, the command line, what refuses a build that doesn't fit, and what is reported of it."""
ALLOWED: dict[str, set[str]] = {
    "bytecode": set(),
    "guards": set(),
    "plain": set(),
    "objects": {"guards", "plain"},
    "effects": {"bytecode", "objects"},
    "graph": {"guards", "objects"},
    "library": {"guards", "plain", "objects", "graph"},
    "ceval": {"bytecode", "guards", "objects"},
    "codegen": {"bytecode", "guards", "objects", "effects", "saved"},
    "saved": {"bytecode", "guards"},
    "backends": {"graph", "saved"},
    "reporting": {"guards"},
    "driver": {"bytecode", "guards", "backends", "reporting", "saved"},
    "user": {"guards", "backends", "driver"},
    "tracing": {"bytecode", "guards", "plain", "effects", "objects", "library", "graph", "ceval", "codegen", "driver", "reporting"},
    "compiler": {"bytecode", "guards", "effects", "objects", "library", "graph", "ceval", "codegen", "backends", "tracing", "driver", "reporting", "saved"},
}

# Modules that may import torch are all others'; these stay usable, and testable, without it.
WITHOUT_TORCH = (
    "bytecode", "ceval", "effects", "codegen", "breaks", "errors", "logs", "report", "trail", "config", "program.naming", "said.directives", "guards.source",
)  # fmt: skip
# The interpreter's own business: opcodes, the assembler, CPython versions.
OBJECTS_MUST_NOT_IMPORT = ("dis", "opcode", "bytecode", "framejit.bytecode", "framejit.ceval", "framejit.codegen")


def layer_of(name: str) -> str:
    """The room that a module lies in; empty for those at the root."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ALLOWED else ""


N = TypeVar("N", bound=ast.AST)


class Module:
    """A source file, parsed. `name`: what it is imported by."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self.layer = layer_of(name)
        self.short = name.removeprefix("framejit").removeprefix(".")
        self.text = path.read_text()
        self.tree = ast.parse(self.text, str(path))
        self._nodes: dict[type[ast.AST], list[Any]] = {}
        for node in ast.walk(self.tree):
            self._nodes.setdefault(type(node), []).append(node)

    def nodes(self, *kinds: type[N]) -> Iterator[N]:
        """All nodes of these kinds."""
        return itertools.chain.from_iterable(self._nodes.get(kind, ()) for kind in kinds)

    def imports(self, typing_too: bool = False) -> list[str]:
        """The modules that its import statements name, with or without those that only a type checker sees, and those that are imported when needed."""
        tests = () if typing_too else filter(is_for_type_checking, self.nodes(ast.If))
        hidden = {id(inner) for node in tests for inner in ast.walk(node)}
        later = [node.args[0].value for node in self.nodes(ast.Call) if ast.unparse(node.func) == "when_needed"] if typing_too else []
        return [name for node in self.nodes(ast.Import, ast.ImportFrom) if id(node) not in hidden for name in imported(node)] + later


def _modules() -> list[Module]:
    found = []
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if parts[0] in PACKAGES and folder == "jit":
                continue  # a development link to the other package
            if path.parent == PROGRAMS:
                continue
            name = ".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))
            found.append(Module(path, name))
    return found


MODULES = _modules()
NAMES = {module.name for module in MODULES}


def is_for_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imported(node: ast.AST) -> list[str]:
    """The modules that an import statement names; `from framejit import breaks` names framejit.breaks."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        return [f"{base}.{alias.name}" if f"{base}.{alias.name}" in NAMES else base for alias in node.names]
    return []


def starts(name: str, prefixes) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def test_layers():
    """One direction: a layer imports only what stands below it, also for its types."""
    against = []
    for module in MODULES:
        for name in module.imports(typing_too=True) if module.layer else ():
            first = layer_of(name) or name.removeprefix("framejit").removeprefix(".").partition(".")[0]
            if starts(name, ["framejit"]) and first not in {module.layer} | ALLOWED[module.layer] | FOUNDATION:
                against.append(f"{module.path}: {module.layer}/ must not import {name}")
    assert not against


def test_rooms_have_an_order():
    """No room may import of one that may import of it."""
    tuple(TopologicalSorter(ALLOWED).static_order())


def test_nothing_imports_what_users_call():
    """Only the package itself does: what a trace must know of the public functions, these say to it (said/vocabulary.py)."""
    others = [module for module in MODULES if module.layer != "user"]
    assert [module.short for module in others if any(starts(name, ["framejit.user"]) for name in module.imports(typing_too=True))] == [""]


def test_every_module_lies_in_a_room():
    """At the root lies only what everyone may know, in a dozen files."""
    assert len(list((ROOT / "jit").glob("*.py*"))) <= 12
    assert not [module.path for module in MODULES if not module.layer and module.short.partition(".")[0] not in FOUNDATION | ENTRANCES]


def test_dataclasses_are_made_quickly():
    """But for those that users see, and what they and `quick_dataclass` itself need."""
    slow = {module.short for module in MODULES if "from dataclasses import dataclass" in module.path.read_text()}
    assert slow == {"config", "errors", "report", "quick_dataclass", "user.explanation", "user.exploring.regions"}


def test_the_foundation_knows_no_layer():
    for module in MODULES:
        if module.short.partition(".")[0] in FOUNDATION:
            for name in module.imports(typing_too=True):
                if starts(name, ["framejit"]):
                    assert name.split(".")[1] in FOUNDATION, f"{module.path} must not import {name}"


def test_imports_have_no_cycles():
    """Imports that only a type checker sees count: where two modules need each other's types, a protocol says what one needs of the other."""
    graph = {module.name: {name for name in module.imports(typing_too=True) if name in NAMES and name != module.name} for module in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError("import cycle: " + " -> ".join(error.args[1])) from None


def test_the_vm_that_objects_see_is_small():
    """Each protocol of the running trace is one concept, which a reader takes in at once."""
    (module,) = (module for module in MODULES if module.short == "objects.core.vm")
    protocols = {node.name: node.body for node in module.tree.body if isinstance(node, ast.ClassDef)}
    sizes = {name: sum(isinstance(member, (ast.FunctionDef, ast.AnnAssign)) for member in body) for name, body in protocols.items()}
    assert max(sizes[name] for name in sizes if name != "Writer") <= 15, sizes
    assert sum(sizes[name] for name in ("Record", "Values", "Classes", "Running", "Stopping")) <= 40, sizes


def test_parts_of_the_graph_share_one_state():
    """No part of the graph says by a protocol of its own what it needs of the rest: all see `TraceState`, and the trace as `RunningTrace`."""
    classes = [node for module in MODULES if module.layer == "graph" for node in module.nodes(ast.ClassDef)]
    assert sorted(node.name for node in classes if "Protocol" in map(ast.unparse, node.bases)) == ["RunningTrace", "TorchVM"]


OF_SUBJECTS = ("declare_operator", "rewrites", "stand_in", "models", "tensor_kind")
"""The functions by which subjects register what concerns one of them."""


def test_the_graph_is_mechanism():
    """A subject's operators, stand-ins, models and kinds of tensors are in its package. spelling.py has an operator for one that has no name in code."""
    calls = [(module.short, ast.unparse(node.func)) for module in MODULES if module.layer == "graph" for node in module.nodes(ast.Call)]
    assert [(short, name) for short, name in calls if name in OF_SUBJECTS] == [("graph.spelling", "declare_operator")]


ASKED_ELSEWHERE = {
    "is_jagged": {
        "library.torch.jagged.known_nested",  # of a changed nested tensor, the values are compared with those of others, and the offsets aren't
        "driver.second_run",  # the driver knows no Objects: whether the arguments of a call can be copied
    },
    "is_distributed": {"backends.in_contexts"},  # backends know no Objects: what torch keeps of layouts
    "is_functorch_wrapped_tensor": {
        "graph.graph_inputs",  # the memory of these is that of others, so it isn't compared
        "graph.fake_mode",  # torch makes their fakes of others
    },
}
"""Where it is asked whether a tensor is of one kind, besides the kind's own file."""
KINDS_AT_HOME = {
    "is_jagged": "library.torch.jagged.nested_tensors",
    "is_distributed": "library.torch.distributed.distributed_tensors",
    "is_functorch_wrapped_tensor": "library.torch.tensors.plain_tensors",
    "is_sparse": "library.torch.sparse.sparse_tensors",
}
"""What says whether a tensor is of a kind, and the kind's own file."""


def test_kinds_of_tensors_are_told_apart_by_the_kinds_alone():
    """Everything else asks the tensor's kind for what it needs (objects/tensors/tensorkind.py): no chain of questions has to know all kinds."""
    asked = {name: {module.short for module in MODULES if names_in(module, name)} for name in KINDS_AT_HOME}
    defined = {"torch_state.torch_classes", "torch_state.transforms_in_force", "library.torch.sparse.sparse"}
    assert {name: found - defined - {KINDS_AT_HOME[name]} for name, found in asked.items()} == {name: ASKED_ELSEWHERE.get(name, set()) for name in asked}


def test_kinds_of_tensors_are_registered_in_the_files_of_their_subjects():
    """No file imports a kind, but to derive another one of it."""
    places = {node.name: module.short for module in MODULES for node in module.nodes(ast.ClassDef) if "tensor_kind" in map(called, node.decorator_list)}
    assert len(places) > 10
    assert all(place.startswith("library.") for place in places.values())
    imported_kinds = [alias.name for module in MODULES for node in module.nodes(ast.ImportFrom) for alias in node.names if alias.name in places]
    assert imported_kinds == ["WrapperTensors"]


def called(decorator: ast.AST) -> str:
    """The name of the function that a decorator calls."""
    return ast.unparse(decorator.func) if isinstance(decorator, ast.Call) else ""


def names_in(module: Module, name: str) -> bool:
    """Return whether a module imports or defines a function of this name."""
    imported_here = any(alias.name == name for node in module.nodes(ast.ImportFrom) for alias in node.names)
    return imported_here or any(node.name == name for node in module.nodes(ast.FunctionDef))


def imports_among(rooms: Callable[[Module], bool], forbidden: Iterable[str]) -> list[str]:
    """Return a line of text for each forbidden import of the chosen modules."""
    return [f"{module.path} must not import {name}" for module in MODULES if rooms(module) for name in module.imports() if starts(name, forbidden)]


def test_torch_is_only_where_it_belongs():
    assert not imports_among(lambda module: starts(module.short, WITHOUT_TORCH), ["torch"])


def test_objects_know_no_opcodes():
    assert not imports_among(lambda module: module.layer in ("objects", "library"), OBJECTS_MUST_NOT_IMPORT)


def test_backends_see_only_fx():
    frontend = [f"framejit.{layer}" for layer in ("objects", "ceval", "codegen", "bytecode", "effects", "library")]
    assert not imports_among(lambda module: module.layer == "backends", frontend)


def outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from outside_functions(child)


def test_no_imports_inside_functions():
    inside = []
    for module in MODULES:
        found = list(module.nodes(ast.Import, ast.ImportFrom))
        allowed = {id(node) for node in outside_functions(module.tree)} if found else ()
        inside += [f"{module.path}:{node.lineno}" for node in found if id(node) not in allowed]
    assert not inside


LOADERS = {
    "process.when_needed", "library", "bytecode.versions", "build_check", "environment", "process.interrupts", "backends.ecosystem",
    "library.torch.optim.optimizers", "library.torch.triton.triton_launch", "torch_state.no_symbols",
}  # fmt: skip
"""The modules that import others by name: the mechanism itself, what stands in for modules, what finds files, what must say that an import fails, and what
names modules of torch."""


def test_modules_are_imported_by_name_in_one_place() -> None:
    """All others say at their beginning, with `when_needed`, what is imported later."""
    by_name = ("importlib.import_module", "import_module", "__import__")
    calling = {module.short for module in MODULES for node in module.nodes(ast.Call) if ast.unparse(node.func) in by_name}
    assert calling - LOADERS <= {"objects.core.imports", "process.progress"}  # whose own function has this name; which has a thread of its own
    for module in MODULES:
        at_the_beginning = {id(node) for node in outside_functions(module.tree)}
        for node in module.nodes(ast.Call):
            assert ast.unparse(node.func) != "when_needed" or id(node) in at_the_beginning, module.path


def asks_the_version(node: ast.AST) -> bool:
    names = {"version_info", "hexversion"}
    return isinstance(node, ast.Attribute) and node.attr in names or isinstance(node, ast.Name) and node.id in names


def test_python_versions_are_asked_for_in_version_files_only():
    others = [module for module in MODULES if not starts(module.short, ["bytecode.versions"])]
    asking = [f"{module.path}:{node.lineno}" for module in others for node in module.nodes(ast.Attribute, ast.Name) if asks_the_version(node)]
    assert not asking


NATIVE_FOLDERS = ("runtime_c", "runtime_c/operators", "guards/native")
NATIVE = [path for folder in NATIVE_FOLDERS for path in sorted((ROOT / folder).iterdir()) if path.suffix in (".c", ".cpp", ".h")]
OF_ONE_VERSION = r"PY_VERSION_HEX|Py_BUILD_CORE|internal/pycore|\w+_version_tag|_Py_CODEUNIT|_PyFunction_\w+|_PyDict_\w+|_PySet_\w+|PyWeakref_GET_OBJECT"


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: path.name)
def test_version_facts_of_native_code_are_in_its_cpython_folder(path):
    found = sorted(set(re.findall(rf"\b(?:{OF_ONE_VERSION})\b", path.read_text())))
    assert not found, f"{path}: {found} belong behind a header in runtime_c/cpython"


def without_comments(text: str) -> str:
    """Native source without comments, strings and characters."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', " ", text, flags=re.DOTALL)


def declared_natively(header: str) -> set[str]:
    """The functions, variables and classes of a header that a source file defines. What is declared begins in the first column."""
    functions = re.findall(r"^(?!static|inline|typedef)\w[^;{}()=]*\b(\w+)\([^;{}]*\);", header, re.MULTILINE)
    variables = [name for names in re.findall(r"^extern ([^;{}()]*);", header, re.MULTILINE) for name in re.findall(r"(\w+)(?:\[\])?(?:,|$)", names)]
    classes = re.findall(r"^(?:class|struct) (\w+)[^;{}]*\{", header, re.MULTILINE)
    return {*functions, *variables, *classes}


def defines_natively(source: str, name: str) -> bool:
    """Return whether a source file defines a function, variable or class members that other files can use. A definition begins in the first column."""
    function, member, variable = rf"\b{name}\([^;{{}}]*\)\s*\{{", rf"\b{name}::~?\w+\([^;{{}}]*\)[^;{{}}]*\{{", rf"\b{name}(?:\[\])?(?: =|,|;)"
    return bool(re.search(rf"^(?!static)\w[^;{{}}()=]*(?:{function}|{member})|^(?!static|extern)\w[^;{{}}()]*{variable}", source, re.MULTILINE))


def native_owners() -> dict[str, Path]:
    """Of each name that a header declares, the source file with its definition. Classes whose members are all in the header have none."""
    texts = {path: re.sub(r"^namespace \{$.*?^\}  // namespace$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL) for path in NATIVE}
    shared = {path: without_comments(text) for path, text in texts.items()}
    owners = {}
    for header in [path for path in NATIVE if path.suffix == ".h"]:
        for name in declared_natively(shared[header]):
            found = [path for path in NATIVE if path.suffix != ".h" and defines_natively(shared[path], name)]
            is_class = re.search(rf"^(?:class|struct) {name}\b", shared[header], re.MULTILINE)
            assert len(found) == 1 or is_class and not found, f"{name} of {header.name} is defined in {[path.name for path in found]}"
            owners.update({name: path for path in found})
    return owners


INLINE = re.compile(r"^(?:static )?inline [^;{}()]*?\b(\w+)\([^;{}]*\) \{(.*?)(?:\}$|^\})", re.MULTILINE | re.DOTALL)


def native_uses() -> dict[Path, set[Path]]:
    """The source files that each source file uses, also through inline functions of headers."""
    owners = native_owners()
    texts = {path: without_comments(path.read_text()) for path in NATIVE}
    inline = {name: body for path, text in texts.items() if path.suffix == ".h" for name, body in INLINE.findall(text)}
    uses = {}
    for path in [path for path in NATIVE if path.suffix != ".h"]:
        read, called = [texts[path]], set[str]()
        for text in read:  # grows by the bodies of inline functions
            new = (set(re.findall(r"(?<![.>])\b(\w+)\(", text)) & inline.keys()) - called
            called |= new
            read += [inline[name] for name in new]
        words = set(re.findall(r"(?<![.>])\b\w+", " ".join(read)))
        uses[path] = {owners[word] for word in words & owners.keys()} - {path}
    return uses


def test_native_files_have_no_cycles():
    """A source file in C or C++ doesn't use what another defines that uses it, directly or over others."""
    graph = {path.name: {used.name for used in found} for path, found in native_uses().items()}
    assert {"entry.c", "hook.c"} <= graph["evaluator.c"] and "walk.cpp" in graph["tree.cpp"] and "accessors.cpp" in graph["walk.cpp"], "the sources are misread"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError("native files use one another: " + " -> ".join(error.args[1])) from None


def test_kinds_of_accessors_are_named_where_they_are_defined():
    """Nothing native asks for an accessor's name, and each is defined once: a new one needs no line in a file that knows the others."""
    texts = {path: path.read_text() for path in NATIVE if path.parent.name == "native"}
    defined = [(name, path) for path, text in texts.items() for name in re.findall(r'Registered<AccessorKind> \w+\(\s*\{\s*\.name = "(\w+)"', text)]
    assert sorted(name for name, _ in defined) == sorted(_runtime.ACCESSORS)
    literals = {path: set(re.findall(r'"(\w+)"', text)) for path, text in texts.items()}
    strangers = [f"{path.name} names {name}, which {home.name} defines" for name, home in defined for path in texts if path != home and name in literals[path]]
    assert not strangers, strangers


def test_opcodes_are_known_to_version_files_only():
    """Others read canonical operations and write words; between them and the bytes stand decode.py and encode.py. build_check.py asks the number."""
    knowing = ["bytecode.versions", "bytecode.decode", "bytecode.encode", "build_check"]
    others = [module for module in MODULES if not starts(module.short, knowing)]
    opcodes = ("dis", "opcode", "framejit.bytecode.versions")
    assert not [f"{module.path} must not import {name}" for module in others for name in module.imports() if name in opcodes]


def names_the_peer(node: ast.AST) -> bool:
    """An import of it, an attribute of torch, or its name as a string that something could import."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.startswith("torch._dynamo") and " " not in node.value
    return isinstance(node, ast.Attribute) and node.attr == "_dynamo" or any(starts(name, ["torch._dynamo"]) for name in imported(node))


def test_the_peer_is_named_in_few_files_only():
    kinds = (ast.Constant, ast.Attribute, ast.Import, ast.ImportFrom)
    named = {module.short for module in MODULES if "_dynamo" in module.text and any(map(names_the_peer, module.nodes(*kinds)))}
    assert named <= {"graph.torch_sources", "torch_state.peer", "torch_state.errors_at_breaks", *ECOSYSTEM}, named


ECOSYSTEM = {"torch_state.torch_callbacks", "library.directives.declared", "library.directives.torch_directives", "backends.ecosystem", "driver.torch_stance"}


def test_a_file_starts_with_one_line_that_says_what_it_owns():
    for module in MODULES:
        first = (ast.get_docstring(module.tree) or "").splitlines()
        assert first, f"{module.path} has no docstring"
        assert len(first) == 1 or not first[1].strip(), f"{module.path}: the first paragraph of the docstring is one line"


def test_nothing_is_left_to_do():
    for module in MODULES:
        marker = re.search(r"\b(TODO|FIXME|XXX|HACK)\b", module.text)
        assert not marker, f"{module.path}: {marker and marker.group()}"
        assert not re.search(r"(/home/|/work/|/root/)", module.text), f"{module.path} names a path of one machine"


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda page: page.name)
def test_pages_name_no_path_of_a_machine(page: Path) -> None:
    assert not re.search(r"(/home/|/work/|/root/)", page.read_text())


def break_classes() -> dict[str, ast.ClassDef]:
    return {
        node.name: node
        for module in MODULES
        if starts(module.short, ["breaks"])
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and node.bases and node.name != "BreakOf"
    }


def test_break_reasons_have_a_documentation_page():
    for name, node in break_classes().items():
        assert ast.get_docstring(node), name


def test_every_break_reason_is_used():
    used = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for module in MODULES
        if not starts(module.short, ["breaks"])
        for node in module.nodes(ast.Attribute, ast.Name)
    }
    unused = set(break_classes()) - used
    assert not unused, f"break reasons that nothing raises: {sorted(unused)}"


def test_every_opcode_is_handled():
    """Each opcode of the running Python has a row in its version file, and each canonical operation in a row has a handler (or is refused by one)."""
    opcodes = {name for name, number in dis.opmap.items() if number < 256 and not name.startswith(WITHOUT_ROWS)}
    assert not opcodes - set(CURRENT.table), f"opcodes without a row: {sorted(opcodes - set(CURRENT.table))}"
    assert not set(CURRENT.table) - opcodes, f"rows of opcodes that this Python doesn't have: {sorted(set(CURRENT.table) - opcodes)}"
    emitted = {operation for row in CURRENT.table.values() for operation in row.emits}
    assert not emitted - set(loop.OPERATIONS), f"operations without a handler: {sorted(emitted - set(loop.OPERATIONS))}"


WITHOUT_ROWS = ("<", "INSTRUMENTED_", "INTERPRETER_EXIT", "EXIT_INIT_CHECK", "RESERVED", "ENTER_EXECUTOR", "TRACE_RECORD")
"""Opcodes that `co_code` never has: what monitoring and CPython's JIT write over others, and the interpreter's own frames."""


OF_CLASSES = {"__mro__", "__dict__", "__flags__", "__dictoffset__", "__name__", "__qualname__", "__module__", "__base__", "__bases__"}


def test_classes_of_values_are_read_past_their_metaclasses() -> None:
    """`obj.cls` may be a class of the program's, whose metaclass must not be asked while tracing: framejit.program.classes has what is read of it."""
    rooms = [module for module in MODULES if module.layer in ("objects", "ceval", "codegen")]
    reads = [(module, node) for module in rooms for node in module.nodes(ast.Attribute) if node.attr in OF_CLASSES]
    asked = [f"{module.path}:{node.lineno}" for module, node in reads if isinstance(node.value, ast.Attribute) and node.value.attr == "cls"]
    assert not asked


def test_names_of_classes_are_unique():
    """A name means one class in the whole project, whether or not it begins with an underscore. Programs of tests may call theirs as they like."""
    places: dict[str, list[str]] = {}
    for module in MODULES:
        for node in module.nodes(ast.ClassDef):
            places.setdefault(node.name.lstrip("_"), []).append(module.short)
    assert not {name: found for name, found in places.items() if len(found) > 1}


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def test_docstrings_need_no_neighbour() -> None:
    """A docstring is read by itself: none says that something is the same as what stands above it."""
    texts = [(module.path, ast.get_docstring(node) or "") for module in MODULES for node in module.nodes(*DOCUMENTED)]
    assert not [(path, text) for path, text in texts if text.startswith(("The same", "Likewise", "Ditto", "As above"))]


LONG = {"drops_silently"}
"""Functions of more than 40 lines: a match statement."""


def test_functions_are_short() -> None:
    """A function has at most 40 lines, without its docstring."""
    long = set()
    for module in MODULES:
        for node in module.nodes(ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if body and (node.end_lineno or 0) - body[0].lineno + 1 > 40:
                long.add(node.name)
    assert long == LONG


OPERATOR_TABLE = "torch_state.operator_exceptions"
NAMES_OPERATORS = {
    "library.numpy.functions": "functions and methods of NumPy's",
    "library.numpy.arrays": "methods of NumPy's arrays",
    "library.numpy.tensors": "functions of NumPy's",
    "library.random.random_functions": "functions of Python's and NumPy's generators",
    "library.torch.operators.functions": "functions that read torch's modes",
    "library.torch.attention.attention": "attention",
    "objects.arrays.arraycall": "functions of NumPy's",
    "objects.arrays.arrayfunctions": "functions of NumPy's, and what they are of torch's",
    "objects.arrays.arrayoperands": "functions of NumPy's",
    "objects.arrays.arrayrules": "functions of NumPy's",
    "objects.arrays.arraysbynumpy": "functions of NumPy's",
    "objects.tensors.overrides": "functions that ask nobody for an override",
    "library.random.draws": "functions that draw from NumPy's generator",
    "library.random.drawn_bounds": "functions whose draws have bounds",
    "library.torch.recurrent.recurrent": "recurrent networks",
    "graph.statistics": "normalisations with running statistics",
    "library.torch.transforms.zero_tensors": "operators that lose the fakes of zero tensors",
    "backends.shared_numbers": "operators that Inductor calls the C library for",
    "guards.script_code": "operators in TorchScript's code",
    "guards.script_numbers": "operators in TorchScript's code",
}
"""The files whose subject is operators or functions that they name, with the subject. No other file has facts about operators that it names."""
OF_TENSORS = (torch, torch.Tensor, torch.nn.functional)
OF_PYTHON = (builtins, math, operator, dict, list, set, str)
NOT_ONLY_OPERATORS = {"size", "stride", "indices", "values", "cpu", "cuda", "xpu"} | {name for owner in OF_PYTHON for name in dir(owner)}
"""Names of operators that mean something else as often: properties and parts of tensors, devices, and Python's own functions and methods."""


def _operator_names() -> set[str]:
    """The names of ATen's operators and of framejit's own, and of torch's functions and methods."""
    found = {schema.name.partition("::")[2] for schema in torch._C._jit_get_all_schemas() if schema.name.startswith(("aten::", "framejit::"))}
    for owner in OF_TENSORS:
        named = {name: getattr(owner, name, None) for name in dir(owner) if not name.startswith("__")}
        found |= {name for name, value in named.items() if isinstance(value, (BuiltinFunctionType, FunctionType, MethodDescriptorType))}
    return found


OPERATOR_NAMES = _operator_names()


def collections_asked(module: Module) -> Iterator[list[ast.expr | None]]:
    """The parts of collections in which something may be looked up: sets, keys of dicts, and lists and tuples that are constants or stand after `in`."""
    found: list[ast.expr] = [node.value for node in module.tree.body if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None]
    found += [operand for node in module.nodes(ast.Compare) if isinstance(node.ops[-1], (ast.In, ast.NotIn)) for operand in node.comparators]
    found += [argument for node in module.nodes(ast.Call) if isinstance(node.func, ast.Name) and "set" in node.func.id for argument in node.args]
    yield from (node.elts for node in found if isinstance(node, (ast.Tuple, ast.List)))
    yield from (node.elts for node in module.nodes(ast.Set))
    yield from (node.keys for node in module.nodes(ast.Dict))


def named_operator(node: ast.expr | None) -> tuple[str, bool]:
    """The name of the operator that a string or an attribute of torch's names, empty if it names none, and whether it can mean nothing else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        name = node.value.removeprefix("aten::")
        return (name, name != node.value or name not in NOT_ONLY_OPERATORS) if name in OPERATOR_NAMES else ("", False)
    text = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
    found = re.match(r"(?:torch\.ops\.aten|aten|ATEN|torch\.nn\.functional|torch\.Tensor|torch|F)\.(\w+)", text)
    return (found[1], True) if found and found[1] in OPERATOR_NAMES else ("", False)


def names_operators(parts: list[ast.expr | None]) -> bool:
    """Return whether at least half of a collection's parts name operators, and at least two different names can mean nothing else."""
    named = [found for found in map(named_operator, parts) if found[0]]
    return 2 * len(named) >= len(parts) and len({name for name, is_sure in named if is_sure}) >= 2


def test_facts_about_operators_are_computed_or_in_the_table() -> None:
    """Facts about operators follow from their schemas and tags (operator_facts.py), or are rows of operator_exceptions.py."""
    others = [module for module in MODULES if module.short not in {OPERATOR_TABLE, *NAMES_OPERATORS}]
    strangers = [
        f"{module.path}:{next(part for part in parts if part is not None).lineno}"
        for module in others
        for parts in collections_asked(module)
        if names_operators(parts)
    ]
    assert not strangers, f"names of operators: {strangers}"


@pytest.mark.parametrize(
    ("code", "is_seen"),
    [
        ('VIEWS = frozenset({"squeeze", "unsqueeze"})', True),
        ('VIEWS = ("squeeze", "unsqueeze", "contiguous")', True),
        ('VIEWS = {"squeeze": 1, "unsqueeze": 2}', True),
        ('def ask(name): return name in ("squeeze", "unsqueeze")', True),
        ("COSTLY = {aten.exp.default, torch.log}", True),
        ('SCRIPTED = ["aten::add", "aten::mul"]', True),
        ('PYTHONS = {"min", "max", "+"}', False),
        ('PROPERTIES = ("size", "stride")', False),
        ('class Stored: __slots__ = ("squeeze", "unsqueeze")', False),
    ],
)
def test_collections_of_operators_are_seen(code: str, is_seen: bool, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(code)
    assert any(map(names_operators, collections_asked(Module(path, "framejit.graph.module")))) is is_seen


def test_files_that_name_operators_are_there() -> None:
    naming = {module.short for module in MODULES if module.short in NAMES_OPERATORS and any(map(names_operators, collections_asked(module)))}
    assert naming == NAMES_OPERATORS.keys()


OF_NO_ROOM = {"behaviour", "conformance", "differential", "docs", "runtime", "support", "traces"}
"""Folders of tests that are about no room of jit/: tests/runtime is about runtime_c/."""


def test_tests_lie_as_the_modules_lie() -> None:
    """A folder of tests has the name of the folder that it is about. Names of test files are unique, also because pytest imports them by name."""
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    folders = {path.parent.relative_to(ROOT / "tests") for path in tests if path.parent != ROOT / "tests"}
    about = [folder for folder in folders if folder.parts[0] not in OF_NO_ROOM]
    assert not [folder for folder in about if not (ROOT / "jit" / folder).is_dir() and not (ROOT / folder).is_dir()]
    names = [path.name for path in tests]
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)
