"""Gradients: modes that are left and entered around breaks, buffers changed in the forward, hooks and Functions that run later, views of all these."""

from __future__ import annotations

from differential.family import Family

PRELUDE = '''
from torch.utils.checkpoint import checkpoint

W = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
BUFFER = torch.ones(3)
STEP = torch.zeros(())


def factors(k):
    for i in range(9):
        LOG.append(("factor", i))
        yield 1.0 + (i + k) % 3


class Feeding:
    def __init__(self, k):
        self.source = factors(k)
        self.used = 0

    def next(self):
        self.used += 1
        return next(self.source)


def hooked(function):
    """AOTAutograd calls a hook on a result that no gradient comes to with None."""
    return lambda gradient: None if gradient is None else function(gradient)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, source):
        ctx.save_for_backward(t)
        ctx.source = source
        return t * 2

    @staticmethod
    def backward(ctx, gradient):
        (t,) = ctx.saved_tensors
        factor = next(ctx.source) if ctx.source is not None else 3.0
        return gradient * factor + t * 0.5, None


class Pure(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t.sin()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * sum(k for k in (1.0, 2.0))


@torch.no_grad()
def watched(t, k=1):
    print("watched", k)
    return t * 1


@torch.no_grad()
def tracked(t):
    BUFFER.mul_(0.5).add_(t.detach()[:3].sum())
    return t


class Tracking(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, t):
        self.count += 1
        with torch.no_grad():
            self.mean.lerp_(t.abs(), 0.1)
        return t * self.weight * torch.tanh(self.count / 4) / (self.mean + 1)


tracking = Tracking()
'''

LATER = (
    "hooked({lambda v: v * next(g);lambda v: v * 2;lambda v: v * feeding.next();lambda v: LOG.append('hook');"
    "lambda v: v + sum(k for k in (1, 2));lambda v: v * n})"
)

FAMILY = Family(
    prelude=PRELUDE,
    variables={"g": "g = factors(1)", "h": "h = W * 2", "feeding": "feeding = Feeding(2)"},
    expressions={
        "t": (
            "h", "W * {t}", "h + {t}", "(W * {t}).view(-1)", "h[:]", "h.unsqueeze(0)[0]", "{t}.view(-1)", "h.detach()", "{t}.detach() * W", "W.view(3)", "W[:]",
            "h * BUFFER", "h / (BUFFER + 3)", "h * torch.tanh(STEP / 10)", "BUFFER * 1", "(h * W).reshape(-1)", "h.unbind()[0] + h", "h.sin().exp()",
            "Scale.apply({t} * W, g)", "Scale.apply(h, None)", "Pure.apply({t} * W)", "tracking({t})", "tracking(h)", "tracked({t}) * W", "tracked(h)",
            "checkpoint(lambda t: (t * {2;n;3.0}).sin(), h, use_reentrant=False)", "checkpoint(lambda t: t * next(g), h, use_reentrant=False)",
            "torch.where(h > 0, h, {t})", "h.expand(2, 3)[0]", "h.relu()", "{t}.requires_grad_(False)", "W.data * {t}", "h.as_strided((3,), (1,))",
        ),
        "c": ("n > m", "torch.is_grad_enabled()", "h.requires_grad", "x.requires_grad", "y.is_leaf", "h._is_view()", "(x * 2).requires_grad"),
        "i": ("1", "int(x.requires_grad)", "int(torch.is_grad_enabled())", "feeding.used"),
    },
    breaking={
        "t": ("watched(h, {i})", "watched({t} * W)", "(h if h.sum() > 0 else {t} * W)", "tracking(h * opaque(1))"),
    },
    statements=(
        "h = {t} * W", "h = {t}", "h = W * {i}", "y = y + h", "x = x * W", "BUFFER.add_(1)", "STEP.add_(1)", "BUFFER.mul_(0.5).add_({t}.detach()[:3])",
        "BUFFER.copy_({t}.detach()[:3])", "h.register_hook(" + LATER + ")", "h.register_hook(" + LATER + ")", "W.data.mul_(0.9)", "h.mul_(2)", "h = h[:]",
        "h = h.detach()", "h.retain_grad()", "h.requires_grad_()", "y.requires_grad_()", "STEP.mul_(0.5)",
        "LOG.append((x.requires_grad, h.requires_grad, h.is_leaf))",
        "LOG.append(h.grad_fn is None)", "xs.append(h)", "o.a = h", "x = x.detach()", "h.detach_()", "x, h = h, x * W", "BUFFER.data.add_(1)",
        "torch._foreach_add_([BUFFER, STEP], 1.0)", "h[0] = {i}", "h = h.view(3)", "d['h'] = h", "g = factors({i})", "next(g)", "feeding = Feeding({i})",
        "torch.set_grad_enabled({True;True;False;n > 1})",
    ),
    breaking_statements=(
        "print(torch.is_grad_enabled(), h.requires_grad)", "h = watched(h)", "LOG.append((opaque(1), h.requires_grad))", "print(h.mean().item())",
    ),
    blocks=(
        "with torch.no_grad():\n    BLOCK\n    {print('in');n = opaque(n);BUFFER.add_(1);print(h.sum().item())}",
        "with torch.no_grad():\n    if h.abs().max() > 100:\n        print('large')\n    BLOCK\nh = h.view(-1)",
        "with torch.enable_grad():\n    BLOCK\n    {h = h[:];x = h.view(-1);print('in');h = W * 2}",
        "h = {t} * W\nwith torch.no_grad():\n    {BUFFER.copy_(h.detach());W.mul_(0.9);W.clamp_(-1, 1);STEP.add_(h.sum());tracking.mean.add_(1)}\n    BLOCK\n"
            "y = y + h / (BUFFER * BUFFER + STEP.abs() + 1)",
        "h = {t} * W\nh.register_hook(" + LATER + ")\nBLOCK\ny = y + h",
        "torch.set_grad_enabled(False)\nBLOCK\ntorch.set_grad_enabled(True)\nh = {h[:];h.view(-1);W[:];h * 2}",
        "@torch.no_grad()\ndef NEW(t):\n    nonlocal n, x\n    BLOCK\n    return {t;t * 1;t[:];x.view(-1)}\nh = {NEW(h);NEW(h) * W;NEW(x)}",
        "STEP.add_(1)\nBLOCK\ny = y * W * {torch.tanh(STEP / 10);STEP;(STEP + 1).sqrt();STEP.exp()}\nBLOCK",
        "with torch.autograd.graph.saved_tensors_hooks({lambda t: t * 1, lambda t: t;lambda t: (t, n), lambda t: t[0]}):\n    BLOCK\n    h = h.sin() * W",
    ),
    managers=("torch.no_grad()", "torch.enable_grad()", "torch.set_grad_enabled({True;False})"),
)  # fmt: skip
