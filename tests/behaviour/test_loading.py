"""`import framejit` and a first compile import no package that only symbols, proofs or AOTAutograd's graphs need. Later imports still take effect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest

HEAVY = (
    "torch._dynamo", "torch._inductor", "torch._functorch.partitioners", "torch._functorch.aot_autograd", "torch.distributed.tensor",
    "torch.fx.experimental.symbolic_shapes", "sympy", "mpmath", "z3", "triton", "networkx",
)  # fmt: skip

BEGIN = """
import sys, torch
with_torch = set(sys.modules)
import framejit
"""
FIRST = """
framejit.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(3))
"""


def run(program: str, **environment: str) -> Any:
    """Run a program in a process of its own; return the value that it leaves in `found`."""
    program = f"{BEGIN}{textwrap.dedent(program)}\nimport json; print(json.dumps(found))"
    inherited = {name: value for name, value in os.environ.items() if name != "FRAMEJIT_CHECK"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=inherited | {"FRAMEJIT_STRICT": "1"} | environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def packages(modules: list[str], names: tuple[str, ...] = HEAVY) -> set[str]:
    """Those of these packages that some of the modules belong to."""
    return {name for name in names for module in modules if module == name or module.startswith(f"{name}.")}


def test_import_imports_no_compiler() -> None:
    modules = run("found = sorted(set(sys.modules) - with_torch)")
    assert not packages(modules)
    assert "framejit.compiler.compile" not in modules


MODEL = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.gelu = torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU()
        self.register_buffer("mask", torch.ones(1, 8).view(8))

    def forward(self, x):
        return self.gelu(self.norm(self.linear(x))) * self.mask

compiled, x = framejit.compile(model := Model(), backend="eager", fullgraph=True), torch.randn(2, 4)
assert torch.equal(compiled(x), model(x))
"""
OPERATORS = """
import torch.nn.functional as F

def program(x, index):
    heads = x.view(4, 2, 3).transpose(0, 1).reshape(2, -1)
    scale = torch.tensor([2.0, 3.0])
    found = F.softmax(heads * scale[:, None], -1).to(torch.float64).half().float() + torch.arange(12) + torch.zeros(12)
    changed = found.clone()
    changed[0] = 1.0
    loss = F.cross_entropy(x[:, :4], index)
    return F.scaled_dot_product_attention(heads[None], heads[None], heads[None]), torch.where(changed > 0, changed, 0.0).cumsum(1), loss

x, index = torch.randn(5, 6)[1:], torch.tensor([0, 1, 2, 1])
for ours, eager in zip(framejit.compile(program, backend="eager", fullgraph=True)(x, index), program(x, index)):
    assert torch.equal(ours, eager)
"""
LAYERS = """
from torch import nn

layers = [
    nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(2, 4), nn.ConvTranspose2d(4, 2, 2, stride=2),
    nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(32, 8), nn.Dropout(0.0), nn.Unflatten(1, (2, 4)), nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
    nn.LSTM(4, 4),
]
model, x = nn.Sequential(*layers), torch.randn(2, 3, 8, 8)
compiled = framejit.compile(model.eval(), backend="eager", fullgraph=True)
for ours, eager in zip(torch.utils._pytree.tree_leaves(compiled(x)), torch.utils._pytree.tree_leaves(model(x))):
    assert torch.equal(ours, eager)
"""
INDICES = """
import torch.nn.functional as F

def program(x, index):
    changed = x.clone()
    changed[0], changed[:, 1] = 1.0, x[:, 0]
    changed[x > 0] = 0.0
    changed.index_add_(0, index, x[:2]).clamp_(-1).copy_(changed.roll(1, 0)).masked_fill_(x.isnan(), 0.0)
    found = changed.gather(1, index[None].expand(4, 2)), changed.topk(2)[0], changed.scatter(0, index[None], 1.0), F.one_hot(index, 4)
    views = changed.permute(1, 0).unfold(0, 2, 1).diagonal(), changed.unbind(0)[0], changed.chunk(2)[1], changed.flip(0).repeat(2, 1)[None].squeeze(0)
    return *found, *views, torch.einsum("ij,kj->ik", changed, x), F.pad(changed, (1, 1)), F.interpolate(changed[None, None], scale_factor=2, mode="bilinear")

x, index = torch.randn(4, 4), torch.tensor([0, 1])
for ours, eager in zip(framejit.compile(program, backend="eager", fullgraph=True)(x, index), program(x, index)):
    assert torch.equal(ours, eager)
"""
BACKWARD = """
parameter = torch.nn.Parameter(torch.ones(3))
framejit.compile(lambda x: (x * 2).relu().sum(), backend="eager", fullgraph=True)(parameter).backward()
assert parameter.grad.tolist() == [2.0, 2.0, 2.0]
"""
NO_TENSOR = """
assert framejit.compile(lambda a, b: [a, b * 2], backend="eager", fullgraph=True)(1, 2) == [1, 4]
"""
BREAK = """
def program(x):
    y = x + 1
    framejit.graph_break()
    return y * 2

assert framejit.compile(program, backend="eager")(torch.ones(2)).tolist() == [4.0, 4.0]
"""
INFERENCE = """
with torch.inference_mode():
    assert framejit.compile(lambda x: x.mul_(2) + 1, backend="eager", fullgraph=True)(torch.ones(2)).tolist() == [3.0, 3.0]
"""


@pytest.mark.parametrize(
    "program", [FIRST, MODEL, OPERATORS, LAYERS, INDICES, BACKWARD, NO_TENSOR, BREAK, INFERENCE],
    ids=["first", "model", "operators", "layers", "indices", "backward", "no tensor", "break", "inference"],
)  # fmt: skip
def test_a_first_compile_imports_no_heavy_package(program: str) -> None:
    modules = run(program + "found = sorted(set(sys.modules) - with_torch)")
    assert not packages(modules)
    print(sum(module.startswith("framejit") for module in modules), "modules of framejit,", len(modules), "in all")


AT_BREAKS = {"framejit.codegen.generators", "framejit.codegen.resume", "framejit.compiler.broken", "framejit.tracing.splitting"}
NEEDED_LATER = (
    "framejit.backends.contexts", "framejit.backends.in_contexts", "framejit.backends.regions", "framejit.backends.undefined_gradients",
    "framejit.compiler.backward_guards", "framejit.guards.prove", "framejit.tracing.branches", "framejit.tracing.empty_ways", "framejit.tracing.suspended",
    *sorted(AT_BREAKS),
)  # fmt: skip
"""Modules of framejit that neither the backend `eager` needs nor a trace without graph breaks and branches on data."""


def test_a_first_compile_imports_nothing_for_breaks_branches_and_other_backends() -> None:
    assert not packages(run(MODEL + "found = sorted(sys.modules)"), NEEDED_LATER)
    assert packages(run(BREAK + "found = sorted(sys.modules)"), NEEDED_LATER) == AT_BREAKS


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        ('framejit.compile(lambda x: x * x.size(0), backend="eager", dynamic=True, fullgraph=True)(torch.ones(3))', [3.0, 3.0, 3.0]),
        ('framejit.compile(lambda x: x.nonzero(), backend="eager", fullgraph=True)(torch.eye(2))', [[0, 0], [1, 1]]),
        ('framejit.compile(lambda x: torch.full((2,), x.sum().item()), backend="eager", fullgraph=True)(torch.ones(2))', [2.0, 2.0]),
        ('framejit.compile(lambda x: x + 1, backend="aot_eager", fullgraph=True)(torch.ones(2))', [2.0, 2.0]),
        ('framejit.compile(lambda x: x + 1, backend=lambda graph, inputs: graph, fullgraph=True)(torch.ones(2))', [2.0, 2.0]),
        ('framejit.compile(lambda x: torch.cond(x.sum() > 1, torch.sin, torch.cos, (x,)), backend="eager", fullgraph=True)(torch.zeros(2))', [1.0, 1.0]),
    ],
    ids=["dynamic", "size of data", "number of data", "aot_eager", "callable", "cond"],
)  # fmt: skip
def test_symbols_and_graphs_of_others_import_what_they_need(program: str, wanted: list[Any]) -> None:
    """In a process that has compiled something without them before."""
    result, modules = run(f"{FIRST}result = {program}\nfound = result.tolist(), sorted(set(sys.modules) - with_torch)")
    assert result == wanted
    assert "torch._dynamo" in packages(modules)


def test_a_size_that_varies_becomes_symbolic() -> None:
    """The second trace has the first symbol of the process."""
    found = run("""
        f = framejit.compile(lambda x: x.sum() * x.size(0), backend="eager", fullgraph=True)
        results = [f(torch.ones(n)).item() for n in (2, 3, 4, 5)]
        found = results, framejit.statistics()["graphs"]
    """)
    assert found == [[4.0, 9.0, 16.0, 25.0], 2]


SAID_TO_TORCH = {
    "mark_dynamic": ("""
        y = torch.ones(3)
        torch._dynamo.mark_dynamic(y, 0)
        f = framejit.compile(lambda x: x + x.size(0), backend="eager", fullgraph=True)
        f(y), f(torch.ones(4))
        found = framejit.statistics()["graphs"]
    """, 2),
    "mark_static": ("""
        f = framejit.compile(lambda x: x + x.size(0), backend="eager", fullgraph=True)
        for n in (3, 4, 5):
            y = torch.ones(n)
            torch._dynamo.mark_static(y, 0)
            f(y)
        found = framejit.statistics()["graphs"]
    """, 4),
    "graph_break": ("""
        def program(x):
            y = x + 1
            torch._dynamo.graph_break()
            return y * 2
        framejit.compile(program, backend="eager")(x)
        found = framejit.statistics()["graph_breaks"]
    """, 1),
    "disable": ("""
        inner = torch._dynamo.disable(lambda x: x + (1 if torch.compiler.is_compiling() else 2))
        found = framejit.compile(lambda x: inner(x) * 2, backend="eager")(x).tolist() + [framejit.statistics()["graph_breaks"]]
    """, [6.0, 6.0, 6.0, 1]),
    "compiler.disable": ("""
        inner = torch.compiler.disable(lambda x: x + (1 if torch.compiler.is_compiling() else 2))
        found = framejit.compile(lambda x: inner(x) * 2, backend="eager")(x).tolist() + [framejit.statistics()["graph_breaks"]]
    """, [6.0, 6.0, 6.0, 1]),
    "allow_in_graph": ("""
        def opaque(x):
            return x + len(repr(type(x)))
        torch._dynamo.allow_in_graph(opaque)
        framejit.compile(lambda x: opaque(x), backend="eager", fullgraph=True)(x)
        found = framejit.statistics()["graphs"]
    """, 2),
    "assume_constant_result": ("""
        answers = [5]
        constant = torch.compiler.assume_constant_result(lambda: answers[0])
        f = framejit.compile(lambda x: x + constant(), backend="eager", fullgraph=True)
        f(x)
        answers[0] = 7
        found = f(x).tolist()
    """, [6.0, 6.0, 6.0]),
    "set_stance": ("""
        f = framejit.compile(lambda x: x + (1 if torch.compiler.is_compiling() else 2), backend="eager")
        first = f(x).tolist()
        with torch.compiler.set_stance("force_eager"):
            second = f(x).tolist()
        found = first + second
    """, [2.0, 2.0, 2.0, 3.0, 3.0, 3.0]),
    "is_compiling": ("""
        found = framejit.compile(lambda x: x + (1 if torch.compiler.is_compiling() else 2), backend="eager")(x).tolist()
    """, [2.0, 2.0, 2.0]),
    "is_in_onnx_export": ("""
        found = framejit.compile(lambda x: x + (1 if torch.onnx.is_in_onnx_export() else 2), backend="eager", fullgraph=True)(x).tolist()
    """, [3.0, 3.0, 3.0]),
    "config": ("""
        def program(x):
            import torch._dynamo.config
            from torch.fx.experimental import symbolic_shapes
            return x + (1 if torch._dynamo.config.suppress_errors else 2)
        found = framejit.compile(program, backend="eager", fullgraph=True)(x).tolist()
    """, [3.0, 3.0, 3.0]),
}  # fmt: skip
"""Programs that use torch's own tracer after framejit has compiled something without it."""


@pytest.mark.parametrize(
    ("said", "imports"),
    [pytest.param(said, True, marks=() if said in ("graph_break", "set_stance") else pytest.mark.slow) for said in SAID_TO_TORCH]
    + [("graph_break", False), pytest.param("mark_dynamic", False, marks=pytest.mark.slow)],
)
def test_what_is_said_to_torchs_tracer_later_counts(said: str, imports: bool) -> None:
    program, wanted = SAID_TO_TORCH[said]
    first = f"{FIRST}\nassert 'torch._dynamo' not in sys.modules\nx = torch.ones(3)\n" + ("import torch._dynamo\n" if imports else "")
    assert run(first + textwrap.dedent(program)) == wanted


def test_distributed_tensors_are_known_once_their_module_is_there() -> None:
    found = run("""
        framejit.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(3))
        assert "torch.distributed.tensor" not in sys.modules
        from torch.distributed.tensor import DTensor, Replicate, init_device_mesh
        from torch.testing._internal.distributed.fake_pg import FakeStore
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
        mesh = init_device_mesh("cpu", (2,))

        def program(x):
            return DTensor.from_local(x, mesh, [Replicate()], run_check=False).to_local() + 1

        found = framejit.compile(program, backend="eager", fullgraph=True)(torch.ones(2)).tolist()
    """)
    assert found == [2.0, 2.0]


def test_torch_compile_works_beside() -> None:
    """After a trace, torch's hidden functions have no answer of framejit's left, and torch.compile works."""
    found = run("""
        framejit.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(3))
        from framejit.torch_state import peer
        left = [function for function in peer.hidden_functions() if hasattr(function, peer.ANSWER)]
        meta = torch.ones(3, device="meta") * 2 + 1
        remembered = {getattr(function, peer.ANSWER).__module__ for function in peer.hidden_functions() if hasattr(function, peer.ANSWER)}
        found = len(left), meta.shape, sorted(remembered), torch.compile(lambda x: x * 2 + 1, backend="eager")(torch.ones(2)).tolist()
    """)
    assert found[0] == 0 and found[1] == [3] and found[3] == [3.0, 3.0]
    assert found[2] and "framejit.torch_state.peer" not in found[2]


def test_an_import_that_changes_what_a_trace_has_read_compiles_nothing_twice() -> None:
    """torch's tracer adds to the registry of containers, whose length the trace of `torch.cond` has read. FRAMEJIT_CHECK=compile looks at the new guards."""
    found = run("""
        import torch.utils._pytree as pytree
        before = len(pytree.SUPPORTED_NODES)
        framejit.compile(lambda x: torch.cond(x.sum() > 1, torch.sin, torch.cos, (x,)), backend="eager", fullgraph=True)(torch.zeros(2))
        found = len(pytree.SUPPORTED_NODES) > before, framejit.statistics()["frames"]
    """, FRAMEJIT_CHECK="compile")  # fmt: skip
    assert found == [True, 1]


def test_an_entry_that_was_made_before_the_import_is_asked_for_errors() -> None:
    found = run("""
        def program(x):
            y = x + 1
            framejit.graph_break()
            return y * 2
        compiled, x = framejit.compile(program, backend="eager"), torch.ones(2)
        compiled(x)
        before = "torch._dynamo" in sys.modules
        import torch._dynamo
        compiled(x)
        found = [before, framejit.statistics()["frames"]]
        try:
            with torch._dynamo.error_on_graph_break(True):
                compiled(x)
        except framejit.Unsupported:
            found.append("raised")
    """)
    assert found == [False, 2, "raised"]


def test_the_first_symbol_leaves_no_entry_to_the_garbage_collector() -> None:
    """A module that is imported on the stack of a trace may keep its frames."""
    found = run("""
        import gc, weakref
        gc.disable()
        f = framejit.compile(lambda x: x.sum() * x.size(0), backend="eager", dynamic=True, fullgraph=True)
        f(torch.ones(3))
        entry = weakref.ref(f.entries[0])
        framejit.reset()
        found = "torch._dynamo" in sys.modules, entry() is None
    """)
    assert found == [True, True]
