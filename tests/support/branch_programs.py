"""Programs that branch on the data of tensors `x` and `y`, and a generator of such programs."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import torch

PROGRAMS: dict[Callable[..., Any], tuple[bool, bool]] = {}
"""Programs, each with whether it has no graph break in inference and in training."""
WITH_AOTAUTOGRAD: dict[Callable[..., Any], tuple[bool, bool]] = {}
"""The same for backends that AOTAutograd serves."""
WEIGHT = torch.tensor([1.0, 2.0, 3.0])


def joins(inference: bool, training: bool, eager: tuple[bool, bool] | None = None) -> Callable[[Any], Any]:
    """Add a program to PROGRAMS. `eager`: whether it has no graph break with the backend eager, if that differs from AOTAutograd's."""

    def add(program: Any) -> Any:
        WITH_AOTAUTOGRAD[program] = inference, training
        PROGRAMS[program] = eager or (inference, training)
        return program

    return add


def helper(x):
    if x.mean() > 0:
        return x.cos()
    return x.tanh()


@joins(False, False, eager=(True, False))
def gives_an_argument(x, y):
    if x.sum() > 0:
        x = x * 2
    return x


@joins(True, True)
def adds_without_else(x, y):
    h = x.sin()
    if h.sum() > 0:
        h = h * 2
    return h + y


@joins(True, True)
def without_else(x, y):
    h = x.sin()
    if h.sum() > 0:
        h = h * 2
    return h


@joins(True, True)
def returns(x, y):
    if x.sum() > 0:
        return x + y
    return x - y


@joins(True, False, eager=(True, True))
def returns_several(x, y):
    if x.sum() > 0:
        return x + y, 3, [y * 2]
    return x - y, 3, [y.cos()]


@joins(True, True)
def called(x, y):
    return helper(x) + helper(y)


@joins(True, False)
def nested(x, y):
    if x.sum() > 0:
        if y.sum() > 0:
            z = x + y
        else:
            z = x - y
    elif y.sum() > 1:
        z = x * y
    else:
        z = x.sin()
    return z * 2


@joins(True, False, eager=(True, True))
def in_a_loop(x, y):
    z = x * 1
    for i in range(4):
        if z.sum() > i:
            z = z - y
        else:
            z = z + 1
    return z


@joins(True, False, eager=(True, True))
def leaves_a_loop(x, y):
    z = x * 1
    for i in range(6):
        if z.sum() > 3:
            break
        z = z + y.abs()
    return z * 2


@joins(False, False)
def while_loop(x, y):
    z = x.abs() + 0.1
    while z.sum() < 10:
        z = z * 2
    return z


@joins(True, False)
def both_conditions(x, y):
    if x.sum() > 0 and y.sum() > 0:
        z = x + 1
    else:
        z = y + 2
    return z


@joins(True, True)
def either_condition(x, y):
    t = (x.sum() > 0) or (y.sum() > 0)
    return x * t


@joins(True, True)
def else_branch(x, y):
    return (x * 2 if y.sum() > 0 else x / 3) + 1


@joins(True, False, eager=(True, True))
def negated(x, y):
    if not x.sum() > 0:
        z = x + 1
    else:
        z = y * 1
    return z


@joins(True, True)
def by_number(x, y):
    if x.sum().item() > 0:
        z = x + 1
    else:
        z = x - 1
    return z


@joins(True, True)
def by_float(x, y):
    if x.sum():
        z = x + 1
    else:
        z = x - 1
    return z


@joins(False, False)
def leaves_ints(x, y):
    n = 1
    if x.sum() > 0:
        n = 2
    return x * n


@joins(False, False)
def changes_a_list(x, y):
    out = []
    if x.sum() > 0:
        out.append(1)
    return x * len(out)


@joins(True, False)
def changes_a_tensor(x, y):
    h = x.sin()
    if x.sum() > 0:
        h.add_(1)
    return h


@joins(False, False, eager=(True, True))
def draws(x, y):
    if x.sum() > 0:
        z = x + torch.rand(3)
    else:
        z = x * 1
    return z


@joins(False, False, eager=(True, True))
def drops(x, y):
    if x.sum() > 0:
        z = torch.nn.functional.dropout(x, 0.5)
    else:
        z = x * 1
    return z


@joins(False, False, eager=(True, True))
def draws_and_drops_it(x, y):
    if x.sum() > 0:
        torch.rand(3)
    return x + torch.rand(3)


@joins(False, False, eager=(True, True))
def draws_and_changes(x, y):
    h = x.sin()
    if x.sum() > 0:
        h = h + torch.empty(3).uniform_(0, 1)
    return h * torch.rand(3)


@joins(True, True)
def tells_the_way(x, y):
    is_positive = False
    if x.sum() > 0:
        is_positive = True
    if is_positive:
        return y + 1
    return y - 1


@joins(True, True)
def tells_the_way_in_a_call(x, y):
    def is_positive(t):
        if t.sum() > 0:
            return True
        return False

    return x.sin() if not is_positive(y) else x.cos(), 1


@joins(True, True)
def returns_the_way(x, y):
    small = y.max() < 0.7
    return (x * 2, True) if small else (x * 3, False)


@joins(False, False)
def tells_the_way_by_a_tensor_that_it_changes(x, y):
    c = x.sum() > 0
    if c:
        c.logical_not_()
        told = True
    else:
        told = False
    return y + 1 if told else y - 1


@joins(False, False, eager=(True, True))
def skips_layers(x, y):
    h = x * y
    for _ in range(3):
        skip = torch.rand([]) < 0.5
        if not skip:
            h = torch.nn.functional.dropout(h * WEIGHT, 0.5)
    return h + torch.rand(3)


@joins(False, False)
def may_be_another(x, y):
    h = x.sin()
    g = h
    if x.sum() > 0:
        g = h * 2
    g.add_(1)
    return h.clone()


@joins(False, False)
def asks_whether_it_is(x, y):
    h = x.sin()
    g = h
    if x.sum() > 0:
        g = h * 2
    return g.cos() if g is h else g.tan()


@joins(True, True)
def may_be_a_view(x, y):
    h = x.sin()
    if x.sum() > 0:
        g = h[:2] * 1
    else:
        g = h[1:]
    return g + 1, h


@joins(False, False, eager=(True, True))
def gives_views(x, y):
    h = x.sin()
    g = h[1:]
    if x.sum() > 0:
        g = h[:-1]
    return g, h, g


@joins(False, False, eager=(True, True))
def gives_one_of_two_twice(x, y):
    a, b = x.sin(), x.cos()
    first = second = a
    if x.sum() > 0:
        first = b
    if y.max() > 0.6:
        second = b
    return first, second, a


@joins(False, False)
def stores_an_attribute(x, y):
    h = x.sin()
    g = h
    if x.sum() > 0:
        g = h * 2
    g.tag = 3
    return h.cos(), getattr(h, "tag", None)


@joins(False, False)
def reads_an_attribute(x, y):
    h = x.sin()
    h.tag = 3
    g = h
    if x.sum() > 0:
        g = h * 2
    return g.cos(), getattr(g, "tag", None)


@joins(False, False)
def gives_what_has_an_attribute(x, y):
    h = x.sin()
    h.tag = 3
    g = h
    if x.sum() > 0:
        g = h * 2
    return g, getattr(g, "tag", None)


@joins(False, False, eager=(True, True))
def gives_both(x, y):
    h = x.sin()
    g = h
    if x.sum() > 0:
        g = h * 2
    return g, h


@joins(True, True)
def unused_variables(x, y):
    if x.sum() > 0:
        n = 1
        z = x + n
    else:
        n = 5
        z = x - n
    return z


@joins(False, False)
def leaves_sizes(x, y):
    if x.sum() > 0:
        return x
    return x[:1]


@joins(False, False)
def leaves_dtypes(x, y):
    if x.sum() > 0:
        z = x * 1
    else:
        z = (x * 1).double()
    return z


@joins(True, True)
def changes_its_own(x, y):
    if x.sum() > 0:
        z = torch.relu_(x * 2)
    else:
        z = x * 3
    return z


@joins(False, False)
def switches_modes(x, y):
    if x.sum() > 0:
        with torch.no_grad():
            z = x * 2
    else:
        z = x * 3
    return z


@joins(True, False, eager=(True, True))
def several_variables(x, y):
    if x.sum() > 0:
        a, b = x + 1, y + 1
    else:
        a, b = y + 2, x + 2
    c = a * b  # with the next line, too long for compilers to copy it to both ways
    return c.cos() + c


@joins(True, True)
def in_a_generator(x, y):
    def g():
        for t in (x, y):
            if t.sum() > 0:
                u = t * 2
            else:
                u = t * 3
            yield u
    return sum(g())


@joins(False, False)
def changes_a_cell(x, y):
    k = x * 1
    def setk():
        nonlocal k
        k = k + 1
    if x.sum() > 0:
        setk()
    return k


@joins(False, False)
def may_be_unbound(x, y):
    if x.sum() > 0:
        z = x * 1
    try:
        return z
    except UnboundLocalError:
        return y


@joins(True, True)
def handles_inside(x, y):
    z = x * 1
    if x.sum() > 0:
        try:
            z = z + int("a")
        except ValueError:
            z = z * 4
    return z * 1


@joins(True, False)
def size_by_data(x, y):
    if x.sum() > 0:
        z = x[x > 0].sum()
    else:
        z = x.sum()
    return z


@joins(True, False, eager=(True, True))
def uses_one_more(x, y):
    if x.sum() > 0:
        z = x * y
    else:
        z = x * 2
    return z


@joins(True, True)
def asks_for_leaf(x, y):
    h = x.sin()
    if x.sum() > 0:
        h = h * 2
    return h.cos() if h.is_leaf else h.tan()


@joins(True, False)
def one_requires_grad(x, y):
    if x.sum() > 0:
        h = x.detach() * 1
    else:
        h = x * 1
    return h.requires_grad, h


@joins(False, False)
def asks_for_address(x, y):
    h = x.sin()
    g = h
    if x.sum() > 0:
        g = h * 2
    return g + (1 if g.data_ptr() == h.data_ptr() else 2)


@joins(False, False)
def as_keys(x, y):
    h = x.sin()
    g = h
    if x.sum() > 0:
        g = h * 2
    return g + len({g: 1, h: 2})


@joins(False, False)
def in_any(x, y):
    h = x.sin()
    g = h
    if x.sum() > 0:
        g = h * 2
    return g.cos() + (5 if any(t is g for t in [h]) else 6)


@joins(False, False)
def stores_data(x, y):
    h = x.detach().sin()
    g = h
    if x.sum() > 0:
        g = h * 2
    z = torch.zeros(3)
    z.data = g
    z.add_(1)
    return h * 1, z * 1


@joins(False, False)
def changed_in_a_list(x, y):
    h = x.detach().sin()
    g = h
    if x.sum() > 0:
        g = h * 2
    torch._foreach_add_([g], 1.0)
    return h * 1


@joins(False, False)
def is_out(x, y):
    h = x.detach().sin()
    g = h
    if x.sum() > 0:
        g = h * 2
    torch.add(y.detach(), 1, out=g)
    return h * 1


@joins(True, True)
def under_autocast(x, y):
    h = x[None]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        if h.sum() > 0:
            z = h @ h.T
        else:
            z = (h + 1) @ h.T
    return z


@joins(True, True)
def under_no_grad(x, y):
    with torch.no_grad():
        h = x.sin()
        if h.sum() > 0:
            h = h * y
    return h + 1


@joins(True, True)
def uses_a_global(x, y):
    h = x * 1
    if h.sum() > 0:
        h = h * WEIGHT
    return h + 1


@joins(False, False)
def leaves_expanded(x, y):
    if x.sum() > 0:
        z = x.expand(2, 3)
    else:
        z = y.expand(2, 3)
    z = z * 2
    return z.cos() + z


@joins(True, True)
def transposed(x, y):
    m = x[None] * torch.ones(2, 1)
    if x.sum() > 0:
        z = m.t()
    else:
        z = (m * 2).t()
    return z * 2, z.is_contiguous()


@joins(True, True)
def leaves_indices(x, y):
    if x.sum() > 0:
        z = x.argmax()
    else:
        z = x.argmin()
    return z


@joins(False, False)
def leaves_a_view_of_another(x, y):
    h = x.sin()
    if x.sum() > 0:
        a = h * 2
        b = a.view(3)
    else:
        a = h * 3
        b = a.view(3)
    b.add_(1)
    return a * 1


@joins(True, True)
def single_number(x, y):
    s = x.sum()
    if s > 0:
        s = s * 2
    return s + y


@joins(True, True)
def by_one_element(x, y):
    if (x.sum() > 0).reshape(1, 1):
        z = x + 1
    else:
        z = x - 1
    return z


@joins(False, False)
def by_several_elements(x, y):
    try:
        if x > 0:
            z = x + 1
        else:
            z = x - 1
    except RuntimeError:
        z = y
    return z


@joins(True, True)
def chained_comparison(x, y):
    if 0 < x.sum() < 5:
        z = x + 1
    else:
        z = x - 1
    return z


@joins(True, True)
def in_a_comprehension(x, y):
    return torch.stack([t * 2 if t.sum() > 0 else t - 1 for t in (x, y)])


@joins(True, False, eager=(True, True))
def continues_a_loop(x, y):
    out = x * 1
    for t in (x, y):
        if t.sum() < 0:
            continue
        out = out + t
    return out


@joins(True, False)
def both_ways_write(x, y):
    h, g = x * 1, y * 1
    if h.sum() > 0:
        h.add_(1)
    else:
        g.mul_(2)
        h.sub_(3)
    return h + g, h, g


@joins(True, False)
def writes_to_a_view(x, y):
    h = x * 1
    first, rest = h[:1], h[1:]
    if h.sum() > 0:
        rest.add_(1)
    return h, first * 2


@joins(True, False)
def writes_to_a_transposed_view(x, y):
    h = torch.outer(x, y)
    turned = h.t()
    if x.sum() > 0:
        turned.add_(1)
    return h * 1


@joins(True, False)
def writes_to_what_has_views(x, y):
    h = x * 1
    rest = h[1:]
    if x.sum() > 0:
        h.mul_(2)
    return rest + 1, h


@joins(False, False)
def writes_to_one_view_by_another(x, y):
    h = x * 1
    rest = h[1:]
    if x.sum() > 0:
        h[:1].add_(rest[1:])
        rest.mul_(2)
    return rest + 1, h


@joins(True, False)
def gives_what_it_writes_to(x, y):
    h = x * 1
    if x.sum() > 0:
        z = h.add_(1)
    else:
        z = y * 3
    return z * 2 + h


@joins(True, False)
def nested_writes(x, y):
    h = x * 1
    if x.sum() > 0:
        h += 1
        if y.sum() > 0:
            h *= 2
        else:
            h -= y
    elif y.sum() > 0:
        h.zero_()
    return h + 1


@joins(True, False)
def writes_and_returns(x, y):
    h = x * 1
    if x.sum() > 0:
        h.add_(1)
        return h * 2
    return h * 3


@joins(True, False)
def writes_by_out(x, y):
    h = x.detach() * 1
    if x.sum() > 0:
        torch.add(x.detach(), y.detach(), out=h)
    return h


@joins(False, False)
def changes_the_form(x, y):
    h = x.view(1, 3) * 1
    if x.sum() > 0:
        h.t_()
    return h + 1


@joins(True, False)
def writes_to_a_constant(x, y):
    t = torch.tensor(3)
    if y.detach().sum() > 0:
        t.fill_(5)
        z = x * 1
    else:
        z = x + t.item()
    return z + t


@joins(True, False)
def decides_by_what_it_writes_to(x, y):
    h = x * 1
    c = h.sum() > 0
    if c:
        c.fill_(False)
        h += 1
    if c:
        h += 10
    return h + c


@joins(True, True)
def skips_empty_rows(x, y):
    h = torch.zeros_like(x)
    for i in range(3):
        rows = torch.where(x > i - 1)[0]
        if rows.numel() == 0:
            continue
        h.index_add_(0, rows, y[rows] * i)
    return h + x


@joins(True, True)
def writes_by_mask(x, y):
    h = torch.zeros_like(x)
    for i in range(3):
        mask = x > i - 1
        if mask.any():
            h[mask] += y[mask] * 2
    return h


@joins(True, False)
def sizes_in_both_ways(x, y):
    rows = torch.where(x > 0)[0]
    if rows.numel() > 1:
        z = y[rows].sum() * rows.numel()
    else:
        z = y[rows].sum() + rows.numel()
    return z, rows.numel()


@joins(True, False)
def same_count_after_it(x, y):
    mask = x > 0
    if y.sum() > 0:
        z = mask.nonzero().sum() + y.sum()
    else:
        z = mask.nonzero().sum() * 2 - y.sum()
    return z, mask.nonzero()


@joins(True, True)
def sizes_without_gradients(x, y):
    d, e = x.detach(), y.detach()
    rows = torch.where(d > 0)[0]
    h = d * 1
    if rows.numel() > 1:
        h[rows] += e[rows]
        z = d[rows].sum() + e[e > 0].sum()
    else:
        z = e.sum() * 2
    return x * z + y * h


@joins(True, True)
def rows_and_columns(x, y):
    square = x[:, None] * y
    h = square * 1
    rows, columns = torch.where(square > 0)
    if rows.numel() > 0:
        h.index_put_((rows, columns), (rows - columns) * square[rows, columns])
    return h, rows


@joins(False, False)
def gives_sizes_by_data(x, y):
    if y.sum() > 0:
        z = x[x > 0]
    else:
        z = y[y > 0]
    return z + 1


class Writer:
    """Writes a random program of branches and loops over three tensors."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.lines: list[str] = []

    def name(self) -> str:
        return self.dice.choice("abc")

    def expression(self, deep: bool = False) -> str:
        kind = self.dice.randrange(9)
        a, b = self.name(), self.name()
        if kind == 7 and not deep:
            return f"({a} + 1 if {self.condition()} else {b})"
        made = (f"{a} + {b}", f"{a} * 2", f"{a}.sin()", f"{a} - {b}", f"{a} * {b}.cos()", f"torch.relu({a})", f"{a} * w", a, f"{a} + torch.rand(3)")
        return made[kind]

    def condition(self) -> str:
        a, b = self.name(), self.name()
        return self.dice.choice((
            "flag", f"{a}.sum() > 0", f"{a}.mean() < {b}.sum()", f"{a}.max().item() > 0.5", f"not {a}.sum() > 1", f"{a}.sum() > 0 and {b}.sum() < 2",
            f"{a}.sum() > 3 or {b}.min() > 0",
        ))  # fmt: skip

    def block(self, depth: int, in_loop: bool = False) -> None:
        dice, indent = self.dice, "    " * depth
        for _ in range(dice.randrange(1, 4)):
            kind = dice.randrange(12)
            if 4 <= kind < 8 and depth < 4:
                self.lines.append(f"{indent}if {self.condition()}:")
                self.block(depth + 1, in_loop)
                if dice.random() < 0.6:
                    self.lines.append(f"{indent}else:")
                    self.block(depth + 1, in_loop)
            elif kind == 8 and depth < 3:
                self.lines.append(f"{indent}for _ in range({dice.randrange(1, 4)}):")
                self.block(depth + 1, True)
            elif kind == 9 and dice.random() < 0.4:
                self.lines.append(f"{indent}return {self.name()}, {self.name()}")
                return
            elif kind == 10 and in_loop and dice.random() < 0.5:
                self.lines.append(indent + dice.choice(("break", "continue")))
                return
            elif kind == 10 and dice.random() < 0.5:
                self.lines += [f"{indent}if {self.condition()}:", f"{indent}    flag = {dice.choice((True, False))}"]
            elif kind == 11:
                changes = (f"{self.name()}.add_(1)", "log.append(len(log))", "a, b = b, a", f"c = g({self.name()})")
                self.lines.append(indent + dice.choice(changes))
            else:
                self.lines.append(f"{indent}{self.name()} = {self.expression()}")

    def text(self) -> str:
        self.lines += ["def g(t):", "    if t.sum() > 0:", "        return t.sin()", "    return t.cos()", "def f(x, y, w, log):"]
        begin = (("x * 1", "y.cos()", "x + y"), ("x", "y * 2", "y.sin()"), ("x * 1", "y * 1", "x[:]"))
        self.lines += [f"    {name} = {value}" for name, value in zip("abc", self.dice.choice(begin))]
        self.lines.append("    flag = False")
        self.block(1)
        self.lines.append("    return " + self.dice.choice(("a", "b", "c", "a, b", "a * b", "a + c", "(a + b), [c * 1]", "c.clone(), a * 1")))
        return "\n".join(self.lines) + "\n"


def random_program(seed: int) -> Callable[..., Any]:
    """A function `f(x, y, w, log)` of three tensors and a list."""
    text, name = Writer(seed).text(), f"<random branches {seed}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(text, name, "exec"), namespace)
    return namespace["f"]  # type: ignore[no-any-return]
