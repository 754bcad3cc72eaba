"""A backward pass from some of a graph's results leaves the gradients of what only the others depend on undefined, as in eager."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from agreement import close
from torch import nn

import framejit

IN_THE_PLACE_OF_EAGER = ["eager", "aot_eager"]


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 1), nn.Linear(2, 1)

    def forward(self, x):
        hidden = self.body(x).tanh()
        return self.first(hidden), self.second(hidden)


class DetachedHead(Heads):
    def forward(self, x):
        hidden = self.body(x)
        return self.first(hidden), self.second(hidden.detach())


class HeadUnderNoGrad(Heads):
    def forward(self, x):
        with torch.no_grad():
            hidden = self.body(x)
        return self.first(self.body(x)), self.second(hidden)


class ViewsOfOneTensor(Heads):
    def forward(self, x):
        both = torch.cat([self.first(x), self.second(x)], 1)
        return both[:, :1], both[:, 1:], self.body(x)


class ChangedInPlace(Heads):
    def forward(self, x):
        made = torch.zeros(3, 2)
        made[:, 0] = self.first(self.body(x)).view(-1)
        other = self.second(x)
        other.mul_(made[:, 1:].detach() + 1)
        return made[:, 0].clone(), other


class ViewOfInput(Heads):
    def forward(self, x):
        return self.first(x), x.view(-1) * 1, self.second(x), x.view(-1)


class ViewsBesideWhatIsComputed(Heads):
    """The views of the input and of a parameter lead around AOTAutograd's node."""

    def forward(self, x):
        return self.first(x), x[1:], self.second(torch.ones(2)), self.second.weight[:, 1:].t()


class Discriminator(Heads):
    def forward(self, x):
        fake = self.body(x)
        return self.first(fake), self.first(fake.detach()) - self.first(x), self.second(x)


class Exits(Heads):
    def forward(self, x):
        one = self.body(x).relu()
        return {"early": one, "late": self.first(one), "losses": (self.second(one), one.sum())}


class ChangedAfterABreak(Heads):
    """The second graph changes one of its inputs with another."""

    def forward(self, x):
        loss, other, hidden = self.first(x), self.second(x), self.body(x)
        framejit.graph_break()
        loss += other
        return loss * 2, hidden * 3


class ReturnedAsChanged(Heads):
    def forward(self, x):
        loss, other, hidden = self.first(x), self.second(x), self.body(x)
        framejit.graph_break()
        return loss.add_(other), hidden * 3


class ChangedAndDropped(Heads):
    """No result depends on what is changed."""

    def forward(self, x):
        hidden, loss = self.body(x), self.first(x)
        framejit.graph_break()
        hidden *= 2
        return loss * 2, loss + 1


class ListOfLosses(Heads):
    def forward(self, x):
        losses = [self.first(x).sum()]
        framejit.graph_break()
        losses.append(self.second(x).sum())
        losses[0] += losses[1]
        return losses[0] / 2, losses[1]


class Branches(Heads):
    def forward(self, x):
        one, two = self.first(x), self.second(self.body(x))
        framejit.graph_break()
        return one * 2, two * 3


def flat(results):
    if isinstance(results, torch.Tensor):
        return [results]
    return [tensor for part in (results.values() if isinstance(results, dict) else results) for tensor in flat(part)]


def gradients(model):
    return [None if parameter.grad is None else parameter.grad.clone() for parameter in model.parameters()]


def pair(cls):
    plain, model = cls(), cls()
    model.load_state_dict(plain.state_dict())
    return plain, model


def from_each(model, called):
    """The gradients after a backward pass from each result by itself, and from the first and the last together."""
    found = []
    count = len(flat(called(torch.ones(3, 2))))
    for chosen in [*[(index,) for index in range(count)], (0, count - 1)]:
        model.zero_grad()
        x = torch.ones(3, 2, requires_grad=True)
        results = flat(called(x))
        sum(results[index].sum() for index in chosen).backward()
        found.append((gradients(model), x.grad))
    return found


CLASSES = [Heads, DetachedHead, HeadUnderNoGrad, ViewsOfOneTensor, ChangedInPlace, ViewOfInput, ViewsBesideWhatIsComputed, Discriminator, Exits, Branches]
CLASSES += [ChangedAfterABreak, ReturnedAsChanged, ChangedAndDropped, ListOfLosses]


@pytest.mark.parametrize("cls", CLASSES)
def test_gradients_from_some_results(cls):
    plain, model = pair(cls)
    close(from_each(model, framejit.compile(model, backend="eager")), from_each(plain, plain), 1e-6)


def test_an_optimizer_leaves_the_other_head_alone():
    def trained(model, called):
        optimizer = torch.optim.AdamW(model.parameters(), 0.1, weight_decay=0.5)
        for step in range(4):
            optimizer.zero_grad()
            called(torch.ones(3, 2))[step % 2].sum().backward()
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    plain, model = pair(Heads)
    close(trained(model, framejit.compile(model, backend="eager")), trained(plain, plain), 1e-6)


def test_autograd_grad_gives_none_or_raises():
    model = Heads()
    compiled = framejit.compile(model, backend="eager")
    weights = [model.first.weight, model.second.weight]
    found = torch.autograd.grad(compiled(torch.ones(3, 2))[0].sum(), weights, allow_unused=True)
    assert found[0] is not None and found[1] is None
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        torch.autograd.grad(compiled(torch.ones(3, 2))[0].sum(), weights)


def test_one_result_after_the_other():
    def both(model, called):
        first, second = called(torch.ones(3, 2))
        first.sum().backward(retain_graph=True)
        between = gradients(model)
        second.sum().backward()
        return between, gradients(model)

    plain, model = pair(Heads)
    close(both(model, framejit.compile(model, backend="eager")), both(plain, plain), 1e-6)


def test_one_compiled_function_after_the_other():
    def both(front, back, first, second):
        found = []
        for index in range(2):
            front.zero_grad()
            back.zero_grad()
            second(torch.cat([first(torch.ones(3, 2))[index]] * 2, 1))[index].sum().backward()
            found += gradients(front) + gradients(back)
        return found

    (plain, model), (other, further) = pair(Heads), pair(Branches)
    close(both(model, further, *(framejit.compile(each, backend="eager") for each in (model, further))), both(plain, other, plain, other), 1e-6)


def test_a_graph_of_whose_results_none_gets_a_gradient():
    class Probed(Heads):
        def forward(self, x):
            h = self.first(x).relu()
            framejit.graph_break()
            h = h * self.first.weight.sum()
            framejit.graph_break()
            return h.exp(), self.second(torch.cat([h.detach()] * 2, 1)[:, :2])

    plain, model = pair(Probed)
    close(from_each(model, framejit.compile(model, backend="eager")), from_each(plain, plain), 1e-6)


def test_leaves_first_and_then_what_another_compiled_function_gives():
    apart = framejit.compile(lambda a, b: (a * 2, b * 3), backend="eager")
    before = framejit.compile(lambda a, b: (a + 1, b - 1), backend="eager")
    for call in range(3):
        a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        result = apart(*(before(a, b) if call else (a, b)))[call % 2]
        result.sum().backward()
        assert [a.grad is None, b.grad is None] == [call % 2 == 1, call % 2 == 0]


def test_hooks_on_leaves_are_given_tensors():
    model = Heads()
    seen = []
    model.second.weight.register_hook(lambda gradient: seen.append(gradient * 2))
    compiled = framejit.compile(model, backend="eager")
    results = compiled(torch.ones(3, 2))
    model.second.bias.register_hook(lambda gradient: seen.append(gradient * 2))
    results[0].sum().backward()
    assert all(isinstance(gradient, torch.Tensor) for gradient in seen)


def test_a_hook_between_two_graphs_is_given_a_tensor():
    class Apart(Heads):
        def forward(self, x, y):
            return self.first(x), self.second(y)

    model, seen = Apart(), []
    compiled = framejit.compile(model, backend="eager")
    for _ in range(2):
        x, y = (torch.ones(3, 2, requires_grad=True) for _ in range(2))
        doubled = y * 2
        doubled.register_hook(lambda gradient: seen.append(gradient * 1))
        compiled(x, doubled)[0].sum().backward()
        assert x.grad is not None and model.second.weight.grad is None and all(isinstance(gradient, torch.Tensor) for gradient in seen)


def test_sizes_that_vary_and_heads_that_are_frozen():
    def program(model, called):
        found = []
        for size in (3, 4, 5):
            model.second.requires_grad_(size != 4)
            for index in range(2):
                model.zero_grad()
                called(torch.ones(size, 2))[index].sum().backward()
                found += gradients(model)
        return found

    plain, model = pair(Heads)
    close(program(model, framejit.compile(model, backend="eager")), program(plain, plain), 1e-6)


def test_nothing_is_kept_alive():
    model = Heads()
    compiled = framejit.compile(model, backend="eager")
    results = None
    for _ in range(2):
        results = compiled(torch.ones(3, 2, requires_grad=True))
        results[0].sum().backward()
    gc.collect()
    gone = weakref.ref(results[0])
    gc.disable()
    try:
        del results
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("backend", IN_THE_PLACE_OF_EAGER)
def test_a_view_of_a_leaf_that_was_made_without_gradients_is_an_argument(backend):
    """Such a view requires a gradient, and no gradient goes on from it."""

    def program(x, view, other):
        return torch.cat([x, view]), x[1:], other * 2

    def outcome(run):
        leaves = [torch.arange(4.0).requires_grad_() for _ in range(3)]
        with torch.no_grad():
            view = leaves[1][2:]
        found = []
        for place in (0, 2):
            results = run(leaves[0], view, leaves[2])
            results[place].square().sum().backward()
            found += [result.tolist() for result in results] + [None if leaf.grad is None else leaf.grad.tolist() for leaf in leaves]
        return found

    assert outcome(framejit.compile(program, backend=backend)) == outcome(program)
