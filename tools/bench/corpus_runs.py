"""One entry of the corpus in a process of its own: it is built, run in eager, and then compiled and compared with eager bit for bit."""

from __future__ import annotations

import contextlib
import copy
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy
import torch
from torch import nn

from tools import isolate
from tools.bench import corpus_configs, corpus_diffusers, corpus_diffusers_inputs, corpus_inputs, corpus_models
from tools.bench.corpus_models import Entry
from tools.bench.records import Result
from tools.check import answering, describe, infer, train
from tools.compilers import COMPILERS, Compiler, one_line, quiet
from tools.libraries import timm
from tools.measure import Mismatch, largest_error, leaves, seed_everything
from tools.models import Example

MEASURES: dict[str, Callable[[Callable[..., Any], Example], Any]] = {"eval": infer, "train": train}
MOST_PARAMETERS = 100_000_000
SEARCH_SECONDS = 45
"""Processor time in which a configuration must be found that runs in eager."""
MOST_SECONDS = 8
"""Processor time that a call in eager may take."""
MOST_CLASSES = 4
"""So many classes of a package of transformers are tried."""
IMAGES = (64, 128, 224)
"""Heights and widths that are tried for timm's models, in pixels, before the model's own."""


@dataclass
class Built:
    """A model that runs in eager: its class, the names of its inputs, and the example."""

    about: str
    example: Example


class NotBuilt(Exception):
    """No small configuration with inputs runs in eager; the message says why the preferred one doesn't."""


def build(entry: Entry) -> Built:
    """The first class, configuration and inputs of an entry that run in eager.

    Raises:
        NotBuilt: none does.
    """
    first: Exception | None = None
    try:
        with _limited(SEARCH_SECONDS):
            for built in _FINDERS[entry.library](entry.name):
                if isinstance(built, Built):
                    return built
                first = first or built
    except (ImportError, corpus_inputs.NoInput) as error:
        first = first or error
    except _OutOfTime:
        raise NotBuilt(f"nothing ran in eager within {SEARCH_SECONDS} s" + (f": {describe(first)}" if first else "")) from None
    raise NotBuilt(describe(first) if first else "there is no public class with a configuration")


class _OutOfTime(BaseException):
    """The time for the search is over. No handler of a model's takes it for an error of its own."""


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise _OutOfTime in the block after so many seconds of processor time. Only for the main thread."""

    def end(*_: Any) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _of_transformers(name: str) -> Iterator[Built | Exception]:
    """Tries the classes of a package, each in all scales and with all inputs; gives an example that runs, or why one doesn't."""
    for cls in corpus_models.classes(name)[:MOST_CLASSES]:
        for scale in corpus_configs.SCALES:
            try:
                config = corpus_configs.small(cls.config_class(), scale)  # type: ignore[operator]
                _check_size(lambda cls=cls, config=config: cls(copy.deepcopy(config)))
                torch.manual_seed(0)
                model = cls(config)
                _name_loss(model)
            except Exception as error:
                yield error
                continue
            try:
                for given in corpus_inputs.attempts(model):
                    found = _ran(model, given)
                    if isinstance(found, Exception) and (longer := corpus_inputs.with_picture_tokens(model, given, str(found))):
                        found = _ran(model, longer)
                    yield found
            except corpus_inputs.NoInput as error:
                yield error
                break
            except Exception as error:
                # A rule asks the configuration for what it doesn't have.
                yield error


def _name_loss(model: Any) -> None:
    """Names the loss where transformers can't tell it from the class's name: it would log a warning from inside forward."""
    if getattr(model, "loss_type", "") is None:
        model.loss_type = "ForCausalLM"


def _of_timm(name: str) -> Iterator[Built | Exception]:
    """Tries sizes of images for a model of timm."""
    for options in ({"num_classes": 16}, {}):
        for size in (*IMAGES, None):
            try:
                torch.manual_seed(0)
                for arguments in ({**options, "img_size": size}, options):
                    try:
                        given = {key: value for key, value in arguments.items() if value is not None}
                        _check_size(lambda given=given: timm.create_model(name, pretrained=False, **given))
                        model = timm.create_model(name, pretrained=False, **given)
                        break
                    except TypeError as error:
                        if arguments is options:
                            raise error
            except Exception as error:
                yield error
                continue
            channels, height, width = timm.data.resolve_model_data_config(model)["input_size"]
            shape = (size, size) if size else (height, width)
            yield _ran(model, {}, (torch.randn(2, channels, *shape),))


def _of_diffusers(name: str) -> Iterator[Built | Exception]:
    """Tries the scales for a class of diffusers."""
    for model, given in corpus_diffusers.attempts(corpus_models.diffusers_classes()[name], _check_size):
        yield _corrected(model, given) if isinstance(model, nn.Module) else model


def _corrected(model: nn.Module, given: dict[str, Any]) -> Built | Exception:
    """The example, with inputs changed as the model's errors ask for."""
    first = found = _ran(model, given)
    for _ in range(corpus_diffusers_inputs.MOST_CORRECTIONS):
        changed = corpus_diffusers_inputs.corrected(given, str(found)) if isinstance(found, Exception) else None
        if changed is None:
            break
        given = changed
        found = _ran(model, given)
    return found if isinstance(found, Built) else first


_FINDERS: dict[str, Callable[[str], Iterator[Built | Exception]]] = {
    "transformers": _of_transformers,
    "timm": _of_timm,
    "diffusers": _of_diffusers,
}


def _check_size(make: Callable[[], nn.Module]) -> None:
    """Raises ValueError for a model of too many parameters, which is made without memory for them. What can't be made so passes."""
    try:
        with torch.device("meta"):
            count = sum(parameter.numel() for parameter in make().parameters())
    except Exception:
        return
    if count > MOST_PARAMETERS:
        raise ValueError(f"{count / 1e6:.0f} million parameters with a small configuration")


def _ran(model: nn.Module, given: dict[str, Any], args: tuple[Any, ...] = ()) -> Built | Exception:
    """The example, or what it raises in eager."""
    try:
        example = Example(copied(model), copy.deepcopy(args), copy.deepcopy(given))
        seed_everything()
        start = time.process_time()
        result = infer(example.model, example)
        if (seconds := time.process_time() - start) > MOST_SECONDS:
            return ValueError(f"a call in eager takes {seconds:.0f} s")
        if not any(isinstance(leaf, torch.Tensor) for _, leaf in leaves(result)):
            return ValueError("its result has no tensor")
    except Exception as error:
        # Frames of the traceback hold the model.
        error.__traceback__ = error.__context__ = error.__cause__ = None
        return error
    return Built(f"{type(model).__name__}({', '.join(given) or 'images'})", Example(model, args, given))


def copied(model: nn.Module) -> nn.Module:
    """A copy of a model. A tensor that the model computes from its parameters before each call, such as a normalised weight, is copied by its data."""
    computed = (value for module in model.modules() for value in vars(module).values() if isinstance(value, torch.Tensor) and not value.is_leaf)
    return copy.deepcopy(model, {id(value): value.detach().clone() for value in computed})


def run(entry: Entry, compiler: str, measures: list[str], threads: int = 1) -> dict[str, Any]:
    """All measures of an entry with one compiler, as a record for the file of results; runs in a process of its own."""
    isolate.limit()
    quiet()
    torch.set_num_threads(threads)
    record: dict[str, Any] = {"entry": entry.key, "compiler": compiler, "model": "", "excluded": "", "measures": {}}
    try:
        built = build(entry)
    except NotBuilt as error:
        return {**record, "excluded": str(error)}
    record["model"] = built.about
    made = COMPILERS[compiler]()
    _warm_up(made)
    for measure in measures:
        result = check(built.example, measure, made)
        record["measures"][measure] = {**asdict(result), "verdict": result.verdict}
    return record


def _warm_up(compiler: Compiler) -> None:
    """Loads what a compiler imports at its first call, so that the model's first call is measured without it."""
    compiler.compile(nn.Linear(2, 2), "eager")(torch.ones(1, 2)).sum().backward()


def check(example: Example, measure: str, compiler: Compiler) -> Result:
    """Two calls of a compiled model, each compared with eager's from the same state and the same random numbers.

    Args:
        example: the model, which isn't changed, and its inputs.
        measure: a key of `MEASURES`.
        compiler: what compiles it; it is reset first.
    """
    result = _compared(example, MEASURES[measure], compiler, asks=False)
    if not result.wrong:
        return result
    answered = _compared(example, MEASURES[measure], compiler, asks=True)
    return result if answered.wrong or answered.excluded else answered


def _compared(example: Example, measured: Callable[..., Any], compiler: Compiler, asks: bool) -> Result:
    """Two calls compared with eager's. `asks`: eager code is told that it is compiled."""
    compiler.reset()
    reference, subject = copied(example.model), copied(example.model)
    result = Result(asks=asks)
    compiled: Any = None

    def call(target: Any, given: Example) -> Any:
        with answering(asks and target is not compiled):
            return measured(target, given)

    try:
        expected, stream = _called(call, reference, reference, example)
    except Exception as error:
        return Result(excluded=describe(error))
    compiled = compiler.compile(subject, "eager")
    for seed in (1, 2):
        start = time.process_time()
        try:
            actual, advanced = _called(call, compiled, subject, example, seed)
        except Exception as error:
            result.error = describe(error)
            break
        if seed == 1:
            result.first_call = time.process_time() - start
            _count(result, compiler)
        else:
            result.recompiles = compiler.statistics().graphs - result.graphs
            expected, stream = _called(call, reference, reference, example, seed)
        if wrong := _difference(expected, actual, stream, advanced):
            if seed == 1 and (varies := _eager_varies(call, example, expected)):
                return Result(excluded=varies)
            result.wrong = f"call {seed}: {wrong}"
            break
    return result


def _called(call: Callable[..., Any], target: Any, model: nn.Module, example: Example, seed: int = 1) -> tuple[Any, Any]:
    """Call a target on copies of the inputs. Returns its result, and the state of the random generators after the call."""
    seed_everything(seed)
    result = call(target, Example(model, copy.deepcopy(example.args), copy.deepcopy(example.kwargs)))
    return result, (torch.get_rng_state(), random.getstate(), numpy.random.get_state())


def _difference(expected: Any, actual: Any, stream: Any, advanced: Any) -> str:
    """Describe how a compiled call differs from eager's in its results or in the random numbers that it takes; empty if it doesn't."""
    if not _same(expected, actual):
        try:
            error = largest_error(expected, actual)
        except Mismatch as mismatch:
            return str(mismatch)
        if error:
            return f"the largest error is {error:.1e}"
    for generator, before, after in zip(("torch", "random", "numpy"), stream, advanced, strict=True):
        if str(before) != str(after) if generator != "torch" else not torch.equal(before, after):
            return f"the random numbers of {generator} have advanced by another amount than in eager"
    return ""


def _same(expected: Any, actual: Any) -> bool:
    """Return whether two results have equal leaves. It is quicker than `largest_error`, for which NaNs in the same places are no difference."""
    left, right = list(leaves(expected)), list(leaves(actual))
    return len(left) == len(right) and all(
        path == other and (_same_tensor(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a is b or (type(a) is type(b) and a == b))
        for (path, a), (other, b) in zip(left, right, strict=True)
    )


def _same_tensor(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype is b.dtype and a.device == b.device and a.requires_grad == b.requires_grad and torch.equal(a, b)


def _eager_varies(call: Callable[..., Any], example: Example, expected: Any) -> str:
    """Describe how a second run in eager differs from the first, for models whose results depend on uninitialised memory or on time; empty if it doesn't."""
    model = copied(example.model)
    again, _ = _called(call, model, model, example)
    try:
        error = largest_error(expected, again)
    except Mismatch as mismatch:
        return f"eager's own results vary: {mismatch}"
    return f"eager's own results vary by {error:.1e}" if error else ""


def _count(result: Result, compiler: Compiler) -> None:
    """Adds what the compiler says it has done in the first call."""
    statistics = compiler.statistics()
    result.graphs, result.breaks = statistics.graphs, statistics.graph_breaks
    result.uncompiled = [one_line(text) for text in statistics.uncompiled]
    result.reasons = list(dict.fromkeys(one_line(reason) for reason in statistics.reasons))
