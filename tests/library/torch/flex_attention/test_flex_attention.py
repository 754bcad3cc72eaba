"""flex_attention in compiled code, against eager's: functions of scores and of masks, masks of blocks from outside and made inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from operators import BACKENDS
from torch.nn.attention import flex_attention as flex
from torch.nn.attention.flex_attention import BlockMask, and_masks, create_block_mask, create_mask, flex_attention

import framejit
from framejit.errors import Unsupported

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
BIAS, SLOPES = torch.randn(2, 31), torch.tensor([0.1, 0.2])
DOCUMENTS = torch.tensor([0] * 8 + [1] * 8)


def heads(count: int = 2) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(count)
    return tuple(torch.randn(1, count, 16, 8) for _ in range(3))


def causal(b, h, i, j):
    return i >= j


def window(size):
    def near(b, h, i, j):
        return i - j < size

    return near


def same_document(b, h, i, j):
    return DOCUMENTS[i] == DOCUMENTS[j]


def plain(q, k, v, mask):
    return flex_attention(q, k, v)


def with_scores(q, k, v, mask):
    return flex_attention(q * 2, k, v, score_mod=lambda score, b, h, i, j: score + (i - j) * 0.1)


def with_a_bias(q, k, v, mask):
    return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + BIAS[h, i - j + 15])


def with_slopes_computed_before(q, k, v, mask):
    slopes = SLOPES.exp()

    def alibi(score, b, h, i, j):
        return torch.where(i >= j, score + slopes[h] * (j - i) + DOCUMENTS[0], -float("inf"))

    return flex_attention(q, k, v, score_mod=alibi, scale=0.5)


def with_a_mask(q, k, v, mask):
    return flex_attention(q, k, v, block_mask=mask).sin()


def with_both(q, k, v, mask):
    return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score * q.mean() + SLOPES[h], block_mask=mask)


def with_groups(q, k, v, mask):
    return flex_attention(q, k[:, :1], v[:, :1], block_mask=mask, enable_gqa=True)


def with_a_mask_made_inside(q, k, v, mask):
    both = and_masks(causal, same_document, window(int(q.shape[1]) * 3))
    made = create_block_mask(both, None, None, 16, 16, device="cpu", BLOCK_SIZE=8)
    return flex_attention(q, k, v, block_mask=made), made.kv_num_blocks


def with_a_mask_for_each_head(q, k, v, mask):
    made = create_block_mask(lambda b, h, i, j: i - j >= h, 1, 2, 16, 16, device="cpu", BLOCK_SIZE=8)
    return flex_attention(q, k, v, block_mask=made)


def masks(q, k, v, mask):
    """Dense ones."""
    of_scores = create_mask(lambda score, b, h, i, j: torch.where(BIAS[h, i] > 0, score, -float("inf")), 2, 2, 16, 16, device="cpu")
    return create_mask(same_document, None, None, 16, 16, device="cpu"), of_scores


PROGRAMS = (
    plain, with_scores, with_a_bias, with_slopes_computed_before, with_a_mask, with_both, with_groups, with_a_mask_made_inside,
    with_a_mask_for_each_head, masks,
)  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_forward(program: Callable[..., Any], backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    compiled = framejit.compile(program, backend=backend)
    framejit.reset()
    for mask_mod in (causal, causal, window(4)):
        mask = create_block_mask(mask_mod, None, None, 16, 16, device="cpu", BLOCK_SIZE=8)
        torch.testing.assert_close(compiled(*heads(), mask), program(*heads(), mask))
    used = program in (with_a_mask, with_both, with_groups)
    assert (framejit.statistics()["graphs"], framejit.statistics()["reasons"]) == (2 if used else 1, []), framejit.statistics()


def test_gradients_around() -> None:
    """Code before and after attention is differentiated. On the CPU, attention itself can't be differentiated, nor can it in eager."""
    compiled = framejit.compile(lambda x, q, k, v: flex_attention(q, k, v, score_mod=lambda score, *place: score + 1).sum() * x, backend="eager")
    x = torch.ones((), requires_grad=True)
    compiled(x, *heads()).backward()
    torch.testing.assert_close(x.grad, flex_attention(*heads()).sum())


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_a_bias(backend: str) -> None:
    """Tensors that functions of scores use are differentiated on the CPU too. Masks are made of them without gradients."""
    bias = torch.randn(2, 31, requires_grad=True)

    def function(q, k, v):
        with_bias = flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + bias[h, i - j + 15])
        mask = create_mask(lambda score, b, h, i, j: torch.where(bias[h, i] > 0, score, -float("inf")), 1, 2, 16, 16, device="cpu")
        return with_bias.pow(2).sum(), mask

    told = []
    framejit.reset()
    for call in (framejit.compile(function, backend=backend), function):
        result, mask = call(*heads())
        told.append((result, mask, *torch.autograd.grad(result, [bias])))
    torch.testing.assert_close(*told)
    assert (framejit.statistics()["graphs"], framejit.statistics()["reasons"]) == (1, [])


def test_what_torch_refuses() -> None:
    """The error is torch's, and the log names the program's line."""
    q, k, v = (tensor.requires_grad_() for tensor in heads())
    with pytest.raises(NotImplementedError, match="does not support backward on CPU") as raised:
        framejit.compile(plain, backend="eager", fullgraph=True)(q, k, v, None)
    assert raised.traceback[-3].name == "plain"


def test_what_a_function_reads_is_guarded() -> None:
    setting = {"factor": 1.0}
    compiled = framejit.compile(lambda q, k, v: flex_attention(q, k, v, score_mod=lambda score, *place: score * setting["factor"]), backend="eager")
    framejit.reset()
    for factor in (1.0, 2.0, 2.0):
        setting["factor"] = factor
        q, k, v = heads()
        torch.testing.assert_close(compiled(q, k, v), flex_attention(q * factor, k, v))
    assert framejit.statistics()["graphs"] == 2


def prints(score, b, h, i, j):
    print(end="")
    return score


SEEN: list[int] = []


def appends(score, b, h, i, j):
    SEEN.append(1)
    return score


def gives_a_number(score, b, h, i, j):
    return 1


@pytest.mark.parametrize(("score_mod", "reason"), [(prints, "print"), (appends, "side effects"), (gives_a_number, "gives 1, and no tensor")])
def test_refused(score_mod: Callable[..., Any], reason: str) -> None:
    with pytest.raises(Unsupported, match=f"(?s){reason}"):
        framejit.compile(lambda q, k, v: flex_attention(q, k, v, score_mod=score_mod), backend="eager", fullgraph=True)(*heads())
    assert not SEEN


def test_a_mask_that_leaves() -> None:
    compiled = framejit.compile(lambda: create_block_mask(causal, None, None, 16, 16, device="cpu", BLOCK_SIZE=8), backend="eager", fullgraph=True)
    found, expected = compiled(), create_block_mask(causal, None, None, 16, 16, device="cpu", BLOCK_SIZE=8)
    assert type(found) is BlockMask and found.mask_mod is causal
    torch.testing.assert_close(found.to_dense(), expected.to_dense())
    torch.testing.assert_close(found.as_tuple()[2:10], expected.as_tuple()[2:10])


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 2, 3)])
def test_masks_of_blocks_that_are_made_dense(shape: tuple[int, ...]) -> None:
    """The stand-in gives what torch's function gives, which goes by vmap."""
    torch.manual_seed(0)
    counts = torch.randint(0, 5, shape, dtype=torch.int32)
    columns = torch.stack([torch.randperm(4) for _ in range(counts.numel())]).reshape(*shape, 4).int()
    arguments = (counts, columns, 4) if flex._ordered_to_dense.__code__.co_argcount == 3 else (counts, columns)
    compiled = framejit.compile(lambda *args: flex._ordered_to_dense(*args), backend="eager", fullgraph=True)
    found, expected = compiled(*arguments), flex._ordered_to_dense(*arguments)
    assert torch.equal(found, expected) and (found.dtype, found.stride()) == (expected.dtype, expected.stride())
