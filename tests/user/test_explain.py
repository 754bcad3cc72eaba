"""explain(), the logs, the catalogue of break reasons and the command line."""

from __future__ import annotations

import dataclasses
import functools
import gc
import json
import logging
import math
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

import framejit
from framejit import __main__, breaks, config, logs
from framejit.backends import inductor
from framejit.objects.core import registry
from framejit.reporting import catalogue

ROOT = Path(__file__).resolve().parents[2]
x = torch.arange(3.0)


@pytest.fixture(autouse=True)
def fresh():
    framejit.reset()
    yield
    framejit.set_logs()
    framejit.reset()


def helper(a):
    b = a + 1
    print("between")
    return b * 2


def program(a):
    return helper(a * 3) - 1


def as_written(a):
    framejit.skip_frame("nothing to gain")
    return a * 2


# ---- explain ----


def test_explain_tells_graphs_operations_breaks_guards_and_times():
    found = framejit.explain(program, backend="eager")(x)
    assert (found.function, found.graphs, found.operations, found.fallbacks) == ("program", 2, [2, 2], [])
    [stop] = found.breaks
    line = helper.__code__.co_firstlineno + 2
    assert (stop.id, stop.place, stop.before, stop.after) == ("FJ012", f"{__file__}:{line}", 2, (2,))
    assert "print" in stop.reason and "in program" in stop.text and "^^^^" in stop.text and "What to do:" in stop.text
    assert [entry.function for entry in found.entries][0] == "program" and "resumed at" not in str(found)
    assert re.fullmatch(r"program from line \d+ on", found.entries[1].function)
    assert os.path.dirname(torch.__file__) not in "".join(found.entries[0].guards) and "dispatch keys" not in str(found)
    assert any("tensor_match" in guard for guard in found.entries[0].guards)
    assert list(found.seconds) == ["trace", "plan", "backend", "emit", "guards"] and all(found.seconds.values())
    assert json.loads(json.dumps(dataclasses.asdict(found)))["graphs"] == 2


def loop_in_a_callee(a):
    for _ in range(2):
        a = helper(a)
    return a


def calls_the_loop(a, n=2):
    b = loop_in_a_callee(a * n)
    framejit.graph_break()
    return b + a


def test_listings_of_guards_call_things_as_the_program_does(caplog):
    framejit.set_logs("guards")
    with torch._dynamo.error_on_graph_break(False):
        found = framejit.explain(calls_the_loop, backend="eager")(x)
    listing = "\n".join(guard for entry in found.entries for guard in entry.guards)
    for text in (listing, caplog.text):
        assert "_error_on_graph_break" not in text and "torch's error_on_graph_break is off" in text
        assert not re.search(r"[ab] (is exactly a tuple|has length)", text)
        assert "what calls_the_loop goes on with is exactly a tuple" in text and "what loop_in_a_callee goes on with is exactly a tuple" in text
        assert "a is a Tensor" in text


def test_a_recompilation_names_torchs_switch(caplog):
    framejit.set_logs("recompiles")
    compiled = framejit.compile(calls_the_loop, backend="eager")
    compiled(x)
    with torch._dynamo.error_on_graph_break(True), pytest.raises(framejit.Unsupported):
        compiled(x)
    assert "torch's error_on_graph_break: expected that it is off; found on" in caplog.text


def test_explain_prints_well():
    found = framejit.explain(program, backend="eager")(x)
    line = helper.__code__.co_firstlineno + 2
    first, second, third, fourth, last = str(found).splitlines()
    assert first == "program: 2 graphs of 2 and 2 operations, 1 graph break, 0 frames uncompiled"
    assert second.startswith("compiled in ") and " ms: trace " in second and "emit" in second
    assert third == f'graph break: FJ012 print() is a side effect ({__file__}:{line}): print("between")'
    assert fourth.startswith("  Cost: 2 operations before it, 2 after it. What to do: Move it out of the compiled function")
    assert last == f"{len(found.guards)} guards: .guards; each compiled frame: .entries; call stacks: .breaks[0].text"
    assert found.guards == [guard for entry in found.entries for guard in entry.guards] and len(found.guards) > 5
    assert repr(found) == str(found)


def breaks_everywhere(a):
    for _ in range(12):
        a = a + 1
        print("again")
    print("one"), print("two"), print("three"), print("four"), print("five")
    return a


def test_many_breaks_are_summed_up_in_ten_lines():
    found = framejit.explain(breaks_everywhere)(x)
    lines = str(found).splitlines()
    assert len(lines) <= 10 and len(found.breaks) > 6
    again = sum("again" in stop.expression for stop in found.breaks)
    assert again > 1 and f"graph break ({again} times): FJ012" in str(found)
    assert "and 3 more: .breaks" in lines and 'print("five")' not in str(found) and found.breaks[-1].expression == 'print("five")'


def test_many_graphs_are_summed_up():
    found = framejit.explain(program)(x)
    found = dataclasses.replace(found, graphs=20, operations=[3] * 20, breaks=found.breaks * 20, fallbacks=[found.breaks[0]] * 3)
    lines = str(found).splitlines()
    assert lines[0] == "program: 20 graphs of 60 operations in all, 20 graph breaks, 3 frames uncompiled"
    assert "graph break (20 times): FJ012" in str(found) and "Cost: 2, 2, 2, 2, 2, 2, 2, 2, ... operations before it" in str(found) and len(lines) == 6


def test_explain_of_what_isnt_compiled_says_so():
    assert "Nothing was compiled: " in str(framejit.explain(framejit.disable(program))(x))


def test_explain_tells_fallbacks():
    found = framejit.explain(as_written, backend="eager")(x)
    assert found.graphs == 0 and found.operations == [] and found.entries == [] and found.breaks == []
    [stop] = found.fallbacks
    assert stop.id == "FJ024" and 'framejit.skip_frame("nothing to gain")' in stop.text and "as_written runs uncompiled: FJ024" in str(found)


class Scaled(nn.Module):
    def forward(self, a):
        return helper(a) + 1

    @framejit.compile(backend="eager")
    def method(self, a):
        return helper(a)

    def plain(self, a):
        return a + 1


class WithCall:
    @framejit.compile(backend="eager", fullgraph=True)
    def __call__(self, a):
        return helper(a)


@framejit.compile(backend="eager")
def decorated(a):
    return helper(a)


@functools.wraps(decorated)
def around(a):
    return decorated(a)


def test_explain_uses_the_backend_that_was_compiled_with(monkeypatch):
    used = []
    backend = inductor.BACKEND

    def noted(gm, example_inputs, **kwargs):
        used.append(kwargs)
        return gm

    monkeypatch.setattr(inductor, "BACKEND", dataclasses.replace(backend, call=noted))

    def own(gm, example_inputs):
        used.append("own")
        return gm

    eager = functools.partial(framejit.compile, backend="eager")
    net = Scaled()
    targets = [eager(helper), eager(net), eager(net.plain), net.method, WithCall(), decorated, around, functools.partial(helper), eager(lambda a: a + 1)]
    for target in [*targets, helper, net, net.plain, lambda a: a]:
        assert framejit.explain(target)(x).function
    assert used == []
    framejit.explain(framejit.compile(helper, backend=own))(x)
    assert used == ["own", "own"]
    used.clear()
    framejit.explain(framejit.compile(lambda a: a + 1))(x)
    framejit.explain(lambda a: a + 1, backend="inductor")(x)
    framejit.explain(lambda a: a + 1, mode="max-autotune-no-cudagraphs")(x)
    assert used[:2] == [{}, {}] and used[2]["config_patches"]["max_autotune"]


def test_explain_leaves_what_was_compiled_before():
    compiled = framejit.compile(program, backend="eager")
    compiled(x)
    entries = compiled.entries
    assert framejit.explain(compiled, backend="eager")(x).graphs == 2
    assert compiled.entries == entries


def test_explain_of_modules_methods_and_what_it_refuses():
    layer = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    found = framejit.explain(layer, backend="eager")(x)
    assert (found.function, found.graphs, found.operations) == ("Sequential", 1, [2])
    assert framejit.explain(layer.forward, backend="eager")(x).operations == [2]
    with pytest.raises(framejit.BadArgument, match="pass an instance"):
        framejit.explain(nn.ReLU)
    with pytest.raises(framejit.BadArgument, match="got int"):
        framejit.explain(3)
    with pytest.raises(framejit.BadArgument, match=r"go into a second call: framejit.explain\(program\)\(\.\.\.\)$"):
        framejit.explain(program, x)
    with pytest.raises(framejit.BadArgument, match=r"framejit.explain\(program\)\(\.\.\., mask=\.\.\.\)$"):
        framejit.explain(program, x, mask=x, backend="eager")
    with pytest.raises(framejit.BadArgument, match=r"framejit.explain\(Sequential\)\(a=\.\.\.\)$"):
        framejit.explain(layer, a=x)
    with pytest.raises(framejit.BadArgument, match="explain\\(\\) has no option 'bakend'; did you mean 'backend'?"):
        framejit.explain(program, bakend="eager")
    with pytest.raises(framejit.Unsupported):
        framejit.explain(program, backend="eager", fullgraph=True)(x)
    with pytest.raises(framejit.UnknownBackend):
        framejit.explain(program, backend="eagre")


def test_explain_inside_explain():
    def outer(a):
        return framejit.explain(program, backend="eager")(a).graphs

    with framejit.error_on_graph_break(False):
        found = framejit.explain(framejit.disable(outer), backend="eager")(x)
    assert found.graphs == 0 and found.entries == []


# ---- logs ----


def logged(caplog, name, fn=program, detail=False):
    framejit.set_logs(("+" if detail else "") + name)
    framejit.compile(fn, backend="eager")(x)
    return [record.getMessage() for record in caplog.records if record.name == f"framejit.{name}"]


def test_each_break_is_logged_once_with_its_cost(caplog):
    first, behind = logged(caplog, "graph_breaks")
    assert "FJ012" in first and f'"{__file__}", line {helper.__code__.co_firstlineno + 2}, in helper' in first
    source, carets = first.splitlines()[first.splitlines().index('    print("between")') :][:2]
    assert source == '    print("between")' and carets.strip() == "^" * len('print("between")')
    assert "in program" in first and "Cost:" in first and "2 operations" in first and "What to do:" in first
    assert "a graph of 2 operations" in behind
    caplog.clear()
    framejit.compile(program, backend="eager")(x)
    assert not [record for record in caplog.records if "FJ012" in record.getMessage()]


def test_the_trace_log_shows_instructions_as_interpreted(caplog):
    lines = logged(caplog, "trace")
    assert any(line.startswith(f"program:{program.__code__.co_firstlineno + 1} ") for line in lines)
    assert any(line.startswith(f"  helper:{helper.__code__.co_firstlineno + 1} ") and "BINARY_OP" in line for line in lines)


def test_the_trace_log_costs_nothing_when_off(monkeypatch):
    framejit.set_logs()
    asked = []
    monkeypatch.setattr(logs, "info", lambda name, *rest: asked.append(name))
    framejit.compile(program, backend="eager")(x)
    assert not asked


@pytest.mark.parametrize(("name", "expected"), [
    ("resume", "program goes on in program (resumed at"),
    ("backends", "eager compiled 2 operations, 1 input, 1 output of program"),
    ("guards", "tensor_match"),
    ("graph_code", "class "),
    ("bytecode", "program, compiled"),
])  # fmt: skip
def test_other_logs(caplog, name, expected):
    assert expected in "\n".join(logged(caplog, name))


def test_the_effects_log(caplog):
    changed = []

    def f(a):
        changed.append(a)
        return a + 1

    [text] = logged(caplog, "effects", f)
    assert "changed, a list, is changed" in text


def test_the_recompiles_log(caplog):
    framejit.set_logs("recompiles")
    compiled = framejit.compile(lambda a: a + 1, backend="eager")
    compiled(x), compiled(torch.ones(5))
    assert "expected that it" in caplog.text


def test_set_logs_replaces_and_refuses():
    framejit.set_logs("guards", "+resume,-recompiles")
    assert logs.enabled("guards") and logs.enabled("resume", detail=True) and not logs.enabled("graph_breaks")
    assert logging.getLogger("framejit.recompiles").level == logging.ERROR
    framejit.set_logs("graph_breaks")
    assert logs.enabled("graph_breaks") and not logs.enabled("guards")
    with pytest.raises(framejit.UnknownLog, match=r"set_logs\(\): there is no log 'graph_break'; did you mean 'graph_breaks'"):
        framejit.set_logs("graph_break")
    with pytest.raises(framejit.UnknownLog, match="did you mean 'help'"):
        framejit.set_logs("hlep")
    with pytest.raises(framejit.BadArgument, match="names of logs; got 3"):
        framejit.set_logs(3)
    assert logs.enabled("graph_breaks"), "what is refused changes nothing"


def test_logs_to_a_file(tmp_path):
    path = tmp_path / "log.txt"
    framejit.set_logs("graph_breaks", out=str(path))
    framejit.compile(program, backend="eager")(x)
    framejit.set_logs()
    text = path.read_text()
    assert text.startswith("[framejit.graph_breaks] graph break") and "FJ012" in text
    framejit.reset()
    framejit.compile(program, backend="eager")(x)
    assert path.read_text() == text
    with pytest.raises(framejit.ConfigError, match="log.txt can't be written: No such file"):
        framejit.set_logs("guards", out=str(tmp_path / "no" / "log.txt"))


def test_help_lists_every_log(capsys):
    framejit.set_logs("help")
    text = capsys.readouterr().err
    for name, shows in logs.NAMES.items():
        assert name in text and shows in text
    assert {"graph_breaks", "recompiles", "guards", "graph_code", "bytecode", "trace", "resume", "backends", "effects"} <= set(logs.NAMES)


@pytest.mark.slow
def test_logs_by_environment(tmp_path):
    assert config.from_environment({"FRAMEJIT_LOGS": "guards", "FRAMEJIT_LOGS_OUT": "a.txt"}).logs_out == "a.txt"
    path = tmp_path / "log.txt"
    script = tmp_path / "script.py"
    script.write_text("import framejit\nf = framejit.compile(lambda a: (print('x'), a + 1)[1], backend='eager')\nf(3)\n")
    environment = {"FRAMEJIT_LOGS": "help,graph_breaks", "FRAMEJIT_LOGS_OUT": str(path), "PATH": "", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "instructions as they are interpreted" in done.stderr and "FJ012" in path.read_text() and "FJ012" not in done.stderr
    environment["FRAMEJIT_LOGS"] = "graph_code,gards"
    done = subprocess.run([sys.executable, "-c", "import framejit"], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "did you mean 'guards'" in path.read_text(), "a misspelt name is warned of, where the logs go"


# ---- the catalogue ----


def test_docs_of_breaks_are_up_to_date():
    folder = ROOT / "docs" / "breaks"
    found = {path.name: path.read_text() for path in folder.glob("*.md")}
    assert found == catalogue.pages(), "run: python -m framejit breaks --write docs/breaks"


def test_every_reason_has_a_page():
    for reason in breaks.CATALOGUE.values():
        text = catalogue.page(reason)
        assert text.startswith(f"# {reason.id}: {reason.__name__}\n") and reason.explanation in text and "**What to do.**" in text
        assert f"({reason.id}.md)" in catalogue.index()


def test_pages_are_written_and_removed(tmp_path, capsys):
    (tmp_path / "FJ999.md").write_text("gone")
    assert __main__.main(["breaks", "--write", str(tmp_path)]) == 0
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == catalogue.pages()
    assert "FJ999.md" in capsys.readouterr().out
    assert catalogue.write(tmp_path) == []


@pytest.mark.parametrize("name", ["FJ012", "fj12", "12", "sideeffect"])
def test_the_command_line_explains_a_reason(name, capsys):
    assert __main__.main(["explain", name]) == 0
    assert capsys.readouterr().out == catalogue.page(breaks.SideEffect)


def test_the_command_line_suggests(capsys):
    assert __main__.main(["explain", "SideEffects"]) == 1
    assert "no break reason 'SideEffects'; did you mean 'SideEffect'" in capsys.readouterr().err
    assert __main__.main(["explain", "zzz"]) == 1
    assert "lists them all" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        __main__.main(["explian"])


def test_the_command_line_lists(capsys):
    assert __main__.main(["breaks"]) == 0
    out = capsys.readouterr().out
    assert all(reason.id in out and reason.__name__ in out and catalogue.summary(reason) in out for reason in breaks.CATALOGUE.values())
    assert __main__.main(["logs"]) == 0
    assert capsys.readouterr().out.strip() == logs.help_text()


def doubled(a):
    return a * 2


def test_what_runs_uncompiled_is_told_by_statistics_and_explain(monkeypatch, lenient):
    def fails(vm, *args):
        raise NotImplementedError("an error of framejit's own")

    def refused(a):
        framejit.skip_frame("nothing to gain")
        return doubled(a)

    def failing(a, n):
        return doubled(a) * math.isqrt(n)

    monkeypatch.setattr(registry.meaning_to_fill(math.isqrt), "model", fails)
    for program, given, line, what_to_do in (
        (refused, (x,), refused.__code__.co_firstlineno + 1, "Remove the call to skip_frame()"),
        (failing, (x, 4), failing.__code__.co_firstlineno + 1, "Set FRAMEJIT_STRICT=1"),
    ):
        framejit.reset()
        gc.collect()  # a finalizer of what other tests have left would be one of the frames that run here
        framejit.compile(program, backend="eager")(*given)
        (told,) = framejit.statistics()["uncompiled"]
        name = program.__name__
        assert f"{name} " in told and "runs uncompiled" in told and f"{__file__}:{line}" in told and what_to_do in told
        found = framejit.explain(program, backend="eager")(*given)
        assert [stop.function for stop in found.fallbacks] == [program.__qualname__]
        assert f"{name} " in str(found) and "runs uncompiled" in str(found) and "1 frame uncompiled" in str(found)
        assert f"{__file__}:{line}" in str(found) and what_to_do in str(found)
        assert [text in str(found) for text in found.internal_errors] == [True] * (program is failing)
        assert found.graphs == 1 and [entry.function for entry in found.entries] == ["doubled"]


def test_an_internal_error_in_another_thread_is_in_the_report(monkeypatch):
    """Autograd calls hooks in threads whose context nobody records in."""
    monkeypatch.setattr(config, "_base", dataclasses.replace(config._base, strict=False))

    def fails(vm, *args):
        raise NotImplementedError("an error of framejit's own")

    monkeypatch.setattr(registry.meaning_to_fill(math.isqrt), "model", fails)
    elsewhere = framejit.compile(lambda a: a * math.isqrt(9), backend="eager")

    @framejit.disable
    def in_a_thread(a):
        thread = threading.Thread(target=elsewhere, args=(a,))
        thread.start()
        thread.join()

    def calls_it(a):
        in_a_thread(a)
        return a + 1

    found = framejit.explain(calls_it)(x)
    [error] = found.internal_errors
    assert "NotImplementedError: an error of framejit's own" in error and error in str(found) and found.fallbacks == []
    assert framejit.explain(calls_it)(x).internal_errors == [], "what failed before isn't reported again"
