"""The stage `graph -> compiled callable`: every backend against running the graph itself, and what it relies upon in torch."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn
from torch._functorch.aot_autograd import aot_module_simplified
from torch._subclasses import FakeTensorMode
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatefulSymbolicContext

import framejit
from framejit.backends import ecosystem, inductor_compile, list_backends, lookup, register_backend, registry
from framejit.backends.compile import compile_graph, copy_graph
from framejit.backends.eager import compile_eager
from framejit.backends.request import (
    CompiledGraph,
    FrozenInputGuard,
    GraphRequest,
    InputInfo,
    ShapeGuard,
    StorageOverlapGuard,
)
from framejit.errors import BackendError, BadArgument, ConfigError, UnknownBackend, UnknownMode, UnknownOption, UnsupportedTorch
from framejit.graph.global_modes import Modes
from framejit.graph.torch_sources import ConstantOf, InputSource, SizeOf, from_torch, to_torch

ALL = ["eager", "aot_eager", "inductor"]
AOT = ["aot_eager", "inductor"]
pytestmark = pytest.mark.only_eager("each test names the backends that it is about")


class ExampleValues(fx.Interpreter):
    """Gives each node its meta["example_value"], as graph capture does."""

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        n.meta["example_value"] = result
        return result


def request(
    fn: Callable[..., tuple], *values: Any, backend: Any = "eager", sources: list[str] | None = None, **kwargs: Any
) -> GraphRequest:
    """A request for `fn`'s graph; nn.Parameters count as parameters, the others as arguments."""
    gm = fx.symbolic_trace(fn)
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    with mode:
        ExampleValues(gm).run(*[mode.from_tensor(v, static_shapes=True) for v in values])
    names = [n.name for n in gm.graph.find_nodes(op="placeholder")]
    infos = [
        InputInfo(
            name,
            sources[i] if sources else f"L[{name!r}]",
            value,
            is_parameter=isinstance(value, nn.Parameter),
            static=isinstance(value, nn.Parameter),
            origin=i,
        )
        for i, (name, value) in enumerate(zip(names, values, strict=True))
    ]
    found = lookup(backend) if not isinstance(backend, registry.Backend) else backend
    return GraphRequest(gm, infos, env, mode, found, **kwargs)


def call(compiled: CompiledGraph, *args: Any) -> Any:
    return compiled.fn(list(args)) if compiled.boxed else compiled.fn(*args)


def clone(values: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [v.detach().clone().requires_grad_(v.requires_grad) for v in values]


def compare(fn: Callable[..., tuple], *values: torch.Tensor, backend: str, **kwargs: Any) -> CompiledGraph:
    """Outputs, mutations and gradients of the compiled graph are those of `fn`."""
    compiled = compile_graph(request(fn, *values, backend=backend, **kwargs))
    ours, theirs = clone(values), clone(values)
    torch.manual_seed(0)
    got = call(compiled, *ours)
    torch.manual_seed(0)
    expected = fn(*theirs)
    assert isinstance(got, (tuple, list))
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert a.requires_grad == b.requires_grad
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(ours, theirs)
    differentiable = [i for i, b in enumerate(expected) if b.requires_grad]
    if differentiable:
        sum(expected[i].sum() for i in differentiable).backward()
        sum(got[i].sum() for i in differentiable).backward()
        for a, b in zip(ours, theirs, strict=True):
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None:
                torch.testing.assert_close(a.grad, b.grad)
    return compiled


def linear(x, w, b):
    return (F.linear(x, w, b),)


def param(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape))


# --- the backends compute what the graph says -------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ALL)
def test_linear_trains(backend):
    compiled = compare(linear, torch.randn(4, 3), param(5, 3), param(5), backend=backend)
    assert compiled.training
    assert compiled.backend == backend


@pytest.mark.parametrize("backend", ALL)
def test_state_at_the_start_of_the_graph_decides_inference(backend):
    with torch.no_grad():
        modes = Modes.read()
    x, w, b = torch.randn(4, 3), param(5, 3), param(5)
    compiled = compile_graph(request(linear, x, w, b, backend=backend, modes=modes))
    assert not compiled.training
    assert torch.is_grad_enabled()
    with torch.no_grad():
        (out,) = call(compiled, x, w, b)
        torch.testing.assert_close(out, linear(x, w, b)[0])
    assert not out.requires_grad


@pytest.mark.parametrize("backend", AOT)
def test_compiled_for_inference_it_detaches_if_called_with_grad(backend):
    # The fact that makes a guard on grad mode necessary.
    x, w, b = torch.randn(4, 3), param(5, 3), param(5)
    with torch.no_grad():
        compiled = compile_graph(request(linear, x, w, b, backend=backend))
    assert not call(compiled, x, w, b)[0].requires_grad


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_convolution(backend):
    compare(lambda x, w: (F.conv2d(x, w).relu(),), torch.randn(1, 2, 5, 5), param(3, 2, 3, 3), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_dropout_uses_the_eager_random_stream(backend):
    compare(lambda x: (F.dropout(x, 0.5, True), x + 1), torch.randn(8, 8, requires_grad=True), backend=backend)


@pytest.mark.parametrize("backend", ALL)
def test_mutated_input_views_and_mixed_requires_grad(backend):
    def fn(x, y, z):
        x.add_(1)
        view = y.view(-1)
        return view, view, (z * 2 + x), y

    compare(fn, torch.randn(2, 2), torch.randn(2, 2), torch.randn(2, 2, requires_grad=True), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_views_of_outputs_alias_as_in_eager(backend):
    x = torch.zeros(4)
    view, same = call(compile_graph(request(lambda x: (x.view(2, 2), x), x, backend=backend)), x)
    view.add_(1)
    assert same is x
    assert x.tolist() == [1.0] * 4


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_trace_may_have_mutated_its_fakes(backend):
    # A new fake mode is needed: the trace's fake of `x` is 2-dimensional by now.
    compare(lambda x: (x.unsqueeze_(0) + 1,), torch.randn(3), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_autocast_of_the_graph_is_in_force_while_compiling(backend):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        modes = Modes.read()
        compiled = compile_graph(request(lambda x, y: (x @ y,), torch.randn(2, 2), torch.randn(2, 2), backend=backend, modes=modes))
        expected = torch.bfloat16
        assert call(compiled, torch.randn(2, 2), torch.randn(2, 2))[0].dtype is expected
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_inference_mode(backend):
    with torch.inference_mode():
        modes = Modes.read()
    x = torch.randn(3)
    compiled = compile_graph(request(lambda x: (x * 2,), x, backend=backend, modes=modes))
    assert not torch.is_inference_mode_enabled()
    with torch.inference_mode():
        assert torch.equal(call(compiled, x)[0], x * 2)


@pytest.mark.parametrize("backend", AOT)
def test_constants_of_the_graph_are_passed_along(backend):
    constant = torch.randn(3)
    graph = fx.Graph()
    x = graph.placeholder("x")
    held = graph.get_attr("c")
    graph.output((graph.call_function(torch.mul, (x, held)),))
    gm = fx.GraphModule({"c": constant}, graph)
    value = torch.randn(3)
    made = GraphRequest(gm, [InputInfo("x", "L['x']", value)], ShapeEnv(), None, lookup(backend))
    compiled = compile_graph(made)
    assert compiled.boxed
    torch.testing.assert_close(call(compiled, value)[0], value * constant)


def test_symbolic_sizes_stay_symbolic_and_guards_come_back():
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    x, y = torch.randn(5, 3), torch.randn(3)
    source = to_torch("L['x']", "origin of x")
    context = StatefulSymbolicContext(
        dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.STATIC],
        dynamic_strides=[DimDynamic.INFER_STRIDE] * 2,
        constraint_sizes=[None, None],
        constraint_strides=[None, None],
        tensor_source=source,
        shape_env_to_source_to_symbol_cache={},
    )
    fake = mode.from_tensor(x, symbolic_context=context, source=source)
    size = fake.shape[0]
    assert isinstance(size, torch.SymInt)
    gm = fx.symbolic_trace(lambda s, x, y: (x * s + y, s + 1))
    with mode:
        ExampleValues(gm).run(size, fake, mode.from_tensor(y, static_shapes=True))
    inputs = [
        InputInfo("s", "L['x'].size()[0]", 5),
        InputInfo("x", "L['x']", x, symbolic_context=context),
        InputInfo("y", "L['y']", y),
    ]
    compiled = compile_graph(GraphRequest(gm, inputs, env, mode, lookup("aot_eager")))
    for n in (5, 7):
        x = torch.randn(n, 3)
        out, following = call(compiled, n, x, y)
        torch.testing.assert_close(out, x * n + y)
        assert following == n + 1
    assert all(isinstance(guard, ShapeGuard) for guard in compiled.guards)
    sources = [from_torch(s) for found in env.var_to_sources.values() for s in found]
    assert SizeOf("origin of x", 0) in sources


def test_static_by_default_for_a_backend_that_fakes_real_inputs_itself():
    # Without a symbolic context for each real tensor AOTAutograd would compile symbolic shapes without a word.
    seen = []

    def compiler(gm, inputs):
        seen.extend(inputs)
        return compile_eager(gm, inputs)

    def backend(gm, example_inputs):
        assert type(example_inputs[0]) is torch.Tensor
        return aot_module_simplified(gm, example_inputs, fw_compiler=compiler)

    x = torch.randn(4, 3)
    compiled = compile_graph(request(lambda x: (x + 1,), x, backend=backend))
    assert compiled.boxed
    torch.testing.assert_close(call(compiled, x)[0], x + 1)
    assert [type(n) for fake in seen for n in fake.shape] == [int, int]


# --- what the backend asks for ----------------------------------------------------------------------------------------------


def test_overlapping_storages_are_guarded_where_sizes_are_symbolic():
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    whole = torch.zeros(8)
    values = [whole[:4], whole[4:]]
    fakes, inputs = [], []
    for name, value in zip("xy", values, strict=True):
        source = to_torch(f"L[{name!r}]")
        context = StatefulSymbolicContext(
            dynamic_sizes=[DimDynamic.DYNAMIC],
            dynamic_strides=[DimDynamic.INFER_STRIDE],
            constraint_sizes=[None],
            constraint_strides=[None],
            tensor_source=source,
            shape_env_to_source_to_symbol_cache={},
        )
        fakes.append(mode.from_tensor(value, symbolic_context=context, source=source))
        inputs.append(InputInfo(name, source.name, value, symbolic_context=context))
    gm = fx.symbolic_trace(lambda x, y: (x.add_(1), y.add_(2)))
    compiled = compile_graph(GraphRequest(gm, inputs, env, mode, lookup("aot_eager")))
    assert StorageOverlapGuard(overlapping=(), separate=(0, 1)) in compiled.guards
    call(compiled, *values)
    assert whole.tolist() == [1.0] * 4 + [2.0] * 4


@pytest.mark.parametrize("backend", AOT)
def test_aliased_inputs_of_constant_size_are_compiled_for_without_a_guard(backend):
    # The fact that makes a guard on shared storage the graph builder's business.
    whole = torch.zeros(8)

    def fn(x, y, z):
        return x.add_(1), y + x.sum(), z * 2

    compiled = compile_graph(request(fn, whole[:5], whole[3:], torch.zeros(1), backend=backend))
    assert compiled.guards == ()
    assert call(compiled, whole[:5], whole[3:], torch.zeros(1))[1].tolist() == [6.0] * 2 + [5.0] * 3
    whole.zero_()
    separate = torch.zeros(5)
    try:
        assert call(compiled, whole[:5], separate, torch.zeros(1))[1].tolist() != [5.0] * 5
    except AssertionError as refused:
        assert "synthetic_base_info" in str(refused)  # torch 2.11 notices


def test_lists_are_emptied_and_inputs_die_inside_the_call():
    alive = []

    def probe(y):
        alive.append(reference())

    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.add, (x, 1))
    graph.call_function(probe, (y,))
    graph.output((y,))
    value = torch.randn(3)
    compiled = compile_graph(GraphRequest(fx.GraphModule({}, graph), [InputInfo("x", "L['x']", value)], ShapeEnv(), None, lookup("eager")))
    args = [torch.randn(3)]
    reference = weakref.ref(args[0])
    compiled.fn(args)
    assert args == []
    assert alive == [None]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_graph_modules_that_generate_code_late(backend):
    made = request(linear, torch.randn(4, 3), param(5, 3), param(5), backend=backend)
    lazy = _LazyGraphModule(made.gm, made.gm.graph)
    x, w, b = (info.value for info in made.inputs)
    compiled = compile_graph(replace(made, gm=lazy))
    torch.testing.assert_close(call(compiled, x, w, b)[0], linear(x, w, b)[0])
    assert lazy.forward.__name__ == "forward" or backend == "aot_eager"


@pytest.mark.parametrize("backend", ALL)
def test_batch_norm_updates_its_buffers_in_place(backend):
    def fn(x, w, mean, var, steps):
        steps.add_(1)
        return F.batch_norm(x, mean, var, w, None, training=True), steps * 2

    values = torch.randn(4, 3), param(3), torch.zeros(3), torch.ones(3), torch.tensor(0)
    made = request(fn, *values, backend=backend)
    held = [replace(info, is_buffer=True, static=True) if i >= 2 else info for i, info in enumerate(made.inputs)]
    compiled = compile_graph(replace(made, inputs=held))
    ours, theirs = clone(values), clone(values)
    for _ in range(2):
        for a, b in zip(call(compiled, *ours), fn(*theirs), strict=True):
            torch.testing.assert_close(a, b)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("backend", AOT)
def test_boxed_lists_are_emptied_in_inference(backend):
    x, w, b = torch.randn(4, 3), param(5, 3), param(5)
    with torch.no_grad():
        compiled = compile_graph(request(linear, x, w, b, backend=backend))
        args = [x, w, b]
        assert compiled.boxed
        compiled.fn(args)
        assert args == []


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("training", [True, False])
def test_callable_and_inputs_are_freed(backend, training):
    with torch.set_grad_enabled(training):
        x, w, b = torch.randn(4, 3), param(5, 3), param(5)
        made = request(linear, x, w, b, backend=backend)
        graph = weakref.ref(made.gm)
        compiled = compile_graph(made)
        out = call(compiled, x, w, b)
        if training:
            out[0].sum().backward()
    tensors = [weakref.ref(t) for t in (x, w, b, out[0])]
    fn = weakref.ref(compiled.fn)
    del made, x, w, b, out
    gc.collect()
    assert [t() for t in tensors] == [None] * 4
    del compiled
    gc.collect()
    assert fn() is None
    assert graph() is None


def test_freezing_bakes_parameters_in_and_asks_for_identity():
    backend = lookup("inductor", options={"freezing": True})
    x, w, b = torch.randn(4, 3), param(5, 3), param(5)
    with torch.no_grad():
        compiled = compile_graph(request(linear, x, w, b, backend=backend))
        assert compiled.boxed
        assert compiled.guards == (FrozenInputGuard(1), FrozenInputGuard(2))
        before = linear(x, w, b)[0]
        args = [x, w, b]
        torch.testing.assert_close(compiled.fn(args)[0], before)
        assert args == []
        # Other tensors in the frozen places are not looked at: that is why identity is guarded.
        torch.testing.assert_close(call(compiled, x, torch.zeros(5, 3), torch.zeros(5))[0], before)
    # With gradients on, nothing is frozen.
    assert compile_graph(request(linear, x, w, b, backend=backend)).guards == ()


def test_freezing_can_discard_the_parameters():
    module = nn.Linear(3, 5)
    x = torch.randn(4, 3)
    backend = lookup("inductor", options={"freezing": True, "freezing_discard_parameters": True})
    with torch.no_grad():
        expected = module(x)
        made = request(linear, x, module.weight, module.bias, backend=backend, modules={"L['self']": module})
        compiled = compile_graph(made)
        torch.testing.assert_close(call(compiled, x, module.weight, module.bias)[0], expected)
    assert module.weight.device.type == "meta"


CACHE_PROGRAM = """
import json, sys
sys.path.insert(0, {tests!r})
import torch
from test_backends import call, compile_graph, linear, param, request
from torch._dynamo.utils import counters
torch.manual_seed(0)
x, w, b = torch.randn(4, 3), param(5, 3), param(5)
sources = ["L['x']", "L['self']._parameters['weight']", "L['self']._parameters['bias']"]
compiled = compile_graph(request(linear, x, w, b, backend="inductor", sources=sources, frame_id=int(sys.argv[1])))
out = call(compiled, x, w, b)[0]
out.sum().backward()
print(json.dumps([dict(counters["aot_autograd"]), dict(counters["inductor"]), out.tolist(), w.grad.tolist()]))
"""


@pytest.mark.slow
def test_second_process_hits_both_caches(tmp_path):
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    runs = []
    for process in range(2):
        program = CACHE_PROGRAM.format(tests=str(Path(__file__).parent))
        done = subprocess.run([sys.executable, "-c", program, str(process)], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    (first_aot, first_inductor, *first), (second_aot, second_inductor, *second) = runs
    assert first == second
    assert first_aot.get("autograd_cache_bypass", 0) == 0
    assert first_aot["autograd_cache_miss"] == 1
    assert first_aot["autograd_cache_saved"] == 1
    assert second_aot["autograd_cache_hit"] == 1
    assert second_inductor["fxgraph_cache_hit"] >= 1
    assert second_inductor.get("fxgraph_cache_miss", 0) == 0


def test_views_at_other_places_of_a_changed_tensor_are_not_taken_from_the_cache():
    def change(x, row):
        row.add_(1)
        return x * 2

    compiled = framejit.compile(change, backend="inductor")
    for place in (1, 2, 0, 2):
        x, y = torch.arange(12.0).view(3, 4), torch.arange(12.0).view(3, 4)
        assert torch.equal(compiled(x, x[place]), change(y, y[place]))


FAKE_SAYS = {"the truth": False}


@torch.library.custom_op("framejit_backends::twice_as_long", mutates_args=())
def twice_as_long(t: torch.Tensor) -> torch.Tensor:
    return torch.cat([t, t])


@twice_as_long.register_fake
def fake_of_twice_as_long(t):
    return t.new_empty(2 * t.shape[0]) if FAKE_SAYS["the truth"] else torch.empty_like(t)


@pytest.mark.slow
def test_code_for_a_wrong_fake_is_not_taken_from_the_cache_after_the_fake_is_corrected(monkeypatch):
    x = torch.randn(4)
    with pytest.raises(AssertionError):
        framejit.compile(lambda t: twice_as_long(t.sin()) * 2, backend="inductor")(x)
    monkeypatch.setitem(FAKE_SAYS, "the truth", True)
    found = framejit.compile(lambda t: twice_as_long(t.sin()) * 2, backend="inductor")(x)
    torch.testing.assert_close(found, twice_as_long(x.sin()) * 2)


@pytest.fixture
def compiles_of_inductor(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], int]]:
    """Return a list of Inductor's compilations: for each the keyword arguments, and the option `max_fusion_size` that was in force."""
    seen: list[tuple[dict[str, Any], int]] = []
    inner = inductor_compile.compile_fx_inner

    def keep(gm, inputs, **kwargs):
        seen.append((kwargs, inductor_compile.config.max_fusion_size))
        return inner(gm, inputs, **kwargs)

    monkeypatch.setattr(inductor_compile, "compile_fx_inner", keep)
    return seen


def test_parameters_are_static_inputs(compiles_of_inductor):
    with torch.no_grad(), torch._functorch.config.patch(enable_autograd_cache=False):
        compile_graph(request(linear, torch.randn(4, 3), param(5, 3), param(5), backend=lookup("inductor")))
    assert [list(kwargs["static_input_idxs"]) for kwargs, _ in compiles_of_inductor] == [[1, 2]]


def test_options_hold_for_the_backward_pass_too(compiles_of_inductor):
    with torch._functorch.config.patch(enable_autograd_cache=False):
        x, w, b = torch.randn(4, 3), param(5, 3), param(5)
        compiled = compile_graph(request(linear, x, w, b, backend=lookup("inductor", options={"max_fusion_size": 17})))
        call(compiled, x, w, b)[0].sum().backward()
    assert [(kwargs.get("is_backward", False), size) for kwargs, size in compiles_of_inductor] == [(False, 17), (True, 17)]
    assert inductor_compile.config.max_fusion_size != 17


# --- finding backends, modes and options ------------------------------------------------------------------------------------


def test_misspelt_backend_gets_a_suggestion():
    with pytest.raises(UnknownBackend, match="there is no backend 'inducter'; did you mean 'inductor'"):
        lookup("inducter")
    with pytest.raises(TypeError, match="backend= is a name or a callable"):
        lookup(3)


def test_list_backends():
    assert {"eager", "aot_eager", "inductor"} <= set(list_backends())
    assert list_backends() == sorted(list_backends())


def test_registered_backend(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})

    @register_backend(name="mine")
    def backend(gm, inputs):
        return gm.forward

    assert "mine" in list_backends()
    assert lookup("mine").call is backend
    assert register_backend(backend, "mine") is backend
    with pytest.raises(ConfigError, match="already a backend named 'mine'"):
        register_backend(lambda gm, inputs: gm, "mine")
    with pytest.raises(ConfigError, match="already a backend named 'eager'"):
        register_backend(backend, "eager")
    with pytest.raises(BadArgument, match="takes a callable"):
        register_backend(3)
    with pytest.raises(BadArgument, match="a lambda has no name of its own"):
        register_backend(lambda gm, inputs: gm)
    compare(linear, torch.randn(4, 3), param(5, 3), param(5), backend="mine")


def test_backend_from_an_entry_point(monkeypatch):
    def points(*, group):
        assert group == "torch_dynamo_backends"
        return metadata.EntryPoints(
            [
                metadata.EntryPoint("dumps_elsewhere", "json:dumps", group),
                metadata.EntryPoint("broken", "no_such_module_here:backend", group),
            ]
        )

    monkeypatch.setattr(metadata, "entry_points", points)
    assert "dumps_elsewhere" in list_backends()
    assert lookup("dumps_elsewhere").call is json.dumps
    with pytest.raises(BackendError, match="'broken' could not be loaded from entry point 'no_such_module_here:backend'"):
        lookup("broken")


def test_backend_registered_with_torch():
    found = lookup("eager_noexcept")
    compiled = compile_graph(request(linear, torch.randn(4, 3), param(5, 3), param(5), backend=found))
    assert call(compiled, torch.randn(4, 3), param(5, 3), param(5))[0].shape == (4, 5)


def test_modes():
    assert lookup("inductor", mode="default") == lookup("inductor")
    assert lookup("inductor", mode="reduce-overhead").cudagraphs()
    assert not lookup("inductor", mode="max-autotune-no-cudagraphs").cudagraphs()
    assert lookup("inductor", mode="max-autotune").patches["max_autotune"] is True
    with pytest.raises(UnknownMode, match="no mode 'max-autotun'; did you mean 'max-autotune'"):
        lookup("inductor", mode="max-autotun")
    with pytest.raises(ConfigError, match="mode= is a string"):
        lookup("inductor", mode=1)


def test_options():
    assert lookup("inductor", options={"max-autotune": True}).patches == {"max_autotune": True}
    with pytest.raises(UnknownOption, match="no option 'max_autotun'; did you mean 'max_autotune'"):
        lookup("inductor", options={"max_autotun": True})
    with pytest.raises(ConfigError, match="option 'max_autotune' of backend 'inductor' is of type bool; got 'yes' of type str"):
        lookup("inductor", options={"max_autotune": "yes"})
    with pytest.raises(ConfigError, match="not both"):
        lookup("inductor", mode="max-autotune", options={"max_autotune": True})
    with pytest.raises(ConfigError, match="options= is a dict"):
        lookup("inductor", options=["max_autotune"])


def test_options_of_another_backend():
    seen = {}

    def takes(gm, inputs, options=None, mode=None):
        seen.update(options=options, mode=mode)
        return gm.forward

    compile_graph(request(linear, torch.randn(4, 3), param(5, 3), param(5), backend=lookup(takes, options={"a": 1})))
    assert seen == {"options": {"a": 1}, "mode": None}
    with pytest.raises(ConfigError, match="backend 'eager' takes no mode="):
        lookup("eager", mode="max-autotune")
    with pytest.raises(ConfigError, match="backend 'aot_eager' takes no options="):
        lookup("aot_eager", options={"a": 1})
    assert lookup("eager", mode="default").kwargs == {}


# --- backends that misbehave ------------------------------------------------------------------------------------------------


def compile_with(backend: Callable[..., Any]) -> CompiledGraph:
    return compile_graph(request(linear, torch.randn(4, 3), param(5, 3), param(5), backend=backend))


def test_backend_that_raises():
    def broken(gm, inputs):
        raise RuntimeError("no such device")

    with pytest.raises(BackendError, match="backend 'broken' raised RuntimeError: no such device") as info:
        compile_with(broken)
    assert isinstance(info.value.__cause__, RuntimeError)
    assert info.value.backend == "broken"


def test_backend_that_is_interrupted():
    def slow(gm, inputs):
        raise KeyboardInterrupt

    with torch.no_grad():
        modes = Modes.read()
    with pytest.raises(KeyboardInterrupt):
        compile_graph(request(linear, torch.randn(4, 3), param(5, 3), param(5), backend=slow, modes=modes))
    assert torch.is_grad_enabled()
    assert torch._guards.TracingContext.try_get() is None


def test_backend_that_returns_no_callable():
    with pytest.raises(BackendError, match="returned 42 of type int; it must return a callable"):
        compile_with(lambda gm, inputs: 42)


def test_callable_that_returns_no_tuple():
    compiled = compile_with(lambda gm, inputs: lambda *args: gm(*args)[0])
    with pytest.raises(BackendError, match="returned a Tensor; the graph has a tuple of 1 outputs"):
        call(compiled, torch.randn(4, 3), param(5, 3), param(5))
    compiled = compile_with(lambda gm, inputs: lambda *args: [*gm(*args), 1])
    with pytest.raises(BackendError, match="returned 2 outputs; the graph has a tuple of 1 outputs"):
        call(compiled, torch.randn(4, 3), param(5, 3), param(5))


def test_third_party_callables_may_be_boxed():
    def backend(gm, inputs):
        def run(args):
            out = gm(*args)
            args.clear()
            return out

        run._boxed_call = True
        return run

    compiled = compile_with(backend)
    assert compiled.boxed
    args = [torch.randn(4, 3), param(5, 3), param(5)]
    compiled.fn(args)
    assert args == []


def test_requests_that_break_their_contract():
    x = torch.randn(2)
    with pytest.raises(ValueError, match="inputs 'a' and 'b' are the same tensor"):
        compile_graph(request(lambda a, b: (a + b,), x, x))
    with pytest.raises(ValueError, match="have the same source L\\['a'\\]"):
        compile_graph(request(lambda a, b: (a + b,), x, torch.randn(2), sources=["L['a']", "L['a']"]))
    with pytest.raises(ValueError, match="must return a tuple"):
        compile_graph(request(lambda a: a + 1, x))


def test_copy_survives_the_backend():
    made = request(linear, torch.randn(4, 3), param(5, 3), param(5), backend="aot_eager")
    before = str(made.gm.graph)
    kept = copy_graph(made.gm)
    compile_graph(made)
    assert str(kept) == before
    kept.lint()


# --- torch's names, and sources ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adapter", ["eager", "contexts", "symbols", "aot_eager", "inductor"])
def test_torch_has_the_names(adapter):
    assert ecosystem.missing_names(ecosystem._NEEDED[adapter]) == []


def test_a_name_that_moved_gives_a_clear_error(monkeypatch):
    needed = {"torch._guards:TracingContext": ("fake_mode", "colour"), "torch._guards:NoSuchThing": (), "torch.no_such_module:x": ()}
    monkeypatch.setitem(ecosystem._NEEDED, "eager", needed)
    monkeypatch.setattr(ecosystem, "_checked", set())
    with pytest.raises(UnsupportedTorch) as info:
        lookup("eager")
    for text in ("TracingContext(colour=)", "torch._guards.NoSuchThing", "torch.no_such_module.x", torch.__version__):
        assert text in str(info.value)


def test_sources_compare_by_name_and_come_back():
    source = to_torch("L['x']['{k}']", origin=("our", "source"))
    assert source == InputSource("L['x']['{k}']")
    assert hash(source) == hash(InputSource("L['x']['{k}']"))
    assert source.name == "L['x']['{k}']"
    assert from_torch(source) == ("our", "source")
    theirs = sys.modules["torch._dynamo.source"]
    size = theirs.TensorPropertySource(source, theirs.TensorProperty.SIZE, 1)
    assert size.name == "L['x']['{k}'].size()[1]"
    assert from_torch(size) == SizeOf(("our", "source"), 1)
    assert from_torch(theirs.ConstantSource("s0")) == ConstantOf("s0")
    with pytest.raises(TypeError, match="did not come from framejit"):
        from_torch(theirs.GlobalSource("x"))


def test_cudagraph_steps_advance_torchs_generation():
    tracker = sys.modules["torch._dynamo.mutation_guard"].GenerationTracker
    before = tracker.generation
    ecosystem.begin_cudagraph_step()
    assert tracker.generation == before + 1


def steps_by_a_factor(parameter, other, a, b):
    parameter.add_(a.t() @ b, alpha=-0.1)
    return torch.add(a.t() @ b, other, alpha=2), torch.add(other, a.t() @ b, alpha=0.5), other.sub(a.t() @ b, alpha=3)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_factors_of_sums_with_products_of_matrices(backend: str) -> None:
    """Inductor itself loses the factors (torch 2.13)."""
    torch.manual_seed(0)
    given = torch.randn(4, 3), torch.randn(4, 3), torch.randn(5, 4), torch.randn(5, 3)
    for dtype in (torch.float32, torch.bfloat16):
        ours, eagers = ([tensor.to(dtype) for tensor in given] for _ in range(2))
        found, expected = framejit.compile(steps_by_a_factor, backend=backend)(*ours), steps_by_a_factor(*eagers)
        torch.testing.assert_close([ours[0], *found], [eagers[0], *expected])
