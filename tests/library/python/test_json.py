"""json in compiled functions: texts, values, errors and hooks as in eager, without a graph break."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit

CONFIG = {"name": "model", "sizes": [1, 2.5, None], "nested": {"flag": True, "text": "é\n"}}
circular: list[Any] = []
circular.append(circular)


def outcome(act: Callable[[], Any]) -> Any:
    try:
        return repr(act())
    except Exception as error:
        return type(error), error.args, vars(error), getattr(error, "__notes__", None)


def assert_whole(act: Callable[[], Any]) -> None:
    framejit.reset()
    compiled = framejit.compile(lambda x: (x + 1, outcome(act)), backend="eager", fullgraph=True)
    for _ in range(2):
        x, found = compiled(torch.ones(2))
        assert torch.equal(x, torch.full((2,), 2.0)) and found == outcome(act)
    assert framejit.statistics()["graphs"] == 1


VALUES = (1, "a\u1234\ud800", None, 1.5, float("inf"), {}, {1: 2, None: [], 2.5: ()}, collections.OrderedDict(b=1, a=2), CONFIG, 1 << 80)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("options", [{}, {"indent": 2, "ensure_ascii": False}, {"separators": (",", ":")}, {"check_circular": False}])
def test_values_become_texts(value, options):
    assert_whole(lambda: json.dumps(value, **options))


@pytest.mark.parametrize("value, options", [
    ([float("nan")], {"allow_nan": False}), (circular, {}), ({"a": [object]}, {}), ({(1, 2): 3}, {}), ({1: 1, "a": 2}, {"sort_keys": True}),
])  # fmt: skip
def test_errors_of_writing(value, options):
    assert_whole(lambda: json.dumps(value, **options))


def test_defaults_and_encoders_of_the_program():
    class Sets(json.JSONEncoder):
        def default(self, value):
            return sorted(value) if isinstance(value, set) else super().default(value)

    assert_whole(lambda: json.dumps({"a": {2, 1}}, cls=Sets))
    assert_whole(lambda: json.dumps({"a": object}, cls=Sets))
    assert_whole(lambda: json.dumps([object, 1], default=lambda value: value.__name__))


@pytest.mark.parametrize("text", [
    ' [1, 2.5e3, "a\\u1234", null, true] ', '{"a": {"b": [], "a": -0}}', "NaN", "[Infinity, -Infinity]", '"\\ud83d\\ude00"', "12345678901234567890123", b"[1]",
])  # fmt: skip
def test_texts_become_values(text):
    assert_whole(lambda: json.loads(text))


@pytest.mark.parametrize("text", ['{"a": 1,}', "[1,", '{"a" 1}', '"abc', '"\\x"', "", "nul", "1 2", '"\t"', "\ufeff1", 5])
def test_errors_of_reading(text):
    assert_whole(lambda: json.loads(text))


def test_hooks_of_the_program():
    assert_whole(lambda: json.loads('{"a": {"b": 1}}', object_hook=lambda found: ("seen", found)))
    assert_whole(lambda: json.loads('{"a": {"b": 1}}', object_pairs_hook=collections.OrderedDict))
    assert_whole(lambda: json.loads("[NaN, 2]", parse_constant=lambda name: name.lower(), parse_int=float))
    assert_whole(lambda: json.loads('{"a": 1}', object_hook=lambda found: 1 / 0))
    assert_whole(lambda: json.JSONDecoder().raw_decode("[1] and more"))


def test_each_call_reads_a_value_of_its_own_and_another_text_is_read_anew():
    def program(x, text):
        found = json.loads(text)
        found["sizes"].append(x.shape[0])
        return x * found["scale"], found

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for scale in (2, 2, 3):
        text = '{"scale": %d, "sizes": [1]}' % scale
        expected, found = program(torch.ones(2), text), compiled(torch.ones(2), text)
        assert torch.equal(found[0], expected[0]) and found[1] == expected[1]
    assert framejit.statistics()["graphs"] == 2


def test_what_was_written_is_guarded():
    settings = {"rate": 0.5, "names": ["a"]}
    compiled = framejit.compile(lambda x: (x + 1, json.dumps(settings)), backend="eager", fullgraph=True)
    for change in (lambda: None, lambda: settings["names"].append("b"), lambda: settings.update(rate=1), lambda: settings.update(extra=None)):
        change()
        assert compiled(torch.ones(2))[1] == json.dumps(settings)


def test_numbers_that_vary_are_written_in_each_call():
    def program(x, step, loss):
        return x + 1, json.dumps({"step": step, "loss": loss, "mean": x.mean().item()})

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for step, loss in enumerate((0.5, 1.5, float("nan"), float("-inf"), 1e30)):
        x = torch.full((2,), float(step))
        assert compiled(x, step, loss)[1] == program(x, step, loss)[1]
    assert framejit.statistics()["graphs"] == 2


def test_long_texts_are_read_between_graphs():
    text = json.dumps(list(range(10_000)))
    framejit.reset()
    compiled = framejit.compile(lambda x: x + len(json.loads(text)), backend="eager")
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 10_001.0)) and framejit.statistics()["graph_breaks"] == 1
