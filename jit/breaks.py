"""Break reasons: one class for each way in which tracing stops; its docstring is its documentation page.

A reason is data: the class says what kind it is (`id`, `message`, `explanation`, `hints`), the fields say what it was this time.
`message` and `hints` are format strings over the fields. Nothing here knows where in the user's program it happened: the trace adds that.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True)
class Break:
    """Tracing stopped. Base of all reasons, never used itself."""

    id: ClassVar[str] = ""
    message: ClassVar[str] = ""
    explanation: ClassVar[str] = ""
    hints: ClassVar[tuple[str, ...]] = ()

    def text(self) -> str:
        """One line: what happened, with the specifics."""
        return self.message.format(**self._specifics()).removesuffix(": ")

    def advice(self) -> tuple[str, ...]:
        """What the user can do about it, with the specifics."""
        specifics = self._specifics()
        return tuple(hint.format(**specifics) for hint in self.hints)

    def _specifics(self) -> dict[str, str]:
        return {f.name: str(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def page(cls) -> str:
        """The documentation of this kind of break: its docstring."""
        return inspect.cleandoc(cls.__doc__ or "")

    def __str__(self) -> str:
        return f"{self.id} {self.text()}"


@dataclass(frozen=True)
class UnsupportedCall(Break):
    """The program calls something whose behaviour framejit does not know.

    C functions run outside the interpreter, so nothing can be learnt by tracing them: each needs a model. What is safe to run on
    constants, what is made of ATen operators, and most of the standard library in everyday use is known; this callable is not.
    """

    what: str
    id = "FJ001"
    message = "call of {what}, which framejit cannot trace"
    explanation = "The callable is written in C, or otherwise hidden from the interpreter, and framejit has no model of it."
    hints = (
        "Move the call out of the compiled function.",
        "If it computes tensors, wrap it in a custom operator (torch.library.custom_op); that can be traced.",
    )


@dataclass(frozen=True)
class UnsupportedValue(Break):
    """A value is of a type that framejit does not model in the way the program uses it.

    Every value that the trace looks into needs a model of its type. Passing such a value through untouched is always fine.
    """

    what: str
    id = "FJ002"
    message = "use of {what}, a value that framejit does not model"
    explanation = "The trace had to look into a value whose type has no model."
    hints = (
        "Pass the plain numbers, strings or tensors that it holds to the compiled function in its place.",
        "Keep its use outside the compiled function.",
    )


@dataclass(frozen=True)
class UnsupportedOperation(Break):
    """An operation on values that are modelled, but not this operation, or not with these operands."""

    what: str
    id = "FJ003"
    message = "operation that framejit cannot trace: {what}"
    explanation = "The types are known, but this operation on them, or with these operands, is not."
    hints = (
        "Compute the same with other operations; torch.where chooses between two results.",
        "Move it out of the compiled function: torch.utils.checkpoint and backward() can be called around compiled functions.",
    )


@dataclass(frozen=True)
class UnsupportedOpcode(Break):
    """An instruction of the interpreter that framejit refuses.

    `except*`, the parts of `async` code, and type parameters (Python 3.12) compile to instructions of their own. They are decoded, and refused by name.
    """

    what: str
    id = "FJ004"
    message = "bytecode instruction {what} is not supported"
    explanation = "The statement compiles to an instruction that framejit does not interpret."
    hints = (
        "For `except*` (CHECK_EG_MATCH): catch the group with `except ExceptionGroup`, and go through its `exceptions`.",
        "Move the statement out of the compiled function.",
    )


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
        "Keep it in tensors: choose between values with torch.where, select with a mask and where in place of indices.",
        "Give both ways to torch.cond(x.sum() > 0, one, other, (x,)), if they only compute tensors.",
        "Return the tensor, and ask for its number, its items or its size outside of the compiled function.",
    )


@dataclass(frozen=True)
class OperatorRaises(Break):
    """A tensor operator rejects its arguments.

    The operator was tried on fake tensors (shapes and types, no data) and raised. Run as written, the program most likely raises the same.
    """

    what: str
    id = "FJ006"
    message = "tensor operator raises: {what}"
    explanation = "The operator was run on tensors without data, to learn the shape of its result, and raised an error."
    hints = (
        "Check the shapes, dtypes and devices of the operands: the program probably fails here uncompiled too.",
    )


@dataclass(frozen=True)
class ExceptionEscapes(Break):
    """The traced program raises an exception that nothing in the compiled function catches.

    The frame then runs as written, so that the exception has its own traceback, context and side effects.
    """

    what: str
    id = "FJ007"
    message = "the program raises {what}"
    explanation = "Nothing in the compiled function catches the exception, so there is no result to compile."
    hints = ("Catch the exception inside the compiled function, or check the condition before calling it.",)


@dataclass(frozen=True)
class ExplicitBreak(Break):
    """The program asked for a graph break, with `framejit.graph_break()` or `torch._dynamo.graph_break()`."""

    reason: str
    id = "FJ008"
    message = "graph break asked for by the program: {reason}"
    explanation = "The program calls graph_break() here."
    hints = ("Remove the call to graph_break().",)


@dataclass(frozen=True)
class DisabledFunction(Break):
    """A call of a function marked with `framejit.disable` or `torch.compiler.disable`."""

    what: str
    id = "FJ009"
    message = "call of {what}, which is marked not to be compiled"
    explanation = "The function, or one of its wrappers, is decorated with disable."
    hints = ("Remove the decorator if the function can be traced.", "Call it outside the compiled function.")


@dataclass(frozen=True)
class GeneratorFrame(Break):
    """A generator, coroutine or async generator is not compiled on its own.

    Its frame outlives the call, and is suspended in the middle. It can be traced where a compiled function consumes it.
    """

    what: str
    id = "FJ010"
    message = "{what} is not compiled on its own"
    explanation = "Generators and coroutines are suspended half-way; framejit compiles frames that run to their end."
    hints = ("Compile the plain functions that it calls, or the function that runs over a generator.",)


@dataclass(frozen=True)
class MutatedInputUnsupported(Break):
    """The program changes a value from outside in a way that cannot be replayed after the graph has run."""

    what: str
    id = "FJ011"
    message = "change of {what}, which cannot be replayed"
    explanation = "Changes of values from outside are collected while tracing and made real afterwards; this one cannot be."
    hints = ("Make the change outside the compiled function; return the new value for it.",)


@dataclass(frozen=True)
class SideEffect(Break):
    """Something the outside world sees: printing, reading or writing files, logging, warnings, the clock.

    It cannot be part of a graph, and doing it while tracing would do it once instead of on each call.
    """

    what: str
    id = "FJ012"
    message = "{what} is a side effect"
    explanation = "It must happen on each call, at this point of the program, and a graph cannot do it."
    hints = ("Move it out of the compiled function, or leave it out of compiled code with `if not framejit.is_compiling():`.",)


@dataclass(frozen=True)
class TensorSubclass(Break):
    """A tensor of a Python subclass that takes part in operators by code of its own, where a graph can't hold it.

    `__torch_function__` is traced, as is any other code, and tensors that wrap others (`__tensor_flatten__`) are part of graphs. What stays out are operations
    on tensors from outside that read or change more than data (`.grad`, hooks, `t_()`), and other classes that answer to the dispatcher (`__torch_dispatch__`).
    """

    what: str
    id = "FJ013"
    message = "tensor subclass {what}"
    explanation = "Operators on this class run Python code of the class, which can't be traced here."
    hints = ("Convert it with .as_subclass(torch.Tensor) before the compiled function.",)


@dataclass(frozen=True)
class CannotReconstruct(Break):
    """A value that the trace made must exist for real (it is returned or stored) and there is no way to build it."""

    what: str
    id = "FJ014"
    message = "{what} cannot be rebuilt for the code outside the trace"
    explanation = "The value exists only in the trace; it leaves it here, and framejit has no code that builds one."
    hints = ("Return or store its parts (tensors, numbers, lists) in its place.",)


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
class TooDeep(Break):
    """Inlined calls are nested deeper than the limit; most often a recursion that a traced value should have stopped."""

    what: str
    id = "FJ016"
    message = "calls are nested too deeply at {what}"
    explanation = "Every call is inlined into the trace, and the nesting reached the option inline_depth_limit."
    hints = ("Turn the recursion into a loop, or raise the option inline_depth_limit (FRAMEJIT_INLINE_DEPTH_LIMIT).",)


@dataclass(frozen=True)
class TooLong(Break):
    """The loops of one trace have more iterations in all than the limit; most often one that does not end while tracing."""

    what: str
    id = "FJ017"
    message = "the trace is too long: {what}"
    explanation = "Loops are unrolled into the trace, and their iterations reached the option unroll_limit."
    hints = ("Compile the body of the loop in its place, or raise the option unroll_limit (FRAMEJIT_UNROLL_LIMIT).",)


@dataclass(frozen=True)
class IteratorFromOutside(Break):
    """Stepping an iterator that was made outside the compiled function and that cannot be looked into without advancing it.

    Iterators of ranges, lists, tuples, dicts, strings and bytes can, but not very far ahead in one trace, and not while the trace changes what they
    run over; so can enumerate, zip, map, filter and most of itertools. Generators, and iterators of sets and deques, can't.
    """

    what: str
    id = "FJ018"
    message = "step of {what}, an iterator made outside the compiled function"
    explanation = "Its next item cannot be known without taking it, and taking it while tracing would lose it."
    hints = ("Pass the list or tuple that it runs over, or make the iterator inside the compiled function.",)


@dataclass(frozen=True)
class RecompileLimit(Break):
    """A function was compiled as often as a limit allows, and the call matches none of its entries: it runs as written.

    Three options limit that: `recompile_limit` for a function (or for one module, where the first argument is a module),
    `accumulated_recompile_limit` for all modules together, `cause_limit` for those that differ in what one and the same guard expects.
    """

    what: str
    limit: str
    changing: str
    advice_on_it: str
    id = "FJ019"
    message = "{what} has reached {limit}; what is changing: {changing}"
    explanation = "Each entry serves the calls that its guards accept. None accepts this call, and no further entry is made."
    hints = (
        "{advice_on_it}.",
        "FRAMEJIT_LOGS=recompiles shows for each compilation why it was necessary.",
        "Raise the option that is the limit if the calls really differ in so many ways.",
    )


@dataclass(frozen=True)
class FrameIntrospection(Break):
    """The program looks at its own frames: `locals()` in an inlined function, `sys._getframe`, `inspect.stack`."""

    what: str
    id = "FJ020"
    message = "{what} looks at the frames of the program"
    explanation = "Inlined calls have no frames of their own, so what it would see is not there."
    hints = ("Move it out of the compiled function.",)


@dataclass(frozen=True)
class GlobalStateUnsupported(Break):
    """The program reads or changes state of the interpreter or of torch that is not modelled: defaults, modes that were entered elsewhere.

    Of context variables, plain constants are read and guarded; other contents, and changes, are left to the program.
    """

    what: str
    id = "FJ021"
    message = "use of global state that is not modelled: {what}"
    explanation = "The state may differ on the next call, and framejit can neither guard it nor replay its change."
    hints = ("Set or read it outside the compiled function.",)


@dataclass(frozen=True)
class ComparesByPython(Break):
    """A guard, a dict key or a set element would need the user's own `__eq__` or `__hash__`.

    Guards run before each call; they run no code of the user's.
    """

    what: str
    id = "FJ022"
    message = "{what} compares or hashes with Python code"
    explanation = "Checking this on each call would run the program's own __eq__ or __hash__, which guards never do."
    hints = ("Use strings, numbers, or objects that compare by identity as keys.",)


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
class SkippedFrame(Break):
    """The program asked for its frame to run as written, with `framejit.skip_frame()` or `torch._dynamo.skip_frame()`.

    The function that asks runs uncompiled: where it was inlined, its caller is split around the call.
    """

    reason: str
    id = "FJ024"
    message = "the frame is skipped, as the program asks: {reason}"
    explanation = "The program calls skip_frame() here."
    hints = ("Remove the call to skip_frame().",)


@dataclass(frozen=True)
class StanceChange(Break):
    """The program sets a stance (`set_stance`, framejit's or torch's) inside compiled code.

    What compiled functions do from there on is decided while the program runs, so the call happens for real, between two graphs.
    """

    id = "FJ025"
    message = "set_stance() in compiled code"
    explanation = "The stance says whether and how the rest of the program is compiled; a graph can't hold that."
    hints = ("Set the stance outside the compiled function.",)


@dataclass(frozen=True)
class CachedCall(Break):
    """A call of a function under `functools.lru_cache` whose cache may know another answer than a computation today.

    A cached function that reads globals, attributes or settings may have been called before they changed; one that changes something does so at its
    first call only; one that returns a list, a tensor or another object returns the same one each time. So it is never traced. The program's own
    functions are called natively; caches of installed packages, of torch and of the standard library are asked while tracing, and by a guard.
    """

    what: str
    id = "FJ026"
    message = "call of {what}, whose cache may know another answer"
    explanation = "The cache knows what the function returned at an earlier call, and which object that was."
    hints = (
        "Call it outside the compiled function, and pass in what it returns.",
        "Where it returns the same for the same arguments, decorate it with `torch.compiler.assume_constant_result` below the cache.",
    )


@dataclass(frozen=True)
class ChangesMeanwhile(Break):
    """What a call is guarded by changes again and again while the call is compiled: it runs as written.

    Guards hold what a trace has seen. When the program's other threads, or the backend, change that before the compilation is over, what
    was compiled doesn't fit the call any more. A few attempts are made.
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
class ChangesFromCallToCall(Break):
    """A value was different in so many calls that nothing more is compiled for one value of it: what looks at it runs between graphs."""

    what: str
    id = "FJ028"
    message = "{what} changes from call to call"
    explanation = (
        "Entries for as many of its values as recompile_limit allows are there; so that the rest stays compiled, an entry that fits all values "
        "leaves out the code that looks at it."
    )
    hints = (
        "Pad tensors to one size; pass numbers as tensors.",
        "Raise the option recompile_limit if the value comes in a few more kinds only.",
    )


@dataclass(frozen=True)
class RunsAtEnd(Break):
    """The program lets go of a generator that waits in a `try` or `with` block, or in a `yield from`: closing it runs code.

    The place of that code is between what the program has done so far and what follows. So such a generator is made natively, and the
    instruction of a resumed frame that lets go of it, or the call around that instruction, runs natively too.
    """

    what: str
    id = "FJ029"
    message = "the end of {what}, which runs code then"
    explanation = "Code that runs when a generator is closed must see what came before, and be seen by what follows."
    hints = ("Run the generator to its end, or call its `close()`.",)


@dataclass(frozen=True)
class InterruptedIterator(Break):
    """An iterator that the trace has made is in use at a graph break, and there is no making one that is half-way.

    So the trace is restarted, and what makes the iterator runs natively: each of its steps then is a break of its own. That concerns `groupby`,
    `tee`, `product`, `permutations` and `combinations` of itertools, and iterators of sets.
    """

    what: str
    id = "FJ030"
    message = "making {what}, which a graph break interrupts"
    explanation = "Behind the break the iterator has to go on where it was. framejit can't make one that is half-way, so the real one is used."
    hints = ("Take its items into a list before the loop, or remove the break from the loop.",)


@dataclass(frozen=True)
class DidNotRaise(Break):
    """A trace saw the program raise an exception, and the program, run as written, did not raise it.

    The trace was wrong: framejit takes some operation for one that raises. From then on calls like this one run as written; the first
    one gives a warning, and raises InternalError under FRAMEJIT_STRICT=1.
    """

    what: str
    id = "FJ031"
    message = "framejit was wrong about what the program raises: {what}"
    explanation = "An operation was traced as one that raises, and it does not. This is an error of framejit: please report it."
    hints = ("Move the operation out of the compiled function.",)


@dataclass(frozen=True)
class Debugger(Break):
    """The program calls a debugger: `breakpoint()`, `pdb.set_trace()`, or another one's function.

    The call runs as written, from its beginning: so the debugger shows the program's own frames with all their variables, and steps through them.
    Where part of the call has been compiled already, up to an earlier graph break, the rest runs as written.
    """

    what: str
    packages: ClassVar[frozenset[str]] = frozenset(
        {"pdb", "bdb", "ipdb", "pudb", "pdbpp", "debugpy", "pydevd", "web_pdb", "rpdb", "remote_pdb", "IPython", "code"}
    )
    """Packages whose functions let somebody look at the frames of the program that calls them, and go on from there step by step."""
    id = "FJ033"
    message = "call of a debugger: {what}"
    explanation = "A debugger shows frames and variables, which compiled code doesn't have."
    hints = ("Remove the call when you are done; to see where compiled code breaks, use framejit.explain().",)


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

    With the backends "eager", "aot_eager" and "inductor", the arithmetic of torch's optimizers is part of the graph. It isn't for LBFGS and SparseAdam,
    nor for settings such as `capturable=True`: then a step runs as written, as a whole. The model's forward and backward, and what a closure computes, are
    compiled.

    Steps of torch's schedulers compute with nothing but Python's numbers. They are made behind the graph, which isn't split for them, unless something looks at
    the new learning rate before the call ends, a learning rate is a tensor, the step may warn, it has an argument, or the schedule is code of the program's
    that does more than to compute a number.
    """

    id = "FJ036"
    message = "a step of {reason}, which runs as written"
    explanation = "Its arithmetic is no part of a graph: it depends on numbers in tensors, or is none of tensors."
    hints = ("Compile the model, or the function that computes the loss, rather than the step; read the learning rate outside the compiled function.",)


@dataclass(frozen=True)
class NotImported(Break):
    """An import of a module, or of a name in one, that is not there yet.

    Importing runs the module's code, the program's import hooks, and whatever they import, so the import statement is executed by itself. Once the
    module is in `sys.modules`, the next call is compiled without the break.
    """

    what: str
    id = "FJ037"
    message = "import of {what}"
    explanation = "The first import of a module runs its code, which must happen at this point of the program and only once."
    hints = ("Import the module at the top of the file, or before the first call.",)


@dataclass(frozen=True)
class Observed(Break):
    """A mode or tracer of the program's is in force that looks at each operation: a FLOP counter, a logger, anomaly detection, `torch.jit.trace`, `make_fx`.

    It is to see the operations that the program makes, not those of a graph, so the call runs as written. Calls outside of it are compiled.
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
    program must know the number to go on (`if n > 3`, `range(n)`, `values[n]`, the text of it), the call is split, and behind the split the number is
    known. An operator whose meaning depends on a size, as that of `+` does on whether one is 1, splits it too. `torch._check` says what always holds: it
    is checked in the graph, and the trace rests on it.
    """

    needing: str
    number: str
    lineno: int
    check: str
    id = "FJ039"
    message = "{needing} needs the value of `{number}` (line {lineno}), which depends on the data of a tensor"
    explanation = "The graph has not run yet where the program is traced, so numbers that come out of it are not known."
    hints = (
        "If the answer is always the same, say so before: torch._check({check}), or the opposite.",
        "Keep it in tensors: choose with torch.where, multiply by a mask.",
    )


@dataclass(frozen=True)
class FirstStep(SkippedFrame):
    """A call with the first step of an optimizer, in which the optimizer makes its state: momenta, averages, counts of steps.

    Later steps find the state there, and need another graph. With the backends "aot_eager" and "inductor" a graph with a backward and a step takes long to
    compile, so the first call runs as written, and the second is compiled. The first step is compiled too with `fullgraph=True`, where the step
    stands in a loop of the compiled function, so that there may be no second call, and where first steps come again, with new optimizers.
    """

    id = "FJ040"
    message = "the first step of {reason}, which makes its state: the call runs as written"
    explanation = "The graph of a first step would run once. The next call is compiled."
    hints = ("There is nothing to do. To have the first step compiled too, use fullgraph=True.",)


@dataclass(frozen=True)
class InsideLibrary(Break):
    """A function of a library, called by the program, does something that can't be traced.

    The standard library, torch's machinery (saving, loading, printing ...) and installed packages that don't work on tensors themselves are
    not split in the middle: the program's call of them runs natively as a whole, and functions of the program that they call back are
    compiled on their own. The message says what stopped the trace inside.
    """

    what: str
    why: str
    where: str
    id = "FJ043"
    message = "call of {what}, library code that cannot be traced to its end: {why} ({where})"
    explanation = "Inside the call is something that framejit cannot trace. Library code is not split there; the whole call runs natively."
    hints = ("Move the call out of the compiled function, or guard it with `if not framejit.is_compiling():`.",)


@dataclass(frozen=True)
class SuperOfNone(SkippedFrame):
    """An attribute of `super(cls, None)`, or of `super()` where `self` is None, in Python 3.12.

    CPython's instruction for it gives two answers: at first the attribute of an unbound `super` object, and TypeError once the interpreter has specialised
    the instruction, which it does after the first run. So the function that contains it runs as written.
    """

    id = "FJ061"
    message = "attribute {reason!r} of super() of None"
    explanation = "What Python 3.12 makes of it depends on how often it has run this instruction."
    hints = ("Call the method with an instance.",)


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
    message = "operator {what}, of which is not known what it gives: it has no fake implementation"
    explanation = "The operator has to run on tensors without data while tracing, and nothing is registered for that."
    hints = (
        'Register a function that makes an empty tensor of the right shape and dtype: @torch.library.register_fake("{what}").',
        "An operator that is written in terms of PyTorch's operators can be registered as CompositeImplicitAutograd in its place.",
    )


@dataclass(frozen=True)
class FailsOnFakes(Break):
    """A custom operator, a scripted function, or a function that the program has declared to be one node fails on tensors without data.

    Tracing doesn't look into it: it is called with fake tensors, which have shapes and types but no data. That it fails on these doesn't mean that it fails on
    others. So it runs natively, and the graph is split there.
    """

    what: str
    id = "FJ075"
    message = "a function that isn't traced into fails on tensors without data: {what}"
    explanation = "To learn what the function gives, it was called with tensors without data, and raised."
    hints = (
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
    before the call is traced: that is the order in which they would be made in eager. Otherwise the call runs as written. From then on the module is one of
    another class, and calls are compiled.
    """

    id = "FJ077"
    message = "the first call of a lazy module, {reason}, which makes its parameters: the call runs as written"
    explanation = "A graph of the first call would run once. The next call is compiled."
    hints = ("There is nothing to do. With fullgraph=True, call the module once before it is compiled.",)


def _subclasses(cls: type[Break]) -> list[type[Break]]:
    return [sub for child in cls.__subclasses__() for sub in (child, *_subclasses(child))]


CATALOGUE: dict[str, type[Break]] = {cls.id: cls for cls in _subclasses(Break)}
"""Every reason by its id."""
