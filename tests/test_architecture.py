"""The picture in docs/architecture.md holds: who may know whom, and what each kind of file promises. Computed by parsing."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from framejit.bytecode.versions import CURRENT

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"jit": "framejit", "guards": "framejit.guards"}

# Room -> the rooms that it may import of, besides itself and the root, where lies what everyone may know.
FOUNDATION = {"_runtime", "breaks", "classes", "errors", "config", "directives", "interrupts", "library", "logs", "report", "stance", "trail"}
ENTRANCES = {"", "__main__", "build_check"}
"""The rest of the root: the package's own surface, the command line, and what refuses a build that doesn't fit."""
ALLOWED: dict[str, set[str]] = {
    "bytecode": set(),
    "guards": set(),
    "effects": {"bytecode", "objects", "guards"},
    "objects": {"guards", "modules", "effects"},
    "modules": {"guards", "objects", "graph", "effects", "user"},  # user: what the user's surface means in a trace
    "graph": {"guards", "objects", "effects"},
    "ceval": {"bytecode", "guards", "objects", "effects", "graph"},
    "codegen": {"bytecode", "guards", "objects", "effects"},
    "backends": {"graph"},
    "tracing": {"bytecode", "guards", "effects", "objects", "modules", "graph", "ceval", "codegen", "driver", "reporting"},
    "compiler": {"bytecode", "guards", "effects", "objects", "modules", "graph", "ceval", "codegen", "backends", "tracing", "driver", "reporting"},
    "driver": {"bytecode", "guards", "backends", "reporting"},
    "reporting": {"guards"},
    "user": {"backends", "driver"},
}

# Modules that may import torch are all others'; these stay usable, and testable, without it.
WITHOUT_TORCH = ("bytecode", "ceval", "effects", "codegen", "breaks", "errors", "logs", "report", "trail", "config", "directives", "guards.source")
# The interpreter's own business: opcodes, the assembler, CPython versions.
OBJECTS_MUST_NOT_IMPORT = ("dis", "opcode", "bytecode", "framejit.bytecode", "framejit.ceval", "framejit.codegen")


@dataclass(frozen=True)
class Module:
    """A source file, parsed."""

    path: Path
    name: str  # the import name
    tree: ast.Module

    @property
    def layer(self) -> str:
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 and parts[1] in ALLOWED else ""

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
    """One direction: a layer imports only what stands below it."""
    if not module.layer:
        return
    for name in imports(module.tree):
        if not starts(name, ["framejit"]):
            continue
        first = name.split(".")[1] if "." in name else ""
        assert first in {module.layer} | ALLOWED[module.layer] | FOUNDATION, f"{module.path}: {module.layer}/ must not import {name}"


@each_module
def test_every_module_lies_in_a_room(module):
    assert module.layer or module.short in FOUNDATION | ENTRANCES, f"{module.path}: at the root lies only what everyone may know"


def test_the_foundation_knows_no_layer():
    for module in MODULES:
        if module.short in FOUNDATION:
            for name in imports(module.tree):
                if starts(name, ["framejit"]):
                    assert name.split(".")[1] in FOUNDATION, f"{module.path} must not import {name}"


def test_imports_have_no_cycles():
    graph = {module.name: {name for name in imports(module.tree) if name in NAMES and name != module.name} for module in MODULES}
    done: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        assert name not in path, "import cycle: " + " -> ".join([*path[path.index(name) :], name])
        path.append(name)
        for needed in sorted(graph[name]):
            visit(needed)
        done.add(path.pop())

    for name in sorted(graph):
        visit(name)


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


VERSION_FILES = ["bytecode.versions", "build_check"]  # the second only refuses, at import, what the first doesn't know


def asks_the_version(node: ast.AST) -> bool:
    names = {"version_info", "hexversion"}
    return isinstance(node, ast.Attribute) and node.attr in names or isinstance(node, ast.Name) and node.id in names


@each_module
def test_python_versions_are_asked_for_in_version_files_only(module):
    if starts(module.short, VERSION_FILES):
        return
    for node in ast.walk(module.tree):
        assert not asks_the_version(node), f"{module.path}:{node.lineno}: version checks belong in jit/bytecode/versions"


def names_the_peer(node: ast.AST) -> bool:
    """An import of it, an attribute of torch, or its name as a string that something could import."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.startswith("torch._dynamo") and " " not in node.value
    return isinstance(node, ast.Attribute) and node.attr == "_dynamo" or any(starts(name, ["torch._dynamo"]) for name in imported(node))


def test_the_peer_is_named_in_few_files_only():
    named = {module.short for module in MODULES if any(map(names_the_peer, ast.walk(module.tree)))}
    assert named <= {"graph.torch_sources", *ECOSYSTEM}, named


ECOSYSTEM = {"modules.ecosystem", "backends.ecosystem", "driver.torch_stance"}


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


def break_classes() -> dict[str, ast.ClassDef]:
    module = next(module for module in MODULES if module.short == "breaks")
    return {
        node.name: node
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and any(isinstance(base, ast.Name) and base.id == "Break" for base in node.bases)
    }


def test_break_reasons_have_a_documentation_page():
    for name, node in break_classes().items():
        assert ast.get_docstring(node), name


def test_every_break_reason_is_used():
    used = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for module in MODULES
        if module.short != "breaks"
        for node in ast.walk(module.tree)
        if isinstance(node, (ast.Attribute, ast.Name))
    }
    unused = set(break_classes()) - used
    assert not unused, f"break reasons that nothing raises: {sorted(unused)}"


def test_every_opcode_is_handled():
    """The interpreter names each canonical operation that this Python's version file can emit: to handle it, or to refuse it."""
    emitted = {operation for row in CURRENT.table.values() for operation in row.emits}
    named = {
        node.value
        for module in MODULES
        if module.layer == "ceval"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not emitted - named, f"operations without a handler: {sorted(emitted - named)}"


OF_CLASSES = {"__mro__", "__dict__", "__flags__", "__dictoffset__", "__name__", "__qualname__", "__module__", "__base__", "__bases__"}


@pytest.mark.parametrize("module", [module for module in MODULES if module.layer in ("objects", "ceval", "codegen")], ids=lambda module: module.short)
def test_classes_of_values_are_read_past_their_metaclasses(module: Module) -> None:
    """`obj.cls` may be a class of the program's, whose metaclass must not be asked while tracing: framejit.classes has what is read of it."""
    reads = [node for node in ast.walk(module.tree) if isinstance(node, ast.Attribute) and node.attr in OF_CLASSES]
    asked = [ast.unparse(node) for node in reads if isinstance(node.value, ast.Attribute) and node.value.attr == "cls"]
    assert not asked
