"""Reasons that lie in the program as Python runs it: calls, frames, iterators, exceptions, the limits of framejit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from framejit.breaks.base import Break


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
        "Read a clock, such as `time.perf_counter()`, before and after the call of the compiled function, and not inside.",
    )

    def advice(self) -> tuple[str, ...]:
        """The last one is for clocks, and the others for everything else."""
        hints = super().advice()
        return hints[-1:] if self.what.startswith("time.") else hints[:-1]


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
    instead: str = ""
    """What to do in this case, where the general advice doesn't help."""
    id = "FJ003"
    message = "operation that framejit cannot trace: {what}"
    explanation = "The types are known, but this operation on them, or with these operands, is not."
    hints = (
        "Compute the same with other operations; torch.where chooses between two results.",
        "Move it out of the compiled function: torch.utils.checkpoint and backward() can be called around compiled functions.",
    )

    def advice(self) -> tuple[str, ...]:
        return (self.instead,) if self.instead else super().advice()


@dataclass(frozen=True)
class UnsupportedOpcode(Break):
    """An instruction of the interpreter that framejit refuses.

    `except*`, the parts of `async` code, and type parameters (Python 3.12) compile to instructions of their own. They are decoded, and refused by name.
    Callers of the function are split around it. The function itself is split where it can be. At an `except*` that has something to catch a break is
    impossible: what is being handled changes from clause to clause, and nothing that code can read or write tells it. Then the function runs uncompiled.
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
class ExceptionEscapes(Break):
    """The traced program raises an exception that nothing in the compiled function catches.

    The frame then runs uncompiled, so that the exception has its own traceback, context and side effects. A break is impossible: after the exception there
    is no code of the frame to go on with. The functions that the frame calls are compiled by themselves from the second such call on.

    If the program has asked whether it is compiled (`torch.compiler.is_compiling()`), the trace is restarted before that, and answers "no": an exception
    that comes only of the answer "yes" isn't the program's.
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
    hints = (
        "Remove the decorator if the function can be traced.",
        "Call it outside the compiled function.",
        "Put the block into a function decorated with framejit.disable: after a call of that, compiling goes on.",
    )

    def advice(self) -> tuple[str, ...]:
        """The last one is for blocks, whose function runs uncompiled from there on, and the others for functions."""
        hints = super().advice()
        return hints[-1:] if self.what.startswith("`with") else hints[:-1]


@dataclass(frozen=True)
class GeneratorFrame(Break):
    """A generator, coroutine or async generator is not compiled on its own.

    Its frame outlives the call, and is suspended in the middle. It can be traced where a compiled function consumes it. A break is impossible in a frame
    that nothing compiles: whoever takes the generator's items runs it, and that needn't be compiled code.
    """

    what: str
    id = "FJ010"
    message = "{what} is not compiled on its own"
    explanation = "Generators and coroutines are suspended half-way; framejit compiles frames that run to their end."
    hints = ("Compile the plain functions that it calls, or the function that runs over a generator.",)


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
class CannotReconstruct(Break):
    """A value that the trace made must exist for real (it is returned or stored) and there is no way to build it.

    Where it is returned, or held by every frame that could be split, the compiled function runs uncompiled, and what it calls is compiled by itself. A
    break is impossible: at each place after the one where the value was made, the code that goes on there would have to be given it.
    """

    what: str
    id = "FJ014"
    message = "{what} cannot be rebuilt for the code outside the trace"
    explanation = "The value exists only in the trace; it leaves it here, and framejit has no code that builds one."
    hints = ("Return or store its parts (tensors, numbers, lists) in its place.",)


@dataclass(frozen=True)
class TooDeep(Break):
    """Inlined calls are nested deeper than the limit; most often a recursion that a traced value should have stopped.

    The call of the function that calls itself is split off, and runs natively. That function, and what it calls, runs uncompiled: a break at the limit would
    rebuild as many frames as the limit says, and each of the nested calls would be traced down to the limit again. The same is done where Python's own stack
    has no room for the compiler: then the call runs uncompiled, and a later one with more room may be compiled.
    """

    what: str
    id = "FJ016"
    message = "calls are nested too deeply at {what}"
    explanation = "Every call is inlined into the trace, and the nesting reached the option inline_depth_limit."
    hints = ("Turn the recursion into a loop, or raise the option inline_depth_limit (FRAMEJIT_INLINE_DEPTH_LIMIT).",)


@dataclass(frozen=True)
class TooLong(Break):
    """The loops of one trace have more iterations in all than the limit; most often one that does not end while tracing.

    The call of the function that has the outermost loop is split off, and runs natively; what the loop calls is compiled by itself. Where the compiled
    function is itself the one that loops, it runs uncompiled: a break inside of the loop would leave a graph with all iterations up to there, which no
    backend compiles in time.
    """

    what: str
    id = "FJ017"
    message = "the trace is too long: {what}"
    explanation = "Loops are unrolled into the trace, and their iterations reached the option unroll_limit."
    hints = ("Compile the body of the loop instead, or raise the option unroll_limit (FRAMEJIT_UNROLL_LIMIT).",)


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
    hints = (
        "Pass the list or tuple that it runs over, or make the iterator inside the compiled function.",
        "Take the item outside the compiled function, with next(), and pass it in.",
    )


@dataclass(frozen=True)
class RecompileLimit(Break):
    """A function was compiled as often as a limit allows, and the call matches none of its entries: it runs uncompiled.

    Three options limit that: `recompile_limit` for a function (or for one module, where the first argument is a module),
    `accumulated_recompile_limit` for all modules together, `cause_limit` for those that differ in what one and the same guard expects.

    A break is impossible: to know where, the call would have to be traced once more, which is what the limit forbids. The functions that it calls are
    compiled by themselves, for two kinds of calls at most each.
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
    """The program looks at its own frames: `locals()` in an inlined function, `sys._getframe`, `inspect.stack`.

    The call is split there, and the look runs natively. A function runs uncompiled as a whole if it looks at its variables more than once around `exec()`
    and the like, keeps its own frame, or reads `f_locals`: a break is impossible in it, for after a break its variables are in another frame than the one
    that was looked at. Its callers are split around it.
    """

    what: str
    id = "FJ020"
    message = "{what} looks at the frames of the program"
    explanation = "Inlined calls have no frames of their own, so what it would see is not there."
    hints = (
        "Pass what it looks for (a name, a dict of values) as an argument.",
        "Move it out of the compiled function.",
    )


@dataclass(frozen=True)
class GlobalStateUnsupported(Break):
    """The program reads or changes state of the interpreter or of torch that is not modelled: defaults, modes that were entered elsewhere.

    Of context variables, plain constants are read and guarded; other contents, and changes, are left to the program.

    A function that returns while an inference mode is in force that it has entered runs uncompiled. A break is impossible: it would have to be at the
    return, after which there is nothing to resume.
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
class SkippedFrame(Break):
    """The program asked for its frame to run uncompiled, with `framejit.skip_frame()` or `torch._dynamo.skip_frame()`.

    The function that asks runs uncompiled: where it was inlined, its caller is split around the call. What it calls is compiled by itself. A break in it
    would compile the rest, which the program asks not to be done.
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
    """A trace saw the program raise an exception, and the program, run uncompiled, did not raise it.

    The trace was wrong: framejit takes some operation for one that raises. From then on calls like this one run uncompiled, and the functions that they
    call are compiled by themselves; the first one gives a warning, and raises InternalError under FRAMEJIT_STRICT=1. A break is impossible: the trace knows
    nothing of what follows the operation that it takes for one that raises.
    """

    what: str
    id = "FJ031"
    message = "framejit was wrong about what the program raises: {what}"
    explanation = "An operation was traced as one that raises, and it does not. This is an error of framejit: please report it."
    hints = ("Move the operation out of the compiled function.",)


@dataclass(frozen=True)
class Debugger(Break):
    """The program calls a debugger: `breakpoint()`, `pdb.set_trace()`, or another one's function.

    The call runs uncompiled, from its beginning: so the debugger shows the program's own frames with all their variables, and steps through them. Where
    part of the call has been compiled already, up to an earlier graph break, the rest runs uncompiled. A break at the call would be possible, and of no
    use: the frames of a split call have only those variables that are read later, and what was computed in a graph can't be stepped through.
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
class InsideLibrary(Break):
    """A function of a library, called by the program, does something that can't be traced.

    The standard library, torch's machinery (saving, loading, printing ...) and installed packages that don't work on tensors themselves are
    not split in the middle: the program's call of them runs natively as a whole, and functions of the program that they call back are
    compiled on their own. The message says what stopped the trace inside.
    """

    what: str
    why: str
    where: str
    gives: str = "a result"
    """What the call is made for: "a result", which the program uses; "an effect"; "a message" to whoever reads logs or a terminal. "a hook": a module's call
    makes it."""
    id = "FJ043"
    message = "call of {what}, library code that cannot be traced to its end: {why} ({where})"
    explanation = "Inside the call is something that framejit cannot trace. Library code is not split there; the whole call runs natively."
    hints = (
        "Where the program uses what it returns: call it outside the compiled function, and pass in what it returns.",
        "Where the program doesn't: move the call out of the compiled function, to before or after it.",
        "Where it only logs or prints: leave it out of compiled code with `if not framejit.is_compiling():`.",
        "Where it is a hook of a module: compile the module's forward rather than the module, `m.forward = framejit.compile(m.forward)`; hooks run around it.",
    )

    def advice(self) -> tuple[str, ...]:
        result, effect, message, hook = ((text[:1].upper() + text[1:]) for text in (hint.partition(": ")[2] for hint in self.hints))
        return {"a result": (result,), "an effect": (effect,), "a message": (message, effect), "a hook": (hook,)}[self.gives]


@dataclass(frozen=True)
class SuperOfNone(SkippedFrame):
    """An attribute of `super(cls, None)`, or of `super()` where `self` is None, in Python 3.12.

    CPython's instruction for it gives two answers: at first the attribute of an unbound `super` object, and TypeError once the interpreter has specialised
    the instruction, which it does after the first run. So the function that contains it runs uncompiled, and its callers are split around it: a step has the
    instruction in code of its own, which CPython specialises by itself.
    """

    id = "FJ061"
    message = "attribute {reason!r} of super() of None"
    explanation = "What Python 3.12 makes of it depends on how often it has run this instruction."
    hints = ("Call the method with an instance.",)


@dataclass(frozen=True)
class FailedInside(Break):
    """An error inside framejit itself, which failed to compile a frame: the frame runs uncompiled, and the functions that it calls are compiled by themselves.

    A break is impossible: what a trace or a backend has come to when it fails isn't known to be right. With `fullgraph=True`, inside
    `error_on_graph_break(True)`, and under FRAMEJIT_STRICT=1 the error is raised, as an InternalError.
    """

    what: str
    where: str
    id = "FJ080"
    message = "an error inside framejit, {what} ({where})"
    explanation = "framejit failed while it compiled the function. Results are right, only not compiled. This is an error of framejit: please report it."
    hints = ("Set FRAMEJIT_STRICT=1 to see the traceback, and please report it.",)

    def text(self) -> str:
        return super().text().removesuffix(" ()")
