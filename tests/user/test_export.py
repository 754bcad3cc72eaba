"""framejit.export(): a program as torch's ExportedProgram."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim
from torch.nn.utils.rnn import pack_padded_sequence

import framejit
from tools.libraries import transformers

pytestmark = pytest.mark.only_eager("an exported graph is the one that is captured for the backend eager")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.offset = torch.ones(3)
        self.calls = 0

    def forward(self, x, *, scale=2.0, more=None):
        self.calls += 1
        y = self.norm(self.linear(x)) * scale + self.offset
        for part in more or ():
            y = y + part
        return {"y": y, "x": x}


def same(exported, program, *args, **kwargs):
    found, expected = exported.module()(*args, **kwargs), program(*args, **kwargs)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_module_keeps_its_names_and_is_left_as_it_is():
    model = Model().eval()
    exported = framejit.export(model, (torch.randn(5, 4),), {"scale": 3.0, "more": [torch.randn(3)]})
    assert set(exported.state_dict) == set(model.state_dict()) and model.calls == 0
    assert [node.op for node in exported.graph.nodes].count("output") == 1
    same(exported, model, torch.randn(5, 4), scale=3.0, more=[torch.randn(3)])


def test_sizes_are_symbolic_where_that_is_asked_for():
    model = Model().eval()
    batch = Dim("batch", min=2, max=64)
    exported = framejit.export(model, (torch.randn(5, 4),), dynamic_shapes={"x": {0: batch}})
    (size,) = exported.range_constraints.values()
    assert (size.lower, size.upper) == (2, 64)
    for rows in (2, 7, 64):
        same(exported, model, torch.randn(rows, 4))
    with pytest.raises(Exception, match="64"):
        exported.module()(torch.randn(65, 4))


def test_sizes_that_operators_are_given():
    """Every model with positions of its own was refused: sizes that are inputs of the graph were taken for constants."""

    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.positions = nn.Embedding(10, 4), nn.Embedding(32, 4)

        def forward(self, ids, mask=None, lengths=None):
            rows = torch.arange(ids.shape[1]) + lengths["past"].shape[0]
            return (self.words(ids) + self.positions(rows)) * mask[..., None]

    model, dynamic = Positions(), {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    example = {"mask": torch.ones(2, 5), "lengths": {"past": torch.ones(3)}}
    exported = framejit.export(
        model, (torch.ones(2, 5, dtype=torch.int64),), example,
        dynamic_shapes={"ids": dynamic, "mask": dynamic, "lengths": {"past": {0: Dim.DYNAMIC}}},
    )  # fmt: skip
    for rows, columns, past in ((2, 5, 3), (3, 7, 9)):
        same(exported, model, torch.ones(rows, columns, dtype=torch.int64), mask=torch.rand(rows, columns), lengths={"past": torch.ones(past)})


def test_sizes_of_nested_arguments():
    def total(xs, named):
        return sum(x.sum(0) for x in xs) + named["a"].mean(0)

    rows = Dim("rows")
    args = ([torch.randn(3, 2), torch.randn(3, 2)], {"a": torch.randn(4, 2)})
    exported = framejit.export(total, args, dynamic_shapes=([{0: rows}, {0: rows}], {"a": (Dim.AUTO, None)}))
    same(exported, total, [torch.randn(6, 2), torch.randn(6, 2)], {"a": torch.randn(9, 2)})


def test_what_the_trace_rests_on_is_checked():
    def branch(x):
        return x * 2 if x.shape[0] > 4 else x - 1

    with pytest.raises(torch._dynamo.exc.UserError, match="(?s)batch.*>= 5|5 <= batch|min=5"):
        framejit.export(branch, (torch.randn(6, 2),), dynamic_shapes={"x": {0: Dim("batch", min=2, max=64)}})
    exported = framejit.export(branch, (torch.randn(6, 2),), dynamic_shapes={"x": {0: Dim.AUTO}})
    same(exported, branch, torch.randn(9, 2))
    with pytest.raises(Exception):
        exported.module()(torch.randn(3, 2))


def test_buffers_are_changed():
    model = Model().train()
    exported = framejit.export(model, (torch.randn(5, 4),))
    assert model.norm.num_batches_tracked == 0
    program = exported.module()
    x = torch.randn(5, 4)
    found, expected = program(x), model(x)
    assert torch.equal(found["y"], expected["y"])
    assert torch.equal(dict(program.named_buffers())["norm.running_mean"], model.norm.running_mean)


def test_arguments_that_are_changed():
    def program(x):
        x.add_(1)
        return x * 2

    exported = framejit.export(program, (torch.zeros(3),))
    x = torch.zeros(3)
    assert torch.equal(exported.module()(x), torch.full((3,), 2.0)) and torch.equal(x, torch.ones(3))


def test_results_of_a_library_and_names_of_keywords():
    config = transformers.BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=32)
    model = transformers.BertModel(config).eval()
    ids = torch.randint(0, 32, (2, 6))
    exported = framejit.export(model, (), {"input_ids": ids, "attention_mask": torch.ones(2, 6, dtype=torch.long)})
    found, expected = exported.module()(input_ids=ids, attention_mask=torch.ones(2, 6, dtype=torch.long)), model(input_ids=ids)
    assert type(found) is type(expected)
    torch.testing.assert_close(found.last_hidden_state, expected.last_hidden_state)


def test_it_is_saved_and_loaded_and_compiled():
    model = Model().eval()
    file = io.BytesIO()
    torch.export.save(framejit.export(model, (torch.randn(5, 4),)), file)
    file.seek(0)
    loaded = torch.export.load(file)
    x = torch.randn(5, 4)
    same(loaded, model, x)
    compiled = framejit.compile(loaded.module(), backend="aot_eager")
    assert torch.equal(compiled(x)["y"], model(x)["y"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_it_is_compiled_ahead_of_time(tmp_path):
    """By AOTInductor, for the CPU, with a symbolic size; also after it was saved and loaded."""
    model = Model().eval()
    exported = framejit.export(model, (torch.randn(5, 4),), dynamic_shapes={"x": {0: Dim("rows", min=2, max=64)}})
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    for index, program in enumerate((exported, torch.export.load(file))):
        path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / f"{index}.pt2"))
        loaded = torch._inductor.aoti_load_package(path)
        for rows in (5, 7, 64):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(loaded(x), model(x))


def test_models_without_weights():
    with FakeTensorMode():
        model, x = Model().eval(), torch.randn(5, 4)
    exported = framejit.export(model, (x,))
    assert [str(node.target) for node in exported.graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default)] == ["aten.linear.default"]
    real = Model().eval()
    program = exported.module()
    loaded = program.load_state_dict(real.state_dict(), assign=True)
    assert not loaded.missing_keys


def test_operators_know_their_line():
    def program(x):
        return x.sin()

    (node,) = framejit.export(program, (torch.ones(2),)).graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)
    assert "return x.sin()" in node.meta["stack_trace"]


def test_a_graph_break_is_an_error_that_names_the_line():
    def program(x):
        print("here")
        return x * 2

    with pytest.raises(framejit.Unsupported, match=r'(?s)print.*print\("here"\)'):
        framejit.export(program, (torch.ones(2),))


def test_results_that_no_graph_gives():
    with pytest.raises(framejit.Unsupported, match="Opaque.*as a result of what is exported"):
        class Opaque:
            pass

        framejit.export(lambda x: (x * 2, Opaque()), (torch.ones(2),))
    with pytest.raises(framejit.Unsupported, match="number"):
        framejit.export(lambda x: x.sum().item(), (torch.ones(2),))


def test_the_program_s_own_errors_are_raised():
    def program(x):
        if x.dim() == 1:
            raise ValueError("two dimensions, please")
        return x

    with pytest.raises(ValueError, match="two dimensions"):
        framejit.export(program, (torch.ones(2),))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Model, (torch.ones(2),)), "takes an nn.Module"),
        ((Model(), torch.ones(2)), "args is a tuple"),
        ((lambda x: x, (torch.ones(2),), None), None),
    ],
)
def test_bad_arguments(arguments, message):
    if message is None:
        with pytest.raises(framejit.BadArgument, match="names 'y'.*known: x"):
            framejit.export(*arguments, dynamic_shapes={"y": {0: Dim("n")}})
        with pytest.raises(framejit.BadArgument, match="a dimension that the tensor doesn't have"):
            framejit.export(*arguments, dynamic_shapes={"x": {3: Dim("n")}})
    else:
        with pytest.raises(framejit.BadArgument, match=message):
            framejit.export(*arguments)


def test_a_parameter_from_outside_of_what_is_exported():
    """It was a buffer in the exported program, whose module() then failed."""
    weight = nn.Parameter(torch.tensor([2.0, 3.0]))
    same(framejit.export(lambda x: x * weight, (torch.ones(2),)), lambda x: x * weight, torch.rand(2))


@pytest.mark.parametrize("name", ["grad", "vjp"])
def test_transforms_that_torch_s_export_gets_wrong(name):
    """It took tensors that have no data for constants of the program, in the place of its arguments."""

    def program(x):
        if name == "grad":
            return torch.func.grad(lambda y: (y**2).sum())(x)
        return torch.func.vjp(torch.sin, x)[1](x)[0]

    with pytest.raises(framejit.Unsupported, match=f"torch.func.{name} in a program that is exported"):
        framejit.export(program, (torch.ones(2),))
    inside = torch.vmap(program)
    with pytest.raises(framejit.Unsupported, match=f"torch.func.{name} in a program that is exported"):
        framejit.export(lambda x: inside(x), (torch.ones(2, 2),))
    sums = torch.vmap(lambda x: x.sum())
    same(framejit.export(lambda x: sums(x), (torch.ones(2, 2),)), sums, torch.rand(2, 2))


def test_packed_sequences_are_refused():
    """torch.export has other sizes for them than they will have."""
    with pytest.raises(framejit.Unsupported, match="FJ005 _pack_padded_sequence"):
        framejit.export(lambda x, lengths: pack_padded_sequence(x, lengths).data * 2, (torch.ones(5, 2, 3), torch.tensor([4, 2])))
