"""The fake mode of a trace gives the fakes, and the results of operators on them, that torch's own gives."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

import framejit
from framejit.graph import fake_mode
from framejit.graph.fake_mode import begin_symbols, make_fake_mode
from framejit.graph.shape_env import TraceShapeEnv
from framejit.torch_state import peer


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's own tracer and its distributed tensors are as if nothing had imported them, and the tracer isn't asked for."""
    monkeypatch.setattr(peer, "is_there", lambda: False)
    monkeypatch.setattr(fake_mode, "is_loaded", lambda name: False)
    monkeypatch.setattr(peer, "bring", lambda: pytest.fail("torch's own tracer is asked for"))


def looks(fake: Any, others: list[Any]) -> Any:
    """Return all properties of a fake tensor, with the numbers of the other values that share its memory."""
    if not isinstance(fake, torch.Tensor):
        return type(fake), repr(fake)
    assert type(fake) is FakeTensor
    flags = fake.requires_grad, fake.is_leaf, fake._is_view(), fake.is_inference(), fake.is_conj(), fake.is_neg(), isinstance(fake, torch.nn.Parameter)
    memory = fake.untyped_storage()
    shared = [index for index, other in enumerate(others) if isinstance(other, torch.Tensor) and other.untyped_storage()._cdata == memory._cdata]
    record = None if fake.grad_fn is None else type(fake.grad_fn).__name__
    created = torch._C._autograd._get_creation_meta(fake) if fake._is_view() and not fake.is_inference() else None
    known = None if fake.constant is None else fake.constant.tolist()
    return (
        fake.size(), fake.stride(), fake.storage_offset(), fake.dtype, fake.device, flags, torch._C._dispatch_keys(fake).raw_repr(), memory.nbytes(), shared,
        record, created, -1 if fake.is_inference() else fake._version, known, fake.item_memo,
    )  # fmt: skip


def made_in_inference_mode() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(2, 3)


def without_record() -> torch.Tensor:
    with torch.no_grad():
        return torch.ones(4, requires_grad=True)[1:]


def of_other_data() -> torch.Tensor:
    changed = torch.ones(6)
    changed.data = torch.zeros(3, 4)
    return changed


def pair_of_views() -> list[torch.Tensor]:
    base = torch.arange(12.0)
    return [base[2:8].view(2, 3), base, base.view(3, 4).t()]


def pair_in_one_memory() -> list[torch.Tensor]:
    first = torch.ones(6)
    return [first, torch.empty(0).set_(first.untyped_storage(), 0, (3,), (1,))]


def with_gradient() -> torch.Tensor:
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.sum().backward()
    return parameter


TENSORS: dict[str, Callable[[], Any]] = {
    "plain": lambda: torch.ones(2, 3),
    "number": lambda: torch.tensor(3),
    "empty": lambda: torch.ones(0, 3),
    "transposed copy": lambda: torch.empty_strided((2, 3), (1, 2)),
    "parameter": lambda: torch.nn.Parameter(torch.ones(3)),
    "frozen parameter": lambda: torch.nn.Parameter(torch.ones(3), requires_grad=False),
    "buffer": lambda: torch.nn.Buffer(torch.ones(3)),
    "leaf": lambda: torch.ones(3, requires_grad=True),
    "with a record": lambda: torch.ones(3, requires_grad=True) * 2,
    "with a gradient": with_gradient,
    "view": lambda: torch.ones(3, 4)[1:, ::2],
    "transposed view": lambda: torch.ones(3, 4).t(),
    "view of a leaf": lambda: torch.ones(4, requires_grad=True)[1:],
    "view without a record": without_record,
    "detached": lambda: torch.ones(4, requires_grad=True).detach(),
    "view of another type": lambda: torch.ones(4).view(torch.int32),
    "expanded": lambda: torch.ones(1, 3).expand(4, 3),
    "conjugate": lambda: torch.ones(2, dtype=torch.complex64).conj(),
    "of inference mode": made_in_inference_mode,
    "of other data": of_other_data,
    "views of one": pair_of_views,
    "one memory": pair_in_one_memory,
    "one tensor twice": lambda: [one := torch.ones(2), one],
    "no memory": lambda: (freed := torch.ones(3), freed.untyped_storage().resize_(0))[0],
    "on another device": lambda: torch.ones(3, device="meta"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_fakes_are_torchs(name: str) -> None:
    tensors = pytree.tree_leaves(TENSORS[name]())
    found = []
    for mode in (make_fake_mode(), FakeTensorMode(shape_env=TraceShapeEnv())):
        fakes = [mode.from_tensor(tensor, static_shapes=True) for tensor in tensors]
        found.append([looks(fake, fakes) for fake in fakes])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["plain", "parameter", "leaf", "with a record", "view", "transposed view", "expanded", "of inference mode", "views of one"])
def test_the_fakes_of_dense_tensors_need_nothing_else(alone: None, name: str) -> None:
    mode = make_fake_mode()
    for tensor in pytree.tree_leaves(TENSORS[name]()):
        mode.from_tensor(tensor, static_shapes=True)


def changing(x: torch.Tensor) -> torch.Tensor:
    found = x.clone()
    found[0] = 1.0
    found.add_(2).t_()
    return found


def with_constants(x: torch.Tensor) -> Any:
    scale = torch.tensor([2.0, 3.0, 4.0])
    again = scale
    result = x * scale
    scale.add_(x[0])  # whose data isn't known any more
    return result, again + x


OPERATORS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x: (x + 1, x * x, 2 / x, x // 2, x**2, -x, x > 0),
    "promotion": lambda x: (x + torch.arange(3), x.to(torch.int32) / 2, (x > 0) + 1, x.half() * x),
    "broadcast": lambda x: x[:, None] * x,
    "views": lambda x: (x.t(), x[1:], x[0], x.view(-1), x.unsqueeze(1).expand(2, 4, 3), x.reshape(3, 2), x.split(1), x.T.reshape(-1)),
    "reductions": lambda x: (x.sum(), x.mean(0), x.max(1), x.argmax(), x.var(dim=1), x.norm(), x.cumsum(0), x.any()),
    "products": lambda x: (x @ x.t(), F.linear(x, x), torch.einsum("ij,kj->ik", x, x), torch.bmm(x[None], x.t()[None])),
    "biased products": lambda x: (F.linear(x, x, x[:, 0]), torch.addmm(x[0], x, x.new_ones(3, 3), beta=2, alpha=0.5), F.linear(x.T, x.T, x[0])),
    "normalised": lambda x: (F.layer_norm(x, (3,)), F.softmax(x, -1), F.log_softmax(x, 0), F.gelu(x), F.silu(x), F.normalize(x)),
    "new tensors": lambda x: (torch.zeros(3), torch.arange(4), torch.full((2,), 1.5), torch.ones_like(x), x.new_empty(2), torch.rand(3)),
    "indices": lambda x: (x[torch.tensor([1, 0])], x.gather(1, torch.zeros(2, 1, dtype=torch.long)), torch.where(x > 0, x, 0.0), x.masked_fill(x > 0, 1.0)),
    "joined": lambda x: (torch.cat([x, x]), torch.stack([x, x], 1), torch.tril(x), x.flip(0), F.pad(x, (1, 1))),
    "changes": changing,
    "constants": with_constants,
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "convolution": lambda x: (F.conv2d(x[None, None], x[None, None], padding=1), F.conv1d(x[None], x[None], padding=1)),
    "loss": lambda x: (F.cross_entropy(x, torch.tensor([0, 2])), F.mse_loss(x, x)),
    "composite": lambda x: F.interpolate(x[None], scale_factor=2.0),
}


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_give_what_torch_gives(alone: None, monkeypatch: pytest.MonkeyPatch, name: str, gradient: bool, cached: bool) -> None:
    tensor = torch.ones(2, 3, requires_grad=gradient)
    found = []
    for mode in (make_fake_mode(), FakeTensorMode()):
        mode.cache_enabled = cached
        fake = mode.from_tensor(tensor, static_shapes=True)
        with mode:
            results = pytree.tree_leaves(OPERATORS[name](fake))
        found.append([looks(each, [fake, *results]) for each in (fake, *results)])
    assert found[0] == found[1]


def square(*strides: int) -> torch.Tensor:
    return torch.rand(64).as_strided((4, 4), strides)


LAYOUTS = {"contiguous": (4, 1), "transposed": (1, 4), "apart": (8, 2), "repeated": (0, 1), "overlapping": (1, 1)}
DECOMPOSED: dict[str, Callable[..., Any]] = {
    "addmm": lambda x, y: (torch.addmm(x, y, x), torch.addmm(y[0], x, y.t(), beta=0), torch.addmm(x[:, :1], x[:, :2], y[:2], alpha=3)),
    "addmm of nothing": lambda x, y: torch.addmm(x, y[:, :0], y[:0]),
    "addmm of ints": lambda x, y: torch.addmm(x.to(torch.int64), y.to(torch.int64), x.to(torch.int64)),
    "addmm of two dtypes": lambda x, y: torch.addmm(x, y.double(), x),
    "addmm of other shapes": lambda x, y: torch.addmm(x, y[:, :3], x),
    "addmm with another bias": lambda x, y: torch.addmm(x[:, :3], y, x),
    "log_softmax": lambda x, y: (F.log_softmax(x, 0), F.log_softmax(y.half(), -1), F.log_softmax(x[0, 0], 0), F.log_softmax(x, 0, dtype=torch.double)),
    "log_softmax of no dimension": lambda x, y: F.log_softmax(x, 2),
    "log_softmax of ints": lambda x, y: torch.ops.aten._log_softmax(x.to(torch.int64), 0, False),
    "nll_loss": lambda x, y: [F.nll_loss(x, y[0].long(), each, reduction=kind) for each in (None, y[0]) for kind in ("none", "mean", "sum")],
    "nll_loss of one": lambda x, y: F.nll_loss(x[0], torch.zeros((), dtype=torch.int64)),
    "nll_loss of other shapes": lambda x, y: F.nll_loss(x, torch.zeros(3, dtype=torch.int64)),
    "gelu": lambda x, y: (F.gelu(x), F.gelu(x.half(), approximate="tanh"), F.gelu(x[0, 0])),
    "layer_norm": lambda x, y: (F.layer_norm(x, (4,)), F.layer_norm(x.double(), (4, 4)), F.layer_norm(x, (4,), y[0], y[:, 0], eps=0.1)),
    "layer_norm's statistics": lambda x, y: [torch.native_layer_norm(each, (4,), None, None, 1e-5) for each in (x, x.half(), x.bfloat16(), x.double())],
    "layer_norm of two dtypes": lambda x, y: torch.native_layer_norm(x, (4,), y[0].bfloat16(), None, 1e-5),
    "layer_norm of other shapes": lambda x, y: F.layer_norm(x, (3,)),
    "layer_norm of ints": lambda x, y: F.layer_norm(x.long(), (4,)),
    "gelu of ints": lambda x, y: F.gelu(x.long()),
    "embedding": lambda x, y: (F.embedding(y.long(), x), F.embedding(y[0].int(), x, padding_idx=1), F.embedding(y[0, 0].long(), x)),
    "embedding of floats": lambda x, y: F.embedding(x, y),
}


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", DECOMPOSED)
def test_decompositions_give_without_fakes_what_they_give_on_them(name: str, layout: str, gradient: bool) -> None:
    outcomes: list[Any] = []
    for mode in (make_fake_mode(), FakeTensorMode()):
        x, y = (mode.from_tensor(tensor, static_shapes=True) for tensor in (square(*LAYOUTS[layout]), square(4, 1)))
        with mode, torch.set_grad_enabled(gradient):
            x.requires_grad_(gradient)
            try:
                results = pytree.tree_leaves(DECOMPOSED[name](x, y))
                outcomes.append([looks(each, [x, y, *results]) for each in results])
            except Exception as error:
                outcomes.append((type(error), str(error)))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("operator", [lambda x: x.nonzero(), lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: torch.unique(x)])
def test_without_symbols_an_operator_whose_result_depends_on_data_raises(operator: Callable[..., Any]) -> None:
    mode = make_fake_mode()
    fake = mode.from_tensor(torch.ones(2, 3), static_shapes=True)
    with mode, pytest.raises((torch._subclasses.fake_tensor.DynamicOutputShapeException, torch._subclasses.fake_tensor.DataDependentOutputException)):
        operator(fake)


def test_errors_are_torchs(alone: None) -> None:
    errors = []
    for mode in (make_fake_mode(), FakeTensorMode()):
        fake = mode.from_tensor(torch.ones(2, 3), static_shapes=True)
        for operator in (lambda x: x @ x, lambda x: x.view(5), lambda x: x + x.new_ones(2), lambda x: x.sum(7)):
            with mode, pytest.raises(Exception) as raised:
                operator(fake)
            errors.append((type(raised.value), str(raised.value)))
    assert errors[:4] == errors[4:]


def test_the_number_of_a_tensor_from_outside_is_no_constant() -> None:
    f = framejit.compile(lambda x: torch.full((2,), x.item()), backend="eager")
    assert [f(torch.tensor(number)).tolist() for number in (3, 4)] == [[3, 3], [4, 4]]


def test_the_fields_are_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that torch sets with the settings of its tracer as they come, without that tracer."""
    monkeypatch.setattr(peer, "is_there", lambda: False)
    monkeypatch.setattr(peer, "bring", lambda: pytest.fail("torch sets fields that aren't known here"))
    ours, theirs = dict(vars(make_fake_mode())), dict(vars(FakeTensorMode(allow_non_fake_inputs=False)))
    assert type(ours.pop("fake_tensor_converter")).__bases__ == (type(theirs.pop("fake_tensor_converter")),)
    assert isinstance(ours.pop("_dispatch_impl"), fake_mode.Dispatch)
    assert isinstance(ours.pop("dispatch"), fake_mode.DrawsSeen)
    for fields in (ours, theirs):
        fields.pop("_stack_trace", None)
    assert ours == theirs


@pytest.mark.parametrize("setting", fake_mode.SETTINGS)
def test_settings_in_the_environment_count(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(peer, "is_there", lambda: False)
    monkeypatch.setattr(peer, "bring", lambda: asked.append(True))
    monkeypatch.setenv(setting, "0")
    make_fake_mode()
    assert asked


def test_settings_of_torchs_tracer_count() -> None:
    with torch._dynamo.config.patch(fake_tensor_cache_enabled=False):
        assert make_fake_mode().cache_enabled is False


def test_a_mode_whose_fields_are_others_is_made_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(self: Any, *, allow_non_fake_inputs: bool = False, **kwargs: Any) -> None:
        original(self, allow_non_fake_inputs=allow_non_fake_inputs, **kwargs)
        self.a_new_field = 1

    original = FakeTensorMode.__init__
    monkeypatch.setattr(FakeTensorMode, "__init__", other)
    monkeypatch.setattr(peer, "is_there", lambda: False)
    assert make_fake_mode().a_new_field == 1  # type: ignore[attr-defined]


def test_symbols_begin_in_the_middle() -> None:
    """The fakes that there are stay, and new ones may have symbols."""
    mode, env = make_fake_mode(), TraceShapeEnv(takes_unbacked=True)
    first = mode.from_tensor(torch.eye(2), static_shapes=True)
    begin_symbols(mode, env)
    with mode:
        found = first.nonzero()
    assert isinstance(found.shape[0], torch.SymInt)
    assert isinstance(mode.from_tensor(torch.ones(5), source=fake_mode.InputSource("x")).shape[0], torch.SymInt)
    assert (first + 1).shape == (2, 2)


def test_a_mode_ends_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        mode = make_fake_mode()
        fake = mode.from_tensor(torch.ones(2), static_shapes=True)
        with mode:
            fake + 1
        ended = weakref.ref(mode)
        del mode, fake
        assert ended() is None
    finally:
        gc.enable()


SIZES_OF_DATA: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a size": (lambda x: x.nonzero().sum(0), (torch.eye(2),)),
    "a number": (lambda x: torch.full((2,), (x * 2).sum().item()), (torch.ones(3),)),
    "a number after changes": (lambda x: (y := x.clone(), y.add_(1), torch.full((2,), y.sum().item()))[2], (torch.ones(3),)),
    "in an inner graph": (lambda x: torch.cond(x.sum() > 1, torch.sin, torch.cos, (x,)), (torch.ones(3),)),
}


@pytest.mark.parametrize("name", SIZES_OF_DATA)
def test_a_trace_gets_symbols_when_an_operator_needs_them(name: str) -> None:
    program, args = SIZES_OF_DATA[name]
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(*args), program(*args))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_of_an_input_with_a_gradient_vary(backend: str) -> None:
    """An adversarial input, of which the model is evaluated again without gradients: the sizes of its `.grad` are no symbols of their own."""
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8)
    compiled = framejit.compile(model, backend=backend)
    for n in (3, 5, 7, 4):
        x = torch.randn(n, 8, requires_grad=True)
        compiled(x).sum().backward()
        torch.testing.assert_close(x.grad, model.weight.sum(0).expand(n, 8))
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))
        compiled(x).sum().backward()
        torch.testing.assert_close(x.grad, 2 * model.weight.sum(0).expand(n, 8))
    assert framejit.statistics()["internal_errors"] == 0
