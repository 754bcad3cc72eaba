"""framejit.config: every option is read from the environment, checked, and has an effect."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from handmade import run_python

import framejit
from framejit import config

x = torch.ones(3)
EXAMPLES = {False: ("1", True), True: ("0", False), int: ("7", 7), str: ("eager", "eager")}


@pytest.mark.parametrize("field", [field for field in dataclasses.fields(config.Config) if field.name != "check"], ids=lambda field: field.name)
def test_each_option_is_read_from_the_environment(field):
    text, value = EXAMPLES[field.default if field.type == "bool" else type(field.default)]
    found = config.from_environment({f"FRAMEJIT_{field.name.upper()}": text})
    assert found == dataclasses.replace(config.Config(), **{field.name: value}) != config.Config()


@pytest.mark.parametrize(("variable", "text"), [("FRAMEJIT_STRICT", "perhaps"), ("FRAMEJIT_RECOMPILE_LIMIT", "many")])
def test_a_value_that_cannot_be_read(variable, text):
    with pytest.raises(framejit.ConfigError, match=f"{variable}='{text}'"):
        config.from_environment({variable: text})


@pytest.mark.parametrize(("option", "value"), [("strict", 1), ("unroll_limit", True), ("unroll_limit", 0), ("backend", None)])
def test_a_value_of_the_wrong_kind(option, value):
    with pytest.raises(framejit.ConfigError, match=f"option '{option}'"), config.replace(**{option: value}):
        pass


@pytest.mark.parametrize(("variable", "text"), [("FRAMEJIT_RECOMPILE_LIMIT", "0"), ("FRAMEJIT_CHECK", "guard")])
def test_a_value_that_cannot_be_used_is_told_with_its_variable(variable, text):
    with pytest.raises(framejit.ConfigError, match=f"environment variable {variable}\\)"):
        config.from_environment({variable: text})


def test_an_unknown_default_backend_is_told_with_its_variable():
    with config.replace(backend="eagr"), pytest.raises(framejit.UnknownBackend, match="environment variable FRAMEJIT_BACKEND.*did you mean 'eager'"):
        framejit.compile(torch.relu)


def test_a_misspelt_variable_gets_a_suggestion():
    environment = {"FRAMEJIT_LOG": "guards", "FRAMEJIT_CHECKS": "guards", "FRAMEJIT_FUZZ": "3", "FRAMEJIT_LOGS": "", "LOGS": ""}
    assert config.misspelt(environment) == [
        "environment variable FRAMEJIT_CHECKS is not known; did you mean FRAMEJIT_CHECK?",
        "environment variable FRAMEJIT_LOG is not known; did you mean FRAMEJIT_LOGS?",
    ]
    said = run_python("import io, sys; sys.stderr = io.StringIO(); import framejit; print(sys.stderr.getvalue())", FRAMEJIT_RECOMPILE_LIMITS="3")
    assert said.strip() == "framejit: environment variable FRAMEJIT_RECOMPILE_LIMITS is not known; did you mean FRAMEJIT_RECOMPILE_LIMIT?"


def test_a_value_that_cannot_be_used_is_ignored_with_a_warning():
    complaints: list[str] = []
    environment = {"FRAMEJIT_STRICT": "ture", "FRAMEJIT_CHECK": "guard", "FRAMEJIT_RECOMPILE_LIMIT": "0", "FRAMEJIT_UNROLL_LIMIT": "9", "FRAMEJIT_DISABLE": "?"}
    found = config.from_environment({**environment, "TORCH_COMPILE_DISABLE": "1"}, complaints.append)
    assert found == config.Config(unroll_limit=9, disable=True)
    assert sorted(complaints) == [
        "environment variable FRAMEJIT_DISABLE='?': expected 1 or 0. It is ignored: disable stays False.",
        "environment variable FRAMEJIT_STRICT='ture': expected 1 or 0. It is ignored: strict stays False.",
        "option 'check' (environment variable FRAMEJIT_CHECK): there is no check 'guard'; did you mean 'guards'? known: cache, compile, guards, results, "
        "shapes. "
        "It is ignored: check stays ''.",
        "option 'recompile_limit' (environment variable FRAMEJIT_RECOMPILE_LIMIT) must be at least 1; got 0. It is ignored: recompile_limit stays 8.",
    ]


def test_wrong_variables_warn_and_the_program_goes_on(tmp_path):
    """Whoever misspells the name of a log wants to see a log, and not that the training doesn't start."""
    program = "import io, sys; sys.stderr = io.StringIO(); import framejit; f = framejit.compile(lambda a: (print('x'), a + 1)[1], backend='eager'); f(3)"
    said = run_python(
        f"{program}; print(sys.stderr.getvalue())",
        FRAMEJIT_LOGS="graph_break,graph_breaks", FRAMEJIT_LOGS_OUT=str(tmp_path / "no" / "log.txt"), FRAMEJIT_CAUSE_LIMIT="many",
    )  # fmt: skip
    first, second, third, *logged = said.splitlines()[1:]
    assert first == "[framejit] environment variable FRAMEJIT_CAUSE_LIMIT='many': expected an integer. It is ignored: cause_limit stays 256."
    assert second.startswith("[framejit] FRAMEJIT_LOGS: there is no log 'graph_break'; did you mean 'graph_breaks'? known: ")
    assert second.endswith("It is ignored.")
    assert third.startswith("[framejit] FRAMEJIT_LOGS_OUT: ") and third.endswith("log.txt can't be written: No such file or directory. It is ignored.")
    assert logged[0].startswith("[framejit.graph_breaks] graph break 1: FJ012"), "the log that does exist is shown"


def test_an_unknown_option_gets_a_suggestion():
    with pytest.raises(framejit.UnknownOption, match="no option 'unrol_limit'; did you mean 'unroll_limit'"), config.replace(unrol_limit=3):
        pass


@pytest.mark.parametrize("limit", [3, 12])
def test_one_changing_value_may_take_all_entries_that_the_limit_allows(limit):
    compiled = framejit.compile(lambda t, n: t * n, backend="eager", recompile_limit=limit, dynamic=False)
    for n in range(limit + 2):
        assert torch.equal(compiled(x, n), x * n)
    assert len(compiled.entries) == limit


def test_the_depth_of_inlined_calls_is_limited():
    def nested(t, depth):
        return t + 1 if depth == 0 else nested(t, depth - 1)

    with config.replace(inline_depth_limit=5):
        compiled = framejit.compile(nested, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x, 4), x + 1)
    with pytest.raises(framejit.Unsupported, match="FJ016"):
        compiled(x, 5)


def test_the_iterations_of_all_loops_of_a_trace_are_limited():
    def loop(t, n):
        for _ in range(n):
            for _ in range(2):
                t = t + 1
        return t

    with config.replace(unroll_limit=9):
        compiled = framejit.compile(loop, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x, 3), x + 6)
    with pytest.raises(framejit.Unsupported, match="FJ017"):
        compiled(x, 4)
