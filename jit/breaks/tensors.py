"""Reasons that lie in tensors, arrays and operators, and in what autograd makes of them."""

from __future__ import annotations

from dataclasses import dataclass

from framejit.breaks.base import Break
from framejit.breaks.program import SkippedFrame


@dataclass(frozen=True)
class DataDependent(Break):
    """Control flow, or a Python value, that depends on the contents of a tensor.

    A graph is fixed before any data is seen. `if x.sum() > 0` and `repr(x)` need the data. `torch.cond` keeps both branches in the graph. Numbers out of
    tensors (`x.item()`) and sizes that depend on data (`x[mask]`) split it where somebody asks for them (FJ039), or at once with other backends than
    "eager", "aot_eager" and "inductor".
    """

    what: str
    id = "FJ005"
    message = "{what} depends on the data of a tensor"
    explanation = "While tracing, tensors have shapes and types but no data, so the answer is not known."
    hints = (
        "Keep it in tensors: choose between values with torch.where; use a mask instead of indices that depend on data.",
        "Give both ways to torch.cond(x.sum() > 0, one, other, (x,)), if they only compute tensors.",
        "Return the tensor, and ask for its number, its items or its size outside of the compiled function.",
    )


@dataclass(frozen=True)
class OperatorRaises(Break):
    """A tensor operator rejects its arguments.

    The operator was tried on fake tensors (shapes and types, no data) and raised. Run uncompiled, the program most likely raises the same. Where the
    program handles that exception, the call is split at the operator. Else the frame runs uncompiled, as for FJ007: after the exception there is nothing
    to go on with.
    """

    what: str
    id = "FJ006"
    message = "tensor operator raises: {what}"
    explanation = "The operator was run on tensors without data, to learn the shape of its result, and raised an error."
    hints = (
        "Check the shapes, dtypes and devices of the operands: the program probably fails here uncompiled too.",
        "Where the program catches the exception, ask for the shapes or dtypes beforehand, with `if`.",
    )


@dataclass(frozen=True)
class MutatedInputUnsupported(Break):
    """The program changes a value from outside in a way that cannot be replayed after the graph has run.

    A change of a tensor whose memory other tensors of the call have in part is found only when the graph is finished, for it depends on all of the graph's
    inputs. Then the frame runs uncompiled, and what it calls is compiled by itself: a break at the change is impossible, since the graph in front of it has
    these inputs too.
    """

    what: str
    id = "FJ011"
    message = "change of {what}, which cannot be replayed"
    explanation = "Changes of values from outside are collected while tracing and made real afterwards; this one cannot be."
    hints = ("Make the change outside the compiled function; return the new value for it.",)


@dataclass(frozen=True)
class TensorSubclass(Break):
    """A tensor of a Python subclass that takes part in operators by code of its own, where a graph can't hold it.

    `__torch_function__` is traced, as is any other code, and tensors that wrap others (`__tensor_flatten__`) are part of graphs. What stays out are
    operations on tensors from outside that read or change more than data (`.grad`, hooks, `t_()`), and other classes that answer to the dispatcher
    (`__torch_dispatch__`).
    """

    what: str
    id = "FJ013"
    message = "tensor subclass {what}"
    explanation = "Operators on this class run Python code of the class, which can't be traced here."
    hints = ("Convert it with .as_subclass(torch.Tensor) before the compiled function.",)


@dataclass(frozen=True)
class HookUnsupported(Break):
    """A hook on a tensor, a parameter or a module that cannot take part in a graph."""

    what: str
    id = "FJ015"
    message = "hook that cannot be traced: {what}"
    explanation = (
        "The hook runs in a backward pass. The graph can hold one that does nothing but compute a gradient, on a tensor that it computes; "
        "any other is traced where the backward pass is in the graph too."
    )
    hints = ("Have the hook only compute, or register it outside the compiled function, on a parameter or an input.",)


@dataclass(frozen=True)
class Random(Break):
    """A random generator whose state cannot be saved and advanced as eager would."""

    what: str
    id = "FJ023"
    message = "random numbers from {what}"
    explanation = (
        "Compiled code must draw the same stream as eager. Graphs draw from the generators that torch, Python and NumPy have for the process, from "
        "torch.Generators, random.Random and what numpy.random.default_rng() makes, and what they draw is not known before they have run. All "
        "else is drawn natively."
    )
    hints = (
        "Where the program goes one way or the other by a random number, choose with torch.where or multiply by a mask.",
        "Draw, seed and fork outside the compiled function, and pass in what was drawn.",
    )


@dataclass(frozen=True)
class ChangesMeanwhile(Break):
    """What a call is guarded by changes again and again while the call is compiled: it runs uncompiled.

    Guards hold what a trace has seen. When the program's other threads, or the backend, change that before the compilation is over, what
    was compiled doesn't fit the call any more. A few attempts are made. A break is impossible: where it would be, another thread decides.
    """

    what: str
    changing: str
    id = "FJ027"
    message = "{what} can't be compiled while this changes: {changing}"
    explanation = "It has changed between each trace of this call and the first use of what was compiled."
    hints = (
        "Make a first call before the threads start that change it.",
        "Pass it as an argument, or as a tensor, whose values are not guarded.",
    )


@dataclass(frozen=True)
class NotInsideAutogradNode(Break):
    """Something that needs a tensor of its own in autograd's record, inside a graph that is one node of that record.

    AOTAutograd, and so Inductor, makes the backward of a graph as a whole. Between the graph's inputs and its outputs autograd knows no
    tensors: none that leaves it can become a leaf (`requires_grad_()`), none can be made as a leaf (`torch.ones(..., requires_grad=True)`), or have
    its memory replaced (`resize_`, `out=` of another size), and its `grad_fn` can't be looked at. So the graph ends there, and the tensor is an
    input of the next one. With the backend "eager" all but the last is part of the graph.
    """

    what: str
    id = "FJ035"
    message = "{what} inside a graph whose backward is made as a whole"
    explanation = "To autograd the compiled graph is one operator: what happens to a tensor inside it, other than its data, has no place there."
    hints = ("Do it outside the compiled function, on an input or a result.", 'With backend="eager" the graph does not end there, unless it is for grad_fn.')


@dataclass(frozen=True)
class OptimizerStep(SkippedFrame):
    """A step of an optimizer of torch.optim, or of a learning rate scheduler.

    With the backends "eager", "aot_eager" and "inductor", the arithmetic of torch's optimizers is part of the graph. It isn't for LBFGS and SparseAdam, nor
    for settings such as `capturable=True`: then a step runs uncompiled, as a whole. The model's forward and backward, and what a closure computes, are
    compiled. A step of a scheduler runs so too if it is compiled by itself, or looks at what the program has measured (`ReduceLROnPlateau`); for others see
    FJ079.

    Where the compiled function calls the step, the call is split there. Only where the compiled function is the step itself, it runs uncompiled: a break
    inside is of no use, for what would be left around it computes no tensors.
    """

    id = "FJ036"
    message = "a step of {reason}, which runs uncompiled"
    explanation = "Its arithmetic is no part of a graph: it depends on numbers in tensors, or computes with other things than tensors."
    hints = ("Compile the model, or the function that computes the loss, rather than the step.",)


@dataclass(frozen=True)
class Observed(Break):
    """A mode or tracer of the program's is in force that looks at each operation: a FLOP counter, a logger, anomaly detection, `torch.jit.trace`, `make_fx`.

    It is to see the operations that the program makes, not those of a graph, so the call runs uncompiled, with all that it calls, without a break. Calls
    outside of it are compiled.
    """

    what: str
    id = "FJ038"
    message = "{what} is in force at the call"
    explanation = "It looks at each operation of the program; compiled code has others."
    hints = ("Call the compiled function outside of it, if it isn't to see the function's operations.",)


@dataclass(frozen=True)
class UnknownNumber(Break):
    """The program asks for the value of a number that it has got out of a tensor, or for a size that depends on the contents of one.

    `n = x.max().item()` and `x[mask]` stay in the graph, and so does what is made of them: `torch.zeros(n)`, `n + 1`, `n > 3` as a value. Where the
    program must know the number to go on (`if n > 3`, `range(n)`, `values[n]`, the text of it), the call is split, and after the split the number is
    known. An operator whose meaning depends on a size, as that of `+` does on whether one is 1, splits it too. `torch._check` says what always holds: it
    is checked in the graph, and the trace may depend on it.
    """

    needing: str
    number: str
    lineno: int
    check: str
    """What `torch._check` would have to be given; empty where the number is a statistic, such as a loss, or must be known itself."""
    id = "FJ039"
    message = "{needing} needs the value of `{number}` (line {lineno}), which depends on the data of a tensor"
    explanation = "The graph has not run yet where the program is traced, so numbers that come out of it are not known."
    hints = (
        "If the answer is always the same, say so before: torch._check({check}), or the opposite.",
        "Keep it in tensors: choose with torch.where, multiply by a mask.",
        "Return the number, or a tensor that holds it, and do this outside the compiled function.",
    )

    def advice(self) -> tuple[str, ...]:
        return super().advice() if self.check else super().advice()[1:]


@dataclass(frozen=True)
class FirstStep(SkippedFrame):
    """A call with the first step of an optimizer, in which the optimizer makes its state: momenta, averages, counts of steps.

    Later steps find the state there, and need another graph. So it is with observers of quantisation-aware training, whose statistics of channels have
    no size before the first call. With the backends "aot_eager" and "inductor" a graph with a backward and a step takes long to
    compile, so the first call runs uncompiled, and the second is compiled. The first step is compiled too with `fullgraph=True`, where the step
    stands in a loop of the compiled function, so that there may be no second call, and where first steps come again, with new optimizers. A break would have
    the model's forward and backward compiled apart from the step, and the second call, which has the step in its graph, would compile all of it once more.
    """

    id = "FJ040"
    message = "the first step of {reason}, which makes its state: this call runs uncompiled"
    explanation = "The graph of a first step would run once. The next call is compiled."
    hints = ("Nothing: the next call is compiled. With fullgraph=True, the first step is compiled too.",)


@dataclass(frozen=True)
class InnerFunction(Break):
    """An operator that takes functions, of which one can't be a graph inside the graph.

    The branches of `torch.cond`, the body of `while_loop`, the `score_mod` of `flex_attention` and their like become graphs that the operator may run
    any number of times, or not at all. So they may do nothing but compute tensors: not append to a list, set an attribute or print. And operators ask
    more of them: both branches of a condition give tensors of the same type, sizes and layout, and the body of a loop gives what it is given.
    """

    operator: str
    what: str
    id = "FJ062"
    message = "{operator} {what}"
    explanation = "The functions that this operator takes become graphs inside the graph. They must only compute tensors, of the form that it asks for."
    hints = ("Move what changes something out of the function, and return what it computes.",)


@dataclass(frozen=True)
class InsideTransform(Break):
    """A transform of torch.func's (`vmap`, `grad`, `vjp`, `jvp` ...) of a function that can't be a graph inside the graph.

    The transform runs natively, as a whole, with the function inside it uncompiled. The function may look at shapes and change Python values as in eager.
    It may not keep tensors of its own outside, change tensors from outside in place, or give something else than tensors.
    """

    transform: str
    what: str
    id = "FJ065"
    message = "{transform} {what}"
    explanation = "What a transform is given becomes a graph inside the graph, whose tensors exist inside the transform only."
    hints = ("Return what the function computes; has_aux=True returns what is not to be differentiated.",)


@dataclass(frozen=True)
class ForeignArray(Break):
    """An array from outside of which torch has no tensor: of objects, texts or dates, of unsigned or extended types, or running backwards.

    Arrays of NumPy are tensors in a graph, which share the array's memory as `torch.from_numpy` has them. What torch doesn't take stays with NumPy: the graph
    ends where the program looks at such an array.
    """

    name: str
    what: str
    id = "FJ068"
    message = "{name} is {what}, of which torch has no tensor"
    explanation = "In a graph, an array is a tensor that shares its memory; torch makes none of this one."
    hints = (
        "Convert it before the compiled function is called: array.astype(numpy.float32), array.copy(), numpy.ascontiguousarray(array).",
        "Keep lists of Python objects in a list rather than in an array.",
    )


@dataclass(frozen=True)
class ArrayOperation(Break):
    """Something that NumPy does with arrays and torch doesn't, or does otherwise: the values, the type, or whose memory it is would be others.

    A function of NumPy's is in the graph where NumPy, asked with arrays of the same type and shape, tells the type, shape, layout and memory of its result.
    Tensors compute it where they give the same values; else a node of the graph calls NumPy. All else runs natively, between two graphs: functions that take
    functions, results whose form depends on data, views of arguments that no tensor is.
    """

    what: str
    id = "FJ069"
    message = "{what}: left to NumPy"
    explanation = "It isn't known beforehand what comes out, or no tensor is like it."
    hints = ("Use the function of torch's that does what is meant, on torch.from_numpy(array).",)


@dataclass(frozen=True)
class NoFake(Break):
    """A custom operator has nothing that runs on tensors without data.

    While tracing, operators run on fake tensors, which have shapes and types but no data, to learn what they give. The author of an operator says that with
    `register_fake`; without it, the operator runs natively, and the graph is split there:

    ```python
    @torch.library.custom_op("mylib::scaled", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor: ...

    @scaled.register_fake          # or, for any operator: @torch.library.register_fake("mylib::scaled")
    def _(x):
        return torch.empty_like(x)
    ```
    """

    what: str
    id = "FJ074"
    message = "operator {what} has no fake implementation"
    explanation = "The operator has to run on tensors without data while tracing, and nothing is registered for that."
    hints = (
        'Register a function that makes an empty tensor of the right shape and dtype: @torch.library.register_fake("{what}").',
        "An operator that is written in terms of PyTorch's operators can be registered as CompositeImplicitAutograd in its place.",
    )


@dataclass(frozen=True)
class FailsOnFakes(Break):
    """A custom operator, a scripted function, or a function that the program has declared to be one node fails on tensors without data.

    Tracing doesn't look into it: it is called with fake tensors, which have shapes and types but no data. That it fails on these doesn't mean that it fails
    on others. So it runs natively, and the graph is split there.
    """

    what: str
    id = "FJ075"
    message = "a function that isn't traced into fails on tensors without data: {what}"
    explanation = "To learn what the function gives, it was called with tensors without data, and raised."
    hints = (
        "If it is a custom operator, correct its fake implementation (register_fake); torch.library.opcheck(operator, arguments) tests that.",
        "Keep what needs data (branches on values, `.item()`, NumPy) out of the function, or make it a custom operator with a fake implementation"
        " (torch.library.custom_op, register_fake).",
    )


@dataclass(frozen=True)
class LaunchImpossible(Break):
    """A Triton kernel is launched that can't run so: on tensors that are on the CPU, or interpreted where the backend compiles kernels.

    Triton compiles for GPUs. With the environment variable `TRITON_INTERPRET=1`, set before kernels are defined, kernels run as Python, on the CPU too; such
    kernels are nodes of graphs for the backends "eager" and "aot_eager". Else the launch runs natively: Triton says itself what it lacks.
    """

    what: str
    why: str
    id = "FJ076"
    message = "launch of the Triton kernel {what}: {why}"
    explanation = "The launch of a Triton kernel is a node of the graph where the kernel can run on its tensors, and the backend can compile it."
    hints = (
        "Move the tensors to the GPU, or set TRITON_INTERPRET=1 before the kernels are defined.",
        'With TRITON_INTERPRET=1, compile with backend="aot_eager".',
    )


@dataclass(frozen=True)
class LazyModuleCall(SkippedFrame):
    """The first call of a lazy module (`nn.LazyLinear`, `nn.LazyConv2d` ...), which makes its parameters by the shape of its input.

    Where the call hasn't drawn random numbers, changed a Python value or entered a mode by then, and the module is one of torch's, its parameters are made
    before the call is traced: that is the order in which they would be made in eager. Otherwise the call runs uncompiled. From then on the module is one of
    another class, and calls are compiled. A break would have graphs made that run once.
    """

    id = "FJ077"
    message = "the first call of a lazy module, {reason}, which makes its parameters: this call runs uncompiled"
    explanation = "A graph of the first call would run once. The next call is compiled."
    hints = ("Nothing: the next call is compiled. With fullgraph=True, call the module once before it is compiled.",)


@dataclass(frozen=True)
class LaterValue(Break):
    """The program looks at what a step of a learning rate scheduler has changed, in the same call: `if scheduler.get_last_lr()[0] < 1e-6`.

    Such steps run uncompiled, after the graph, so that no schedule costs a compilation. What they give may be returned, stored, computed with and made text
    of. Where the program must know it to go on, or a tensor is computed with it, the call is split, and after the split it is known.
    """

    needing: str
    number: str
    id = "FJ078"
    message = "{needing} needs {number}, which a learning rate scheduler changes after the graph"
    explanation = "The scheduler's step has not run yet where the program is traced, so the new learning rate isn't known."
    hints = ("Look at the learning rate outside the compiled function, or before the scheduler's step.",)


@dataclass(frozen=True)
class StepInPlace(Break):
    """A step of a learning rate scheduler that can't be made after the graph: the call is split there, and the step is made between two graphs.

    Steps of torch's schedulers compute with nothing but Python's numbers. They are made after the graph, which isn't split for them, unless a learning rate
    is a tensor, the step may warn or has an argument, another step in the same call changes the same learning rates, or the schedule is code of the program's
    that does more than to compute a number.
    """

    what: str
    id = "FJ079"
    message = "a step of a learning rate scheduler that is made between two graphs: {what}"
    explanation = "The step can't wait until the graph has run, so the graph ends before it, and another begins after it."
    hints = (
        "Make the steps of schedulers outside the compiled function.",
        "Of several schedulers for one optimizer, make one with torch.optim.lr_scheduler.ChainedScheduler.",
    )


@dataclass(frozen=True)
class MayRaise(Break):
    """A tensor operator rejects its arguments because of where one of them comes from: a leaf, a view, a tensor made in an inference mode.

    The operator was tried on fake tensors and raised. Other calls have tensors that look the same and come from elsewhere. So it runs natively, and the
    graph is split there.
    """

    what: str
    id = "FJ081"
    message = "tensor operator may raise: {what}"
    explanation = "The operator was run on tensors without data and raised an error that speaks of where a tensor comes from, which no guard tells."
    hints = (
        "Change leaves, and views of them, inside torch.no_grad().",
        "Change a copy (.clone()) instead of a view or a tensor that was made in an inference mode.",
    )
