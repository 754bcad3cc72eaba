"""Numbers taken out of tensors and arrays, what is computed with them, and writes to the same memory before, between and after."""

from __future__ import annotations

from differential.family import Family

PRELUDE = '''
import math

import numpy as np

KEPT = torch.tensor([0.5, 2.0, -1.0])


class Reading:
    def __init__(self, t):
        self.first = t[0].item()
        self.mean = t.mean().item()

    def __float__(self):
        return self.first


def taken(t):
    for i in range(len(t)):
        yield t[i].item()
'''

FAMILY = Family(
    prelude=PRELUDE,
    variables={"f": "f = 1.5", "a": "a = KEPT.numpy()"},
    expressions={
        "f": (
            "f", "x[0].item()", "y[-1].item()", "{t}[1].item()", "x.sum().item()", "float(x[0])", "x.tolist()[-1]", "f + 1", "f * {f}", "f - {f}",
            "max(f, {f})", "abs({f})", "round({f}, 2)", "-f", "f // 2", "{f} % 3", "min({f}, 5.0)", "math.floor({f})", "float(a[0])", "a[0]",
            "math.sin({f})", "x.max().item()", "float(int({f}))", "a.sum()", "KEPT[1].item()", "float(Reading({t}))", "Reading(x).mean",
            "sum(taken(x))", "next(taken({t}), 0.5)", "f / (abs({f}) + 1)", "x[0].double().item()", "(x[0] > 0).item()", "x.argmax().item()",
            "int({f})", "x.long()[0].item()", "f ** 2", "bool({f}) + f",
        ),
        "t": (
            "x * f", "y + {f}", "torch.full((3,), {f})", "torch.add(x, y, alpha={f})", "x.clamp(-1, {f})", "x * (f + 1)", "x / (abs({f}) + 1)",
            "torch.tensor([f, {f}, 1.0])", "x.new_full((3,), {f})", "x.pow(int(abs({f})) % 3)", "torch.where(x > {f}, x, y)",
            "x.masked_fill(x > 0, {f})", "torch.from_numpy(a)", "KEPT * {f}", "torch.lerp(x, y, {f})", "x.sub(y, alpha=f)",
            "torch.addcmul(x, y, y, value={f})", "torch.arange(3.0) * f", "x.roll(int({f}) % 3)",
        ),
        "c": ("n > m", "f > 1", "{f} < f", "{f} == {f}", "x[0] > f"),
        "i": ("1", "int({f}) % 5", "round({f}) % 7", "len(x.tolist())", "int(f > {f})"),
    },
    breaking={"f": ("opaque(int({f}) % 5) + f", "f + opaque(n)")},
    statements=(
        "f = {f}", "f = {f}", "f = x[0].item()", "f = y.sum().item()", "x.add_({f})", "x[0] = {f}", "x.copy_({t})", "x.mul_(0.5)", "x.data.add_(1)",
        "torch._foreach_add_([x, y], 1.0)", "torch.add(y, 1, out=x)", "a[0] += 1", "a *= 0.5", "x[:2].neg_()", "x.view(-1, 1).add_(1)",
        "x.zero_()", "y.fill_({f})", "o.k = {f}", "LOG.append({f})", "LOG.append(round({f}, 3))", "xs[0].add_({f})", "o.a.sub_(0.25)",
        "LOG.append({f} > f)", "KEPT.add_(1)", "KEPT[0] = {f}", "KEPT.copy_({t})", "y.add_(x)", "x.clamp_(max={f})", "x.data = {t}",
        "f += {f}", "f *= 0.5", "x.detach().sub_(1)", "x[1:].copy_(y[1:])", "x.index_fill_(0, torch.tensor([0]), {f})", "x.set_(y.clone())",
        "torch.nn.functional.relu_(x)", "x.masked_fill_(x > 1, {f})", "LOG.append(f'{{f}} {{x[0].item()}}')", "f, m = {f}, n", "x += y",
        "x.lerp_(y, 0.5)",
    ),
    breaking_statements=("print(f'{{f:.3f}}')", "f = {bf}", "print({f})", "LOG.append([f, opaque(1)])", "print(x[0].item() + f)"),
    blocks=(
        "if {f} > {1;0.5;f}:\n    BLOCK\nelse:\n    BLOCK", "for f in {x.tolist();taken(x);taken(y)}:\n    BLOCK",
        "f = {f}\nBLOCK\nx = x * f", "f = {f}\nBLOCK\nLOG.append(f)", "f = {f}\nx.add_(1)\ny = y * (f + 1)\nBLOCK\no.k = f",
        "def NEW(k={f}):\n    nonlocal n, x\n    BLOCK\n    return k\nf = NEW()",
    ),
)  # fmt: skip
