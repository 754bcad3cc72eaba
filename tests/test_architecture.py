"""The picture in docs/architecture.md holds: who may know whom, and what each kind of file promises. Computed by parsing."""

from __future__ import annotations

import ast
import dis
import re
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from framejit.bytecode.versions import CURRENT
from framejit.ceval import loop

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"jit": "framejit", "guards": "framejit.guards"}

# Room -> the rooms that it may import of, besides itself and the root, where lies what everyone may know. "app" is modules/app.
FOUNDATION = {"_runtime", "breaks", "classes", "errors", "config", "directives", "interrupts", "library", "logs", "report", "saved_tensor_hooks", "stance",
              "torch_classes", "torch_function_stack", "torch_modes", "trail", "transforms_in_force"}
ENTRANCES = {"", "__main__", "build_check"}
"""The rest of the root: the package's own surface, the command line, and what refuses a build that doesn't fit."""
ALLOWED: dict[str, set[str]] = {
    "bytecode": set(),
    "guards": set(),
    "app": set(),
    "objects": {"guards", "app"},
    "effects": {"bytecode", "objects"},
    "graph": {"guards", "objects"},
    "modules": {"guards", "app", "objects", "graph", "user"},  # user: what the user's surface means in a trace
    "ceval": {"bytecode", "guards", "objects"},
    "codegen": {"bytecode", "guards", "objects", "effects"},
    "backends": {"graph"},
    "reporting": {"guards"},
    "driver": {"bytecode", "guards", "backends", "reporting"},
    "user": {"guards", "backends", "driver"},
    "tracing": {"bytecode", "guards", "app", "effects", "objects", "modules", "graph", "ceval", "codegen", "driver", "reporting"},
    "compiler": {"bytecode", "guards", "effects", "objects", "modules", "graph", "ceval", "codegen", "backends", "tracing", "driver", "reporting"},
}

# Modules that may import torch are all others'; these stay usable, and testable, without it.
WITHOUT_TORCH = ("bytecode", "ceval", "effects", "codegen", "breaks", "errors", "logs", "report", "trail", "config", "directives", "guards.source")
# The interpreter's own business: opcodes, the assembler, CPython versions.
OBJECTS_MUST_NOT_IMPORT = ("dis", "opcode", "bytecode", "framejit.bytecode", "framejit.ceval", "framejit.codegen")


def layer_of(name: str) -> str:
    """The room that a module lies in; empty for those at the root."""
    parts = name.split(".")
    if parts[1:3] == ["modules", "app"]:
        return "app"
    return parts[1] if len(parts) > 1 and parts[1] in ALLOWED else ""


@dataclass(frozen=True)
class Module:
    """A source file, parsed."""

    path: Path
    name: str  # the import name
    tree: ast.Module

    @property
    def layer(self) -> str:
        return layer_of(self.name)

    @property
    def short(self) -> str:
        return self.name.removeprefix("framejit").removeprefix(".")


def _modules() -> list[Module]:
    found = []
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if parts[0] in PACKAGES and folder == "jit":
                continue  # a development link to the other package
            name = ".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))
            found.append(Module(path, name, ast.parse(path.read_text(), str(path))))
    return found


MODULES = _modules()
NAMES = {module.name for module in MODULES}
each_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.short or "framejit")


def is_for_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def run_time_nodes(tree: ast.AST):
    """All nodes, apart from what only a type checker sees."""
    for child in ast.iter_child_nodes(tree):
        if is_for_type_checking(child):
            continue
        yield child
        yield from run_time_nodes(child)


def imported(node: ast.AST) -> list[str]:
    """The modules that an import statement names; `from framejit import breaks` names framejit.breaks."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        return [f"{base}.{alias.name}" if f"{base}.{alias.name}" in NAMES else base for alias in node.names]
    return []


def imports(tree: ast.AST, typing_too: bool = False) -> list[str]:
    nodes = ast.walk(tree) if typing_too else run_time_nodes(tree)
    return [name for node in nodes for name in imported(node)]


def starts(name: str, prefixes) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


@each_module
def test_layers(module):
    """One direction: a layer imports only what stands below it, also for its types."""
    if not module.layer:
        return
    for name in imports(module.tree, typing_too=True):
        if starts(name, ["framejit"]):
            first = layer_of(name) or name.removeprefix("framejit").removeprefix(".").partition(".")[0]
            assert first in {module.layer} | ALLOWED[module.layer] | FOUNDATION, f"{module.path}: {module.layer}/ must not import {name}"


def test_rooms_have_an_order():
    """No room may import of one that may import of it."""
    tuple(TopologicalSorter(ALLOWED).static_order())


@each_module
def test_every_module_lies_in_a_room(module):
    assert module.layer or module.short.partition(".")[0] in FOUNDATION | ENTRANCES, f"{module.path}: at the root lies only what everyone may know"


def test_the_foundation_knows_no_layer():
    for module in MODULES:
        if module.short.partition(".")[0] in FOUNDATION:
            for name in imports(module.tree, typing_too=True):
                if starts(name, ["framejit"]):
                    assert name.split(".")[1] in FOUNDATION, f"{module.path} must not import {name}"


def test_imports_have_no_cycles():
    """Imports that only a type checker sees count: where two modules need each other's types, a protocol says what one needs of the other."""
    graph = {module.name: {name for name in imports(module.tree, typing_too=True) if name in NAMES and name != module.name} for module in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError("import cycle: " + " -> ".join(error.args[1])) from None


def test_the_vm_that_objects_see_is_small():
    """Each protocol of the running trace is one concept, which a reader takes in at once."""
    (module,) = (module for module in MODULES if module.short == "objects.vm")
    protocols = {node.name: node.body for node in module.tree.body if isinstance(node, ast.ClassDef)}
    sizes = {name: sum(isinstance(member, (ast.FunctionDef, ast.AnnAssign)) for member in body) for name, body in protocols.items()}
    assert max(sizes[name] for name in sizes if name != "Writer") <= 15, sizes
    assert sum(sizes[name] for name in ("Record", "Values", "Classes", "Running", "Stopping")) < 40, sizes


@each_module
def test_torch_is_only_where_it_belongs(module):
    if starts(module.short, WITHOUT_TORCH):
        found = [name for name in imports(module.tree) if starts(name, ["torch"])]
        assert not found, f"{module.path} must not import {found}"


@each_module
def test_objects_know_no_opcodes(module):
    if module.layer in ("objects", "modules"):
        found = [name for name in imports(module.tree) if starts(name, OBJECTS_MUST_NOT_IMPORT)]
        assert not found, f"{module.path} must not import {found}"


@each_module
def test_backends_see_only_fx(module):
    if module.layer == "backends":
        frontend = [f"framejit.{layer}" for layer in ("objects", "ceval", "codegen", "bytecode", "effects", "modules")]
        found = [name for name in imports(module.tree) if starts(name, frontend)]
        assert not found, f"{module.path} must not import {found}"


@each_module
def test_no_imports_inside_functions(module):
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for inner in ast.walk(node):
                assert not isinstance(inner, (ast.Import, ast.ImportFrom)), f"{module.path}:{inner.lineno}: import inside {node.name}"


def asks_the_version(node: ast.AST) -> bool:
    names = {"version_info", "hexversion"}
    return isinstance(node, ast.Attribute) and node.attr in names or isinstance(node, ast.Name) and node.id in names


@each_module
def test_python_versions_are_asked_for_in_version_files_only(module):
    if starts(module.short, ["bytecode.versions"]):
        return
    for node in ast.walk(module.tree):
        assert not asks_the_version(node), f"{module.path}:{node.lineno}: version checks belong in jit/bytecode/versions"


NATIVE = [path for folder in ("runtime_c", "guards/native") for path in sorted((ROOT / folder).iterdir()) if path.suffix in (".c", ".cpp", ".h")]
OF_ONE_VERSION = r"PY_VERSION_HEX|Py_BUILD_CORE|internal/pycore|\w+_version_tag|_Py_CODEUNIT|_PyFunction_\w+|_PyDict_\w+|_PySet_\w+|PyWeakref_GET_OBJECT"


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: path.name)
def test_version_facts_of_native_code_are_in_its_cpython_folder(path):
    found = sorted(set(re.findall(rf"\b(?:{OF_ONE_VERSION})\b", path.read_text())))
    assert not found, f"{path}: {found} belong behind a header in runtime_c/cpython"


@each_module
def test_opcodes_are_known_to_version_files_only(module):
    """Others read canonical operations and write words; between them and the bytes stand decode.py and encode.py. build_check.py asks the number."""
    if not starts(module.short, ["bytecode.versions", "bytecode.decode", "bytecode.encode", "build_check"]):
        found = [name for name in imports(module.tree) if name in ("dis", "opcode", "framejit.bytecode.versions")]
        assert not found, f"{module.path} must not import {found}"


def names_the_peer(node: ast.AST) -> bool:
    """An import of it, an attribute of torch, or its name as a string that something could import."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.startswith("torch._dynamo") and " " not in node.value
    return isinstance(node, ast.Attribute) and node.attr == "_dynamo" or any(starts(name, ["torch._dynamo"]) for name in imported(node))


def test_the_peer_is_named_in_few_files_only():
    named = {module.short for module in MODULES if any(map(names_the_peer, ast.walk(module.tree)))}
    assert named <= {"graph.torch_sources", *ECOSYSTEM}, named


ECOSYSTEM = {"modules.declared", "modules.ecosystem", "backends.ecosystem", "driver.torch_stance"}


@each_module
def test_a_file_starts_with_one_line_that_says_what_it_owns(module):
    doc = ast.get_docstring(module.tree)
    assert doc, f"{module.path} has no docstring"
    first = doc.splitlines()
    assert len(first) == 1 or not first[1].strip(), f"{module.path}: the first paragraph of the docstring is one line"


@each_module
def test_nothing_is_left_to_do(module):
    text = module.path.read_text()
    marker = re.search(r"\b(TODO|FIXME|XXX|HACK)\b", text)
    assert not marker, f"{module.path}: {marker and marker.group()}"
    assert not re.search(r"(/home/|/work/|/root/)", text), f"{module.path} names a path of one machine"


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda page: page.name)
def test_pages_name_no_path_of_a_machine(page: Path) -> None:
    assert not re.search(r"(/home/|/work/|/root/)", page.read_text())


def break_classes() -> dict[str, ast.ClassDef]:
    return {
        node.name: node
        for module in MODULES
        if starts(module.short, ["breaks"])
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and node.bases
    }


def test_break_reasons_have_a_documentation_page():
    for name, node in break_classes().items():
        assert ast.get_docstring(node), name


def test_every_break_reason_is_used():
    used = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for module in MODULES
        if not starts(module.short, ["breaks"])
        for node in ast.walk(module.tree)
        if isinstance(node, (ast.Attribute, ast.Name))
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


WITHOUT_ROWS = ("<", "INSTRUMENTED_", "INTERPRETER_EXIT", "RESERVED")
"""Opcodes that `co_code` never has: what monitoring writes over others, and the interpreter's own entry frames."""


OF_CLASSES = {"__mro__", "__dict__", "__flags__", "__dictoffset__", "__name__", "__qualname__", "__module__", "__base__", "__bases__"}


@pytest.mark.parametrize("module", [module for module in MODULES if module.layer in ("objects", "ceval", "codegen")], ids=lambda module: module.short)
def test_classes_of_values_are_read_past_their_metaclasses(module: Module) -> None:
    """`obj.cls` may be a class of the program's, whose metaclass must not be asked while tracing: framejit.classes has what is read of it."""
    reads = [node for node in ast.walk(module.tree) if isinstance(node, ast.Attribute) and node.attr in OF_CLASSES]
    asked = [ast.unparse(node) for node in reads if isinstance(node.value, ast.Attribute) and node.value.attr == "cls"]
    assert not asked


def test_names_of_classes_are_unique():
    """A name means one class in the whole project, whether or not it begins with an underscore. Programs of tests may call theirs as they like."""
    places: dict[str, list[str]] = {}
    for module in MODULES:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(module.short)
    assert not {name: found for name, found in places.items() if len(found) > 1}


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.short)
def test_docstrings_need_no_neighbour(module: Module) -> None:
    """A docstring is read by itself: none says that something is the same as what stands above it."""
    texts = [ast.get_docstring(node) or "" for node in ast.walk(module.tree) if isinstance(node, DOCUMENTED)]
    assert not [text for text in texts if text.startswith(("The same", "Likewise", "Ditto", "As above"))]
