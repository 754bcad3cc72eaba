"""The corpus of models (`tools/bench/corpus.py`): configurations are made small, differences from eager are noticed, and a run goes on where it ended."""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tools.bench import corpus, corpus_configs, corpus_diffusers_inputs, corpus_models, corpus_runs, records
from tools.bench.corpus_configs import Scale
from tools.bench.corpus_models import Entry
from tools.compilers import Compiler, Framejit, Statistics
from tools.libraries import transformers
from tools.models import Example


def test_small_configurations() -> None:
    """Layers, widths and vocabularies are smaller, in nested configurations too; equal tokens stay equal, and the configuration itself is as it was."""
    config = transformers.LlavaConfig(image_token_index=32000)
    small = corpus_configs.small(config, Scale(2, 8))
    assert (small.text_config.num_hidden_layers, small.vision_config.num_hidden_layers) == (2, 2)
    assert small.text_config.hidden_size == config.text_config.hidden_size // 8
    assert small.text_config.num_attention_heads == config.text_config.num_attention_heads
    assert small.image_token_index < small.text_config.vocab_size < config.text_config.vocab_size == 32000
    assert config.image_token_index == 32000


def test_of_different_kinds_of_layers_each_remains() -> None:
    small = corpus_configs.small(transformers.Qwen3NextConfig(), Scale(2, 8))
    assert small.layer_types == ["linear_attention", "full_attention"]


def test_entries_are_selected_by_name_and_library() -> None:
    assert corpus_models.select("bert,timm:resnet18", None) == [Entry("transformers", "bert"), Entry("timm", "resnet18")]
    assert len({entry.library for entry in corpus_models.select("timm", 7)}) == 1
    assert len(corpus_models.select(None, 7)) == 7
    with pytest.raises(ValueError, match="unknown model brt"):
        corpus_models.select("brt", None)


@pytest.mark.parametrize("entry", [Entry("transformers", "bert"), Entry("timm", "resnet18")])
@pytest.mark.parametrize("measure", ["eval", "train"])
def test_models_that_are_one_graph(entry: Entry, measure: str) -> None:
    result = corpus_runs.check(corpus_runs.build(entry).example, measure, Framejit())
    assert (result.verdict, result.breaks, result.recompiles) == ("whole", 0, 0), result


def test_a_package_without_a_model_that_runs_says_why() -> None:
    with pytest.raises(corpus_runs.NotBuilt, match="no public class"):
        corpus_runs.build(Entry("transformers", "deprecated"))


ROWS = {"hidden_states": torch.ones(1, 16, 32), "encoder_hidden_states": torch.ones(1, 8, 32), "timestep": torch.tensor([7])}


@pytest.mark.parametrize(
    ("call", "name", "shape"),
    [
        (lambda given: nn.Linear(6, 3)(given["encoder_hidden_states"]), "encoder_hidden_states", (1, 8, 6)),
        (lambda given: nn.Linear(6, 3)(given["hidden_states"]), "hidden_states", (1, 16, 6)),
        (lambda given: nn.LayerNorm(6)(given["hidden_states"]), "hidden_states", (1, 16, 6)),
        (lambda given: nn.Conv1d(5, 3, 1)(given["hidden_states"]), "hidden_states", (1, 5, 32)),
        (lambda given: nn.Linear(1, 3)(given["timestep"]), "timestep", (1,)),
    ],
)
def test_errors_say_how_wide_inputs_are(call: Any, name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError) as raised:
        call(ROWS)
    changed = corpus_diffusers_inputs.corrected(ROWS, str(raised.value))
    assert changed is not None
    assert {key: value.shape for key, value in changed.items()} == {**{key: value.shape for key, value in ROWS.items()}, name: torch.Size(shape)}
    assert call(changed) is not None


def test_an_error_about_something_else_changes_no_input() -> None:
    assert corpus_diffusers_inputs.corrected(ROWS, "ValueError: not enough values to unpack (expected 5, got 4)") is None


def test_a_model_with_tensors_computed_from_its_parameters_is_copied() -> None:
    """The older weight_norm sets such an attribute, which `copy.deepcopy` refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        model = nn.utils.weight_norm(nn.Linear(3, 2))
    x, copied = torch.ones(1, 3), corpus_runs.copied(model)
    assert torch.equal(copied(x), model(x)) and copied.weight_v is not model.weight_v
    copied(x).sum().backward()
    assert copied.weight_v.grad is not None and model.weight_v.grad is None


class Changed(Compiler):
    """A compiler that makes something else of a model than it is."""

    def __init__(self, change: Any, statistics: Statistics = Statistics(graphs=1)) -> None:
        self._change, self._statistics = change, statistics

    def compile(self, function: Any, backend: Any, dynamic: bool | None = None) -> Any:
        return lambda x: self._change(function(x))

    def statistics(self) -> Statistics:
        return self._statistics


def draws(result: torch.Tensor) -> torch.Tensor:
    torch.rand(1)
    return result


def fails(result: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("not this")


@pytest.mark.parametrize(
    ("change", "verdict", "words"),
    [
        (lambda result: result, "whole", ""),
        (lambda result: result * (1 + 2**-20), "wrong", "call 1: the largest error"),
        (lambda result: result.half(), "wrong", "dtype"),
        (draws, "wrong", "random numbers of torch"),
        (fails, "failed", "RuntimeError: not this"),
    ],
)
@pytest.mark.parametrize("measure", ["eval", "train"])
def test_every_difference_from_eager_is_noticed(change: Any, verdict: str, words: str, measure: str) -> None:
    result = corpus_runs.check(Example(nn.Linear(3, 2), (torch.randn(4, 3),)), measure, Changed(change))
    assert result.verdict == verdict
    assert words in result.wrong + result.error


def test_breaks_and_uncompiled_frames_count() -> None:
    example = Example(nn.Linear(3, 2), (torch.randn(4, 3),))
    broken = corpus_runs.check(example, "eval", Changed(lambda result: result, Statistics(graphs=2, graph_breaks=1, reasons=("FJ001 a call",))))
    assert (broken.verdict, broken.graphs, broken.breaks, broken.reasons) == ("broken", 2, 1, ["FJ001 a call"])
    uncompiled = corpus_runs.check(example, "eval", Changed(lambda result: result, Statistics(uncompiled=("f runs uncompiled",))))
    assert (uncompiled.verdict, uncompiled.uncompiled) == ("uncompiled", ["f runs uncompiled"])


class Varying(nn.Module):
    """Counts all calls of all copies, and returns the count."""

    calls: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.append(0)
        return x + len(self.calls)


def test_a_model_whose_results_vary_in_eager_is_not_counted() -> None:
    result = corpus_runs.check(Example(Varying(), (torch.zeros(2),)), "eval", Compiler())
    assert result.verdict == "excluded" and "eager's own results vary" in result.excluded


class Asking(nn.Module):
    """Computes something else where it is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * (3 if torch.compiler.is_compiling() else 2)


@pytest.mark.parametrize("measure", ["eval", "train"])
def test_a_model_that_asks_whether_it_is_compiled_is_compared_with_its_answer(measure: str) -> None:
    example = Example(Asking(), (torch.full((3,), 0.1),))
    result = corpus_runs.check(example, measure, Framejit())
    assert (result.verdict, result.asks) == ("whole", True)
    assert corpus_runs.check(example, measure, Changed(lambda result: result * 2)).verdict == "wrong"
    assert not torch.compiler.is_compiling()


def test_a_run_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Results in the file aren't computed again; a missing measure is added; the page has all results."""
    ran: list[tuple[str, list[str]]] = []

    def isolated(entry: Entry, compiler: str, measures: list[str], timeout: float) -> dict[str, Any]:
        ran.append((entry.name, measures))
        result = {"excluded": "", "verdict": "broken", "error": "", "graphs": 2, "breaks": 1, "reasons": ["FJ039 `if x:`"], "first_call": 0.5}
        excluded = "" if entry.name != "gpt2" else "ValueError: no"
        return {
            "entry": entry.key,
            "compiler": compiler,
            "model": "",
            "excluded": excluded,
            "measures": {} if excluded else dict.fromkeys(measures, result),
        }

    monkeypatch.setattr(corpus, "isolated", isolated)
    results, page = tmp_path / "results.jsonl", tmp_path / "corpus.md"
    for measures in ("eval", "eval,train", "eval,train"):
        monkeypatch.setattr(sys, "argv", ["corpus", "--only", "bert,gpt2", "--measure", measures, "--results", str(results), "--markdown", str(page)])
        assert corpus.main() == 0
    assert ran == [("bert", ["eval"]), ("gpt2", ["eval"]), ("bert", ["train"])]
    assert [json.loads(line)["entry"] for line in results.read_text().splitlines()] == ["transformers:bert", "transformers:gpt2"]
    text = page.read_text()
    assert "| transformers | eval | framejit | 1 | 0 | 1 | 0 | 0 | 0 | 0.0 | 1 | 0.50 |" in text
    assert "- FJ039 `if x:`: bert (eval), bert (train)" in text and "- transformers:gpt2: ValueError: no" in text
    assert "excluded: ValueError: no" in capsys.readouterr().out


def test_records_lose_nothing_in_their_file(tmp_path: Path) -> None:
    """Lines leave out what is usual, are in the order of entries, and come back as they were."""
    whole = corpus_runs.check(Example(nn.Linear(3, 2), (torch.randn(4, 3),)), "eval", Framejit())
    broken = records.Result(graphs=2, breaks=1, recompiles=3, reasons=["FJ001 a call"], asks=True, first_call=0.25)
    path = tmp_path / "records.jsonl"
    given = [
        {
            "entry": f"{library}:{name}",
            "compiler": "framejit",
            "ran": "2026-11-28",
            "model": "Model(x)",
            "excluded": "",
            "measures": {measure: {**dataclasses.asdict(result), "verdict": result.verdict} for measure, result in (("eval", whole), ("train", broken))},
        }
        for library, name in (("timm", "b"), ("transformers", "c"), ("transformers", "a"))
    ]
    for record in given:
        record["measures"]["eval"]["first_call"] = 0.125
        records.append(path, record)
    records.tidy(path, corpus_models.LIBRARIES)
    found = records.read(path)
    assert [entry for entry, _ in found] == ["transformers:a", "transformers:c", "timm:b"]
    assert all(found[record["entry"], "framejit"] == record for record in given)
    assert path.read_text().splitlines()[0].count("first_call") == 2 and '"eval": {"first_call": 0.125}' in path.read_text()
