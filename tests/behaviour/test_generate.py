"""`generate()` of transformers, compiled as a whole: eager's tokens, every break with its place and reason, and few graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit

pytest.importorskip("transformers")

from tools.libraries import transformers

SIZES = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 63, "pad_token_id": 0}
SMALL = {
    **SIZES, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip


def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=1, **SMALL))


def gpt2() -> Any:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, n_positions=64, **SIZES))


class Counter:
    """A backend that notes the sizes of the graphs that it compiles and of those that run."""

    def __init__(self) -> None:
        self.graphs: list[int] = []
        self.runs: list[int] = []

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        size = sum(node.op in ("call_function", "call_method") for node in graph.graph.nodes)
        self.graphs.append(size)

        def run(*args: Any) -> Any:
            self.runs.append(size)
            return graph(*args)

        return run


def prompt() -> torch.Tensor:
    return torch.randint(2, 60, (2, 5), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("build", "cache"), [(llama, "static"), (llama, None), (gpt2, "static")], ids=["llama", "llama-dynamic", "gpt2"])
def test_few_tokens(build: Callable[[], Any], cache: str | None) -> None:
    """As many steps as there may be entries: one graph for each, which holds the whole forward."""
    torch.manual_seed(0)
    model, ids, counter = build().eval(), prompt(), Counter()
    options = {"max_new_tokens": 5, "do_sample": False, "cache_implementation": cache}
    expected = model.generate(ids, **options)
    framejit.reset()
    before = framejit.statistics()
    compiled = framejit.compile(model.generate, backend=counter)
    assert torch.equal(compiled(ids, **options), expected)
    graphs = list(counter.graphs)
    assert torch.equal(compiled(ids, **options), expected)
    assert counter.graphs == graphs, "a second call compiles nothing"
    after = framejit.statistics()
    assert after["fallbacks"] == before["fallbacks"]
    assert len([size for size in graphs if size > 20]) == 5, "one for the prompt, one for each token after the first"
    reasons = after["reasons"][len(before["reasons"]) :]
    assert all(reason.startswith("FJ005") and "generation/utils.py:" in reason for reason in reasons if "contextlib.py" not in reason)


def test_graphs_are_bounded_with_a_static_cache() -> None:
    """Sizes that grow become symbolic after some steps, and so does the number of tokens from the second call on; the forward pass stays in one graph."""
    torch.manual_seed(0)
    model, ids, counter = llama().eval(), prompt(), Counter()

    def text(ids: torch.Tensor, count: int) -> Any:
        return model.generate(ids, max_new_tokens=count, do_sample=False, cache_implementation="static")

    with framejit.config.replace(recompile_limit=3):
        compiled = framejit.compile(text, backend=counter)
    assert torch.equal(compiled(ids, 24), text(ids, 24))
    graphs = len(counter.graphs)
    counter.runs.clear()
    assert torch.equal(compiled(ids, 40), text(ids, 40))
    assert len(counter.graphs) <= graphs + 6, counter.graphs
    # What breaks call natively is compiled by itself, for as many sizes as there may be entries; the loop is not given up.
    assert not [reason for reason in framejit.statistics()["reasons"] if reason.startswith("FJ019") and "resumed" in reason]
    assert len([size for size in counter.runs if size > 60]) == 40, "the forward of every step is in one graph"


def mistral() -> Any:
    return transformers.MistralForCausalLM(transformers.MistralConfig(num_key_value_heads=1, sliding_window=8, **SMALL))


@pytest.mark.parametrize(
    ("build", "cache", "most"),
    [(llama, None, 4), (llama, "static", 3), (gpt2, None, 4), (mistral, None, 5)],
    ids=["llama", "llama-static", "gpt2", "mistral-sliding"],
)
def test_graphs_do_not_depend_on_the_tokens(build: Callable[[], Any], cache: str | None, most: int) -> None:
    """A model whose forward is compiled: the cache grows, or slides, and the graphs for a few tokens serve many."""
    torch.manual_seed(0)
    model, ids, counter = build().eval(), prompt(), Counter()
    options = {"do_sample": False, "cache_implementation": cache}
    expected = {count: model.generate(ids, max_new_tokens=count, min_new_tokens=count, **options) for count in (12, 24)}
    framejit.reset()
    model.forward = framejit.compile(model.forward, backend=counter)
    for count in (12, 12):
        assert torch.equal(model.generate(ids, max_new_tokens=count, min_new_tokens=count, **options), expected[count])
    graphs = len(counter.graphs)
    assert graphs <= most, framejit.statistics()
    assert torch.equal(model.generate(ids, max_new_tokens=24, min_new_tokens=24, **options), expected[24])
    assert len(counter.graphs) <= graphs + (cache == "static"), "a static cache is as long as the text that is asked for"
    assert not framejit.statistics()["fallbacks"], framejit.statistics()["reasons"]
