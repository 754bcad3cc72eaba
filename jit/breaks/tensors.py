"""Break reasons about tensors, arrays, operators and autograd."""

from __future__ import annotations

from framejit.breaks.base import Break, BreakOf
from framejit.breaks.program import SkippedFrame

WAITS = (
    "Keep numbers that decide in a tensor on the CPU. To read one from {device}, Python waits in each call until the device has done all the work that was "
    "queued before, compiled or not."
)


def about_ways(ways: str, advice: tuple[str, ...]) -> tuple[str, ...]:
    """The advice, after why the two ways of a branch aren't both in the graph."""
    return (f"Both ways of the branch can't be in the graph: {ways}.", *advice) if ways else advice


class DataDependent(BreakOf):
    """Control flow, or a Python value, depends on the contents of a tensor.

    A graph is fixed before any data is seen, but `repr(x)` needs the data, and so does `if x.sum() > 0`, unless both ways can be in the graph: they may only
    compute tensors, and must leave the same values apart from tensors that look alike. The first hint then says why they can't. Numbers out of
    tensors (`x.item()`) and sizes that depend on data (`x[mask]`) split the graph where the program needs their values (FJ039), or at once with other
    backends than "eager", "aot_eager" and "inductor". Small CPU tensors of ints or bools that come from outside may decide, until their data is seen to vary:
    guards read it.
    """

    device: str = ""
    """The device of the tensor, if it isn't the CPU."""
    ways: str = ""
    """The reason why the two ways of a branch can't both be in the graph."""
    id = "FJ005"
    message = "{what} depends on the data of a tensor"
    explanation = "While tracing, tensors have shapes and types but no data, so the answer is not known."
    hints = (
        "Keep it in tensors: choose between values with torch.where; use a mask instead of indices that depend on data.",
        "Give both ways to torch.cond(x.sum() > 0, one, other, (x,)), if they only compute tensors.",
        "Return the tensor, and ask for its number, its items or its size outside of the compiled function.",
        WAITS,
    )

    def advice(self) -> tuple[str, ...]:
        return about_ways(self.ways, super().advice() if self.device else super().advice()[:-1])


class OperatorRaises(BreakOf):
    """A tensor operator rejects its arguments.

    The operator was tried on fake tensors (shapes and types, no data) and raised. The uncompiled program most likely raises the same error. If the program
    handles that exception, the call is split at the operator. Otherwise the frame runs uncompiled, as for FJ007: after the exception, no code of the frame
    is left to continue with.
    """

    id = "FJ006"
    message = "tensor operator raises: {what}"
    explanation = "The operator was run on tensors without data, to learn the shape of its result, and raised an error."
    hints = (
        "Check the shapes, dtypes and devices of the operands: the program probably fails here uncompiled too.",
        "If the program catches the exception, check the shapes or dtypes beforehand, with `if`.",
    )


class MutatedInputUnsupported(BreakOf):
    """The program changes a value from outside in a way that cannot be replayed after the graph has run.

    If the program changes a tensor that shares part of its memory with other tensors of the call, framejit finds that out only when the graph is finished,
    since it depends on all inputs of the graph. Then the frame runs uncompiled, and the functions that it calls are compiled by themselves. A break at the
    change is impossible, since the graph before it has these inputs too.
    """

    id = "FJ011"
    message = "change of {what}, which cannot be replayed"
    explanation = (
        "Changes of values from outside are recorded while tracing, and made after the graph has run. This one cannot be made then."
    )
    hints = ("Return the new value, and make the change outside the compiled function.",)


class TensorSubclass(BreakOf):
    """The program uses a tensor of a Python subclass that handles operators with its own code, in a way that a graph can't hold.

    `__torch_function__` is traced like any other code, and tensors that wrap others (`__tensor_flatten__`) are part of graphs. Two things stay outside of
    graphs: operations on such tensors from outside that read or change more than data (`.grad`, hooks, `t_()`), and other classes with
    `__torch_dispatch__`.
    """

    id = "FJ013"
    message = "tensor subclass {what}"
    explanation = "Operators on this class run Python code of the class, which can't be traced here."
    hints = ("Convert it with .as_subclass(torch.Tensor) before the compiled function.",)


class HookUnsupported(BreakOf):
    """The program uses a hook on a tensor, a parameter or a module that cannot be part of a graph."""

    id = "FJ015"
    message = "hook that cannot be traced: {what}"
    explanation = (
        "The hook runs in a backward pass. The graph can hold a hook that only computes a gradient, on a tensor that the graph computes. "
        "Any other hook is traced only if the backward pass is in the graph too."
    )
    hints = ("Make the hook only compute, or register it outside the compiled function, on a parameter or an input.",)


class Random(BreakOf):
    """The program draws random numbers in a way that a graph can't reproduce with the same numbers as eager."""

    id = "FJ023"
    message = "random numbers from {what}"
    explanation = (
        "Compiled code must draw the same numbers as eager. Graphs draw from the global generators of torch, Python and NumPy, from torch.Generator and "
        "random.Random, and from the generators that numpy.random.default_rng() makes. The numbers are not known before the graph has run. All other "
        "numbers are drawn natively."
    )
    hints = (
        "If the program branches on a random number, choose with torch.where or multiply by a mask instead.",
        "Draw, seed and fork outside the compiled function, and pass in what was drawn.",
    )


class ChangesMeanwhile(BreakOf):
    """A value that the call is guarded by changes again and again while the call is compiled, so the call runs uncompiled.

    Guards check what the trace has seen. If other threads of the program, or the backend, change that before the compilation is over, the new entry doesn't
    fit the call any more. A few attempts are made. A break is impossible: another thread decides where the value changes.
    """

    changing: str
    id = "FJ027"
    message = "{what} can't be compiled while this changes: {changing}"
    explanation = "It has changed between each trace of this call and the first use of what was compiled."
    hints = (
        "Make a first call before you start the threads that change it.",
        "Pass it as an argument, or as a tensor, whose values are not guarded.",
    )


class NotInsideAutogradNode(BreakOf):
    """An operation needs autograd to know a tensor by itself, but the tensor is inside a graph that is a single node for autograd.

    AOTAutograd, and so Inductor, compiles the backward of a graph as a whole. Autograd knows no tensors between the graph's inputs and its outputs. None that
    leaves the graph can become a leaf (`requires_grad_()`), be made as a leaf (`torch.ones(..., requires_grad=True)`), or have its memory replaced
    (`resize_`, `out=` of another size), and the program can't look at its `grad_fn`. Nor can it be `x.detach()` of an argument `x`, if values with a gradient
    have been written to it. So the graph ends there, and the tensor is an input of the next one.
    With the backend "eager", all of these but `grad_fn` are part of the graph.
    """

    id = "FJ035"
    message = "{what} inside a graph whose backward is made as a whole"
    explanation = (
        "To autograd, the compiled graph is one operator. It computes data, and can't change other properties of a tensor inside it."
    )
    hints = (
        "Do it outside the compiled function, on an input or a result.",
        'With backend="eager", the graph does not end there, unless the program asks for grad_fn.',
    )


class OptimizerStep(SkippedFrame):
    """The program makes a step of an optimizer or a learning rate scheduler that runs uncompiled.

    With the backends "eager", "aot_eager" and "inductor", the arithmetic of torch's optimizers is part of the graph. Steps of LBFGS and SparseAdam, and
    steps with settings such as `capturable=True`, run uncompiled, as a whole. The model's forward and backward, and what a closure computes, are
    compiled. A step of a scheduler runs uncompiled if it is compiled by itself, or if it looks at a measured value (`ReduceLROnPlateau`); FJ079 is about
    other schedulers.

    If the compiled function calls the step, the call is split there. Only if the compiled function is the step itself, it runs uncompiled: a break
    inside would be useless, since the code around it computes no tensors.
    """

    id = "FJ036"
    message = "a step of {reason}, which runs uncompiled"
    explanation = "Its arithmetic can't be part of a graph: it depends on numbers in tensors, or doesn't only compute with tensors."
    hints = ("Compile the model, or the function that computes the loss, rather than the step.",)


class Observed(BreakOf):
    """The program observes each operation, with a FLOP counter, a logger, anomaly detection, `torch.jit.trace` or `make_fx`.

    The observer must see the operations of the program, not those of a graph. So the call, and everything that it calls, runs uncompiled, without a break.
    Calls outside of the observer are compiled.
    """

    id = "FJ038"
    message = "{what} is in force at the call"
    explanation = "It looks at each operation of the program, and compiled code has other operations."
    hints = ("Call the compiled function outside of it, if it needn't see the function's operations.",)


class UnknownNumber(Break):
    """The program needs the value of a number out of a tensor, or a size that depends on the contents of a tensor.

    `n = x.max().item()` and `x[mask]` stay in the graph, and so do values computed from them: `torch.zeros(n)`, `n + 1`, `n > 3` as a value. If the
    program must know the number to continue (`range(n)`, `values[n]`, `str(n) == "3"`, or `if n > 3` where both ways can't be in the graph), the call is
    split, and after the split the number is known. An operator that behaves differently for some sizes splits the call too: `+` broadcasts if a size is 1.
    `torch._check` states a condition that always holds. The graph checks it, and the trace may rely on it. A number in a small CPU tensor that comes from
    outside may decide without a split: a guard reads it, as an int among the arguments is read, unless its value itself is needed and has been seen to vary.
    """

    needing: str
    number: str
    lineno: int
    check: str
    """The condition that `torch._check` would need; empty if the number is a statistic, such as a loss, or if its value itself is needed."""
    device: str = ""
    """The device of the tensor, if it isn't the CPU."""
    ways: str = ""
    """The reason why the two ways of a branch can't both be in the graph."""
    id = "FJ039"
    message = "{needing} needs the value of `{number}` (line {lineno}), which depends on the data of a tensor"
    explanation = "The graph has not run yet when the program is traced, so numbers that come out of it are not known."
    hints = (
        "If the answer is always the same, state it beforehand: torch._check({check}), or the opposite.",
        "Keep it in tensors: choose with torch.where, multiply by a mask.",
        "Return the number, or a tensor that holds it, and do this outside the compiled function.",
        WAITS,
    )

    def advice(self) -> tuple[str, ...]:
        found = super().advice() if self.device else super().advice()[:-1]
        return about_ways(self.ways, found if self.check else found[1:])


class FirstStep(SkippedFrame):
    """The call makes the first step of an optimizer, in which the optimizer creates its state: momenta, averages, counts of steps.

    Later steps find the state, and need another graph. The same is true of observers in quantisation-aware training, whose statistics of channels have
    no size before the first call. With the backends "aot_eager" and "inductor", a graph with a backward and a step takes long to compile, so the first call
    runs uncompiled, and the second is compiled.

    The first step is compiled with `fullgraph=True`, if the step is in a loop of the compiled function, so that there may be no second call, and if first
    steps occur again, with new optimizers. After a break, the model's forward and backward would be compiled apart from the step, and the second call, which
    has the step in its graph, would compile all of it once more.
    """

    id = "FJ040"
    message = "the first step of {reason}, which makes its state: this call runs uncompiled"
    explanation = "The graph of a first step would run only once. The next call is compiled."
    hints = ("You need do nothing: the next call is compiled. With fullgraph=True, the first step is compiled too.",)


class InnerFunction(Break):
    """The program calls an operator that takes functions, and one of them can't be a graph inside the graph.

    The branches of `torch.cond`, the body of `while_loop`, the `score_mod` of `flex_attention` and the like become graphs that the operator may run any
    number of times, or not at all. So they may only compute tensors, and must not append to a list, set an attribute or print. Operators have further
    requirements: both branches of a condition must return tensors of the same type, sizes and layout, and the body of a loop must return values like its
    arguments.
    """

    operator: str
    what: str
    id = "FJ062"
    message = "{operator} {what}"
    explanation = "The functions that this operator takes become graphs inside the graph. They must only compute tensors, of the form that it requires."
    hints = ("Move code that changes something out of the function, and return what it computes.",)


class InsideTransform(Break):
    """The program transforms a function with torch.func (`vmap`, `grad`, `vjp`, `jvp` ...), and the function can't be a graph inside the graph.

    The transform runs natively, as a whole, and the function inside it uncompiled. A function that becomes a graph may look at shapes and change Python
    values as in eager. It must not store its tensors outside, change tensors from outside in place, or return anything but tensors.
    """

    transform: str
    what: str
    id = "FJ065"
    message = "{transform} {what}"
    explanation = "The transformed function becomes a graph inside the graph, and its tensors exist only inside the transform."
    hints = ("Return what the function computes; with has_aux=True, it can also return values that are not differentiated.",)


class ForeignArray(Break):
    """The program uses an array that can't be a torch tensor: an array of objects, strings, dates, unsigned or extended types, or with negative strides.

    In a graph, a NumPy array is a tensor that shares the array's memory, as with `torch.from_numpy`. If torch can't make such a tensor, the graph ends where
    the program looks at the array.
    """

    name: str
    what: str
    id = "FJ068"
    message = "{name} is {what}, of which torch has no tensor"
    explanation = "In a graph, an array is a tensor that shares its memory, and torch can't make a tensor of this one."
    hints = (
        "Convert it before the compiled function is called: array.astype(numpy.float32), array.copy(), numpy.ascontiguousarray(array).",
        "Keep Python objects in a list rather than in an array.",
    )


class ArrayOperation(BreakOf):
    """NumPy does something with arrays that torch doesn't do, or for which torch would give other values, another type, or a result with other memory.

    A NumPy function is in the graph if a call with arrays of the same type and shape shows the type, shape, layout and memory of its result. If tensor
    operations give the same values, they compute it; otherwise a node of the graph calls NumPy. Everything else runs natively, between two graphs: functions
    that take functions, results whose form depends on data, and views of arguments that can't be tensors.
    """

    id = "FJ069"
    message = "{what}: left to NumPy"
    explanation = "The form of the result isn't known beforehand, or it can't be a tensor."
    hints = ("Use the torch function that does the same, on torch.from_numpy(array).",)


class NoFake(BreakOf):
    """A custom operator has no implementation that runs on tensors without data.

    While tracing, operators run on fake tensors, which have shapes and types but no data, to learn the form of their results. The author of an operator
    provides that with `register_fake`. Without it, the operator runs natively, and the graph is split there:

    ```python
    @torch.library.custom_op("mylib::scaled", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor: ...

    @scaled.register_fake          # or, for any operator: @torch.library.register_fake("mylib::scaled")
    def _(x):
        return torch.empty_like(x)
    ```
    """

    id = "FJ074"
    message = "operator {what} has no fake implementation"
    explanation = "While tracing, the operator has to run on tensors without data, and no implementation is registered for that."
    hints = (
        'Register a function that makes an empty tensor of the right shape and dtype: @torch.library.register_fake("{what}").',
        "An operator that is written in terms of PyTorch's operators can be registered as CompositeImplicitAutograd instead.",
    )


class FailsOnFakes(BreakOf):
    """A custom operator, a scripted function, or a function that the program has declared to be one node fails on tensors without data.

    Such a function isn't traced into. It is called with fake tensors, which have shapes and types but no data. It may fail on these and still succeed on real
    tensors. So it runs natively, and the graph is split there.
    """

    id = "FJ075"
    message = "a function that isn't traced into fails on tensors without data: {what}"
    explanation = "To learn the form of its results, framejit called the function with tensors without data, and it raised."
    hints = (
        "If it is a custom operator, correct its fake implementation (register_fake); torch.library.opcheck(operator, arguments) tests that.",
        "Keep what needs data (branches on values, `.item()`, NumPy) out of the function, or make it a custom operator with a fake implementation"
        " (torch.library.custom_op, register_fake).",
    )


class LaunchImpossible(BreakOf):
    """The launch of a Triton kernel can't be in the graph: its tensors are on the CPU, or the kernel is interpreted and the backend compiles kernels.

    Triton compiles for GPUs. With the environment variable `TRITON_INTERPRET=1`, set before kernels are defined, kernels run as Python, on the CPU too. With
    the backends "eager" and "aot_eager", such kernels are nodes of graphs. Otherwise the launch runs natively, and Triton itself says what it lacks.
    """

    why: str
    id = "FJ076"
    message = "launch of the Triton kernel {what}: {why}"
    explanation = (
        "The launch of a Triton kernel is a node of the graph only if the kernel can run on its tensors, and the backend can compile it."
    )
    hints = (
        "Move the tensors to the GPU, or set TRITON_INTERPRET=1 before the kernels are defined.",
        'With TRITON_INTERPRET=1, compile with backend="aot_eager".',
    )


class LazyModuleCall(SkippedFrame):
    """The program makes the first call of a lazy module (`nn.LazyLinear`, `nn.LazyConv2d` ...), which creates its parameters from the shape of its input.

    If the call hasn't drawn random numbers, changed a Python value or entered a mode before, and the module is one of torch's, its parameters are made before
    the call is traced, which keeps eager's order. Otherwise the call runs uncompiled. From then on the module has another class, and calls are compiled. A
    break would make graphs that run only once.
    """

    id = "FJ077"
    message = "the first call of a lazy module, {reason}, which makes its parameters: this call runs uncompiled"
    explanation = "A graph of the first call would run only once. The next call is compiled."
    hints = ("You need do nothing: the next call is compiled. With fullgraph=True, call the module once before it is compiled.",)


class LaterValue(Break):
    """The program looks at a value that a learning rate scheduler has changed in the same call, as in `if scheduler.get_last_lr()[0] < 1e-6`.

    Steps of schedulers run uncompiled, after the graph, so that no schedule causes a recompile. The new values may be returned, stored, computed with and
    formatted. If the program must know one to continue, or computes a tensor with it, the call is split, and after the split the value is known.
    """

    needing: str
    number: str
    id = "FJ078"
    message = "{needing} needs {number}, which a learning rate scheduler changes after the graph"
    explanation = "The scheduler's step has not run yet when the program is traced, so the new learning rate isn't known."
    hints = ("Look at the learning rate outside the compiled function, or before the scheduler's step.",)


class StepInPlace(BreakOf):
    """The program makes a step of a learning rate scheduler that can't wait until after the graph.

    The call is split there, and the step is made between two graphs. Steps of torch's schedulers compute only with Python numbers. They are usually made
    after the graph, without a split. The exceptions are steps for a learning rate that is a tensor, steps that may warn or have an argument, steps in a call
    in which another step changes the same learning rates, or in which the optimizer's next step needs them, and schedules in the program's own code that do
    more than compute a number.
    """

    id = "FJ079"
    message = "a step of a learning rate scheduler that is made between two graphs: {what}"
    explanation = "The step can't wait until the graph has run, so the graph ends before it, and another begins after it."
    hints = (
        "Make the steps of schedulers outside the compiled function.",
        "Combine several schedulers for one optimizer with torch.optim.lr_scheduler.ChainedScheduler.",
    )


class MayRaise(BreakOf):
    """A tensor operator rejects its arguments because of the origin of one of them, which is a leaf, a view, or a tensor made in inference mode.

    The operator was tried on fake tensors and raised. In other calls, tensors that look the same may have another origin. So the operator runs natively, and
    the graph is split there.
    """

    id = "FJ081"
    message = "tensor operator may raise: {what}"
    explanation = "The operator was run on tensors without data and raised an error about the origin of a tensor, which no guard checks."
    hints = (
        "Change leaves, and views of them, inside torch.no_grad().",
        "Change a copy (.clone()) instead of a view or a tensor that was made in inference mode.",
    )
