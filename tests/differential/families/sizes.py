"""Sizes of tensors, which differ from call to call: arithmetic on them, comparisons, views, and tensors made of them."""

from __future__ import annotations

from differential.family import Family

FAMILY = Family(
    expressions={
        "i": (
            "x.size(0)", "x.shape[-1]", "len(y)", "x.numel()", "x.size(0) * n + 1", "x.shape[0] // 2", "-x.size(0) // 2", "x.numel() % 3", "x.dim()",
            "(x.size(0) + m) % 5", "max(x.size(0), n)", "min(len(y), {i})", "abs(x.size(0) - n)", "sum(x.shape)", "x.size(0) ** 2 % 7",
            "divmod(x.numel(), 2)[1]",
            "x.stride(0)", "sum(t.size(0) for t in xs)", "len(range(x.size(0)))", "int(x.size(0) / 2)", "round(x.size(0) * 1.5)", "x.size(0) << 1",
            "x.size(0) & 3", "len(f'{{x.size(0)}}')", "[5, 6, 7, 8, 9, 4, 3][x.size(0)]", "{{3: 1, 4: 2}}.get(x.size(0), 0)", "x.nelement()",
        ),
        "t": (
            "x * x.size(0)", "x + y.size(0)", "torch.full_like(x, x.size(0))", "torch.ones(x.size(0)) * y", "torch.arange(x.size(0)) + y",
            "x.view(-1, 1).expand(x.size(0), 2).sum(1)", "torch.cat([x, y])[: x.size(0)]", "torch.cat([x, y])[x.size(0) :]", "x.reshape(x.shape) + y",
            "torch.stack([x, y]).view(2, x.size(0))[n % 2]", "x / x.numel()", "torch.zeros(x.shape) + y", "x.new_ones(x.size()) - y", "x.roll({i} % 2)",
            "torch.stack([x, y]).t().contiguous().view(-1)[: x.size(0)]", "torch.linspace(0, 1, x.size(0)) * y", "(x * y.mean()).cumsum(0)",
            "torch.nn.functional.pad(x, (1, 0))[: x.size(0)]", "x[torch.arange(x.size(0) - 1, -1, -1)]", "torch.outer(x, y).sum(0)",
            "sum((x * k for k in range(x.size(0))), y)", "(x if x.size(0) > n else y)", "x.unfold(0, 1, 1).squeeze(-1)", "torch.eye(x.size(0)) @ x",
        ),
        "c": (
            "x.size(0) > 2", "x.size(0) == y.size(0)", "x.size(0) % 2 == 0", "x.numel() <= n", "x.shape == y.shape", "2 <= len(x) < 5", "x.size(0) in (3, 4)",
            "x.size(0) * 2 > m + 4", "bool(x.size(0) - 4)", "x.shape[0] != {i}", "x.size() == torch.Size([3])",
        ),
    },
    breaking={"i": ("opaque(x.size(0))", "x.size(opaque(0))"), "t": ("x * opaque(x.size(0))", "torch.ones(opaque(x.size(0))) + y")},
    statements=(
        "n = x.size(0)", "m = x.size(0) - y.size(0) + {i}", "LOG.append(x.size(0))", "LOG.append(tuple(x.shape))", "o.n = x.size(0) + {i}", "COUNT = x.numel()",
        "assert x.size(0) < 6", "xs.append(x[: x.size(0) // 2])", "d['s'] = x.shape", "LOG.append(f'{{x.size(0)}}-{{n}}')", "n, *_ = x.shape",
    ),
    breaking_statements=("print(x.size(0), n)", "print(x.shape)", "o.n = opaque(x.size(0))"),
    loops=("for i in range(x.size(0)):", "for v in x.split(1):", "for i in range(0, x.numel(), 2):"),
)  # fmt: skip
