"""Break reasons about Python itself: calls, frames, iterators, exceptions, and the limits of framejit."""

from __future__ import annotations

from typing import ClassVar

from framejit.breaks.base import Break, BreakOf


class UnsupportedCall(BreakOf):
    """The program calls something whose behaviour framejit does not know.

    C functions run outside the interpreter, so they can't be traced: each needs a model. framejit knows which functions are safe to run on
    constants, which are made of ATen operators, and what most of the commonly used standard library does. It doesn't know this callable.
    """

    reads_clock: bool = False
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
        return hints[-1:] if self.reads_clock else hints[:-1]


class UnsupportedValue(BreakOf):
    """A value is of a type that framejit does not model in the way the program uses it.

    Every value that the trace looks into needs a model of its type. Passing such a value through untouched is always fine.
    """

    varies: bool = False
    id = "FJ002"
    message = "use of {what}, a value that framejit does not model"
    explanation = "The trace had to look into a value whose type has no model."
    hints = (
        "Pass the plain numbers, strings or tensors that it holds to the compiled function in its place.",
        "Keep its use outside the compiled function.",
    )


class UnsupportedOperation(BreakOf):
    """The program uses an operation that framejit does not model, or not with these operands, on values whose types it does model."""

    instead: str = ""
    """Advice for this case, in place of the general advice; empty if the general advice fits."""
    id = "FJ003"
    message = "operation that framejit cannot trace: {what}"
    explanation = "The types are known, but this operation on them, or with these operands, is not."
    hints = (
        "Compute the same result with other operations; torch.where chooses between two results.",
        "Move it out of the compiled function: torch.utils.checkpoint and backward() can be called around compiled functions.",
    )

    def advice(self) -> tuple[str, ...]:
        return (self.instead,) if self.instead else super().advice()


class UnsupportedOpcode(BreakOf):
    """The function contains a bytecode instruction that framejit does not interpret.

    Parts of `async` code, type parameters (Python 3.12) and `from module import *` compile to special instructions. Callers of the function are split around
    it. The function itself is split where it can be. Otherwise it runs uncompiled.
    """

    id = "FJ004"
    message = "bytecode instruction {what} is not supported"
    explanation = "The statement compiles to an instruction that framejit does not interpret."
    hints = (
        "For `from module import *` in a text that exec() runs (IMPORT_STAR): import the module itself.",
        "Move the statement out of the compiled function.",
    )


class ExceptionEscapes(BreakOf):
    """The traced program raises an exception that nothing in the compiled function catches.

    The frame then runs uncompiled, so that the exception has its own traceback, context and side effects. A break is impossible: after the exception, no
    code of the frame is left to continue with. The functions that the frame calls are compiled by themselves from the second such call on.

    If the program has asked whether it is compiled (`torch.compiler.is_compiling()`), the trace is restarted before that question, and answers "no". If
    only the answer "yes" leads to the exception, the program doesn't raise it uncompiled.
    """

    id = "FJ007"
    message = "the program raises {what}"
    explanation = "Nothing in the compiled function catches the exception, so the function has no result that could be compiled."
    hints = ("Catch the exception inside the compiled function, or check the condition before calling it.",)


class ExplicitBreak(Break):
    """The program asked for a graph break, with `framejit.graph_break()` or `torch._dynamo.graph_break()`."""

    reason: str
    id = "FJ008"
    message = "graph break asked for by the program: {reason}"
    explanation = "The program calls graph_break() here."
    hints = ("Remove the call to graph_break().",)


class DisabledFunction(BreakOf):
    """The program calls a function that is marked with `framejit.disable` or `torch.compiler.disable`."""

    is_block: bool = False
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
        return hints[-1:] if self.is_block else hints[:-1]


class GeneratorFrame(BreakOf):
    """A generator, coroutine or async generator is not compiled on its own.

    Its frame outlives the call, and is suspended in the middle. It can be traced if a compiled function consumes it. On its own, a break is impossible in it:
    the code that takes the generator's items runs it, and that code needn't be compiled.
    """

    id = "FJ010"
    message = "{what} is not compiled on its own"
    explanation = "Generators and coroutines are suspended half-way; framejit compiles frames that run to their end."
    hints = ("Compile the plain functions that it calls, or the function that iterates over the generator.",)


class SideEffect(BreakOf):
    """The program does something that the outside world sees, such as printing, reading or writing files, logging, warning, or reading the clock.

    A side effect cannot be part of a graph. If it happened while tracing, it would happen once instead of on each call.
    """

    id = "FJ012"
    message = "{what} is a side effect"
    explanation = "It must happen on each call, at this point of the program, and a graph cannot do it."
    hints = ("Move it out of the compiled function, or leave it out of compiled code with `if not framejit.is_compiling():`.",)


class CannotReconstruct(BreakOf):
    """A value that the trace made must become a real object, because it is returned or stored, and framejit can't build it.

    If the value is returned, or held by every frame that could be split, the compiled function runs uncompiled, and the functions that it calls are compiled
    by themselves. A break is impossible: wherever the call is split after the value was made, the rest of the call would need the value.
    """

    id = "FJ014"
    message = "{what} cannot be rebuilt for the code outside the trace"
    explanation = "The value exists only in the trace. It leaves the trace here, and framejit has no code that builds such a value."
    hints = ("Return or store its parts (tensors, numbers, lists) instead.",)


class TooDeep(BreakOf):
    """Inlined calls are nested deeper than the limit. The usual cause is a recursion that a traced value should have stopped.

    The call of the recursive function is split off, and runs natively. That function, and the functions that it calls, run uncompiled: a break at the limit
    would rebuild as many frames as the limit says, and each of the nested calls would be traced down to the limit again. If Python's own stack has no room
    for the compiler, the call runs uncompiled too, and a later call with more room may be compiled.
    """

    id = "FJ016"
    message = "calls are nested too deeply at {what}"
    explanation = "Every call is inlined into the trace, and the nesting reached the option inline_depth_limit."
    hints = ("Turn the recursion into a loop, or raise the option inline_depth_limit (FRAMEJIT_INLINE_DEPTH_LIMIT).",)


class TooLong(BreakOf):
    """The loops of one trace have more iterations in all than the limit. The usual cause is a loop that does not end while tracing.

    The call of the function that has the outermost loop is split off, and runs natively; the functions that the loop calls are compiled by themselves. If the
    compiled function itself has the loop, it runs uncompiled: a break inside the loop would leave a graph with all iterations up to there, which no backend
    compiles in reasonable time.
    """

    id = "FJ017"
    message = "the trace is too long: {what}"
    explanation = "Loops are unrolled into the trace, and their iterations reached the option unroll_limit."
    hints = ("Compile the body of the loop instead, or raise the option unroll_limit (FRAMEJIT_UNROLL_LIMIT).",)


class IteratorFromOutside(BreakOf):
    """The program takes an item from an iterator that was made outside the compiled function, and framejit can't see that item without taking it.

    framejit can look ahead in iterators over ranges, lists, tuples, dicts, strings and bytes, and in enumerate, zip, map, filter and most of itertools, but
    not very far in one trace, and not while the trace changes the container. It can't look ahead in iterators over sets and deques.

    A generator is traced on from the `yield` at which it waits, unless it is running, handles an exception, or something else holds its frame (`gi_frame`),
    or the Python is 3.14 or later.
    """

    id = "FJ018"
    message = "step of {what}, an iterator made outside the compiled function"
    explanation = "Its next item cannot be known without taking it, and taking it while tracing would lose it."
    hints = (
        "Pass the list or tuple that it iterates over, or make the iterator inside the compiled function.",
        "Take the item outside the compiled function, with next(), and pass it in.",
    )


class RecompileLimit(BreakOf):
    """A function was compiled as often as a limit allows, and the call matches none of its entries, so the call runs uncompiled.

    Three options limit the number of entries: `recompile_limit` for a function (or for one module, if the first argument is a module),
    `accumulated_recompile_limit` for all modules together, and `cause_limit` for entries that were made because the same guard failed.

    A break is impossible: to know where, the call would have to be traced once more, which is what the limit forbids. The functions that it calls are
    compiled by themselves, each for at most two kinds of calls.
    """

    limit: str
    changing: str
    advice_on_it: str
    id = "FJ019"
    message = "{what} has reached {limit}; what is changing: {changing}"
    explanation = "Each entry serves the calls that its guards accept. None accepts this call, and no further entry is made."
    hints = (
        "{advice_on_it}.",
        "FRAMEJIT_LOGS=recompiles shows for each compilation why it was necessary.",
        "Raise the limit if the calls really differ in so many ways.",
    )


class FrameIntrospection(BreakOf):
    """The program looks at its own frames: `locals()` in an inlined function, `inspect.stack`, and what `sys._getframe()` returns, if that is kept, if it is
    asked for more than `f_code`, `f_lineno`, `f_globals` and `f_back`, or if it is the frame of a caller that isn't traced.

    The call is split there, and the code that looks at frames runs natively. A function runs uncompiled as a whole if it looks at its variables more than
    once around `exec()` and the like, keeps its own frame, or reads `f_locals`. A break is impossible in such a function: after a break, its variables would
    be in another frame than the one that it has looked at. Its callers are split around it.
    """

    id = "FJ020"
    message = "{what} looks at the frames of the program"
    explanation = "Inlined calls have no frames of their own, so it would not see what it sees in uncompiled code."
    hints = (
        "Pass what it looks for (a name, a dict of values) as an argument.",
        "Move it out of the compiled function.",
    )


class GlobalStateUnsupported(BreakOf):
    """The program reads or changes state of the interpreter or of torch that is not modelled, such as defaults, or modes that were entered elsewhere.

    Context variables that hold plain constants are read and guarded. If they hold something else, or are changed, the call is split.

    A function that enters an inference mode and returns while it is in force runs uncompiled. A break is impossible: it would have to be at the return,
    after which there is nothing to resume.
    """

    id = "FJ021"
    message = "use of global state that is not modelled: {what}"
    explanation = "The state may differ on the next call, and framejit can neither guard it nor replay its change."
    hints = ("Set or read it outside the compiled function.",)


class ComparesByPython(BreakOf):
    """A dict key or set element has a `__hash__` or `__eq__` of the program's that does more than to compute, or has changed since it became a key.

    Such methods are traced. In a trace, they run more often than in the program, and at other places, which nobody notices if they only read. A `__hash__` may
    keep the number that it returns. The trace has to know how keys compare from when they are put in until they leave the compiled code.
    """

    id = "FJ022"
    message = "{what} as a key or an element"
    explanation = "The program's own __hash__ or __eq__ would have to run as often, and at the same moments, as it does without compiling."
    hints = ("Let __hash__ and __eq__ only read, and leave objects as they are while they are keys.", "Use strings, numbers, or frozen dataclasses as keys.")


class SkippedFrame(Break):
    """The program asked for its frame to run uncompiled, with `framejit.skip_frame()` or `torch._dynamo.skip_frame()`.

    The function that asks runs uncompiled. If it was inlined, its caller is split around the call. The functions that it calls are compiled by themselves. A
    break in it would compile the rest of it, which the program asks not to do.
    """

    reason: str
    id = "FJ024"
    message = "the frame is skipped, as the program asks: {reason}"
    explanation = "The program calls skip_frame() here."
    hints = ("Remove the call to skip_frame().",)


class StanceChange(Break):
    """The program sets a stance (`set_stance`, framejit's or torch's) inside compiled code.

    The stance decides what compiled functions do from there on, so the real call is made while the program runs, between two graphs.
    """

    id = "FJ025"
    message = "set_stance() in compiled code"
    explanation = "The stance says whether and how the rest of the program is compiled; a graph can't hold that."
    hints = ("Set the stance outside the compiled function.",)


class CachedCall(BreakOf):
    """The program calls a function under `functools.lru_cache`, whose cache may give another answer than running the function would.

    What a cache has is found by a guard, so a function that has been called with the same arguments before splits no graph. If the cache has no result yet, the
    function is traced to see what it does. One that only computes is called while its caller is traced. One that prints, notes something, draws random numbers
    or raises is called natively, between two graphs; so is one that is called after the program has changed something in the same call. So is each function for
    sizes that vary from call to call, one whose cache is full, and one whose arguments are tensors or have a `__hash__` of their own.
    """

    id = "FJ026"
    message = "call of {what}, whose cache may give another answer"
    explanation = "The cache knows what the function returned at an earlier call, and which object that was."
    hints = (
        "Call it outside the compiled function, and pass in what it returns.",
        "Call it once before the first compiled call: guards find what the cache has.",
        "If it always returns the same for the same arguments, decorate it with `torch.compiler.assume_constant_result` below the cache.",
    )


class ChangesFromCallToCall(BreakOf):
    """A value differed in so many calls that nothing more is compiled for single values of it. Code that looks at the value runs between graphs."""

    id = "FJ028"
    message = "{what} changes from call to call"
    explanation = (
        "There are entries for as many of its values as recompile_limit allows, or it is an object that is new in each call, and the program asks for its "
        "address (`hash`, `id`, a default `repr`). To keep the rest compiled, the next entry fits all values, and leaves out the code that looks at the value."
    )
    hints = (
        "Pad tensors to one size; pass numbers as tensors.",
        "Use a number or name that the program gives out itself, instead of the address of an object that is new in each call.",
        "Raise the option recompile_limit if the value has only a few more kinds.",
    )


class RunsAtEnd(BreakOf):
    """The program releases a generator that waits in a `try` or `with` block, or in a `yield from`, and closing the generator runs code.

    That code must run after everything that the program has done so far, and before what follows. So such a generator is made natively, and the
    instruction of a resumed frame that releases it, or the call around that instruction, runs natively too.
    """

    id = "FJ029"
    message = "the end of {what}, which runs code then"
    explanation = "Code that runs when a generator is closed must see what came before, and be seen by what follows."
    hints = ("Run the generator to its end, or call its `close()`.",)


class InterruptedIterator(BreakOf):
    """An iterator that the trace has made is in use at a graph break, and framejit can't build one that is partly consumed.

    So the trace is restarted, and the call that makes the iterator runs natively. Each of the iterator's steps is then a separate break. This concerns
    `groupby`, `tee`, `product`, `permutations` and `combinations` of itertools, and iterators over sets.
    """

    id = "FJ030"
    message = "making {what}, which a graph break interrupts"
    explanation = (
        "After the break, the iterator must continue where it was. framejit can't build a partly consumed one, so the real one is used."
    )
    hints = ("Take its items into a list before the loop, or remove the break from the loop.",)


class DidNotRaise(BreakOf):
    """A trace saw the program raise an exception, but the program, run uncompiled, did not raise it.

    The trace was wrong about some operation. From then on, calls like this one run uncompiled, and the functions that they call are compiled by
    themselves. The first such call gives a warning, and raises InternalError under FRAMEJIT_STRICT=1. A break is impossible: the trace knows nothing of
    what follows the operation that seems to raise.
    """

    id = "FJ031"
    message = "framejit was wrong about what the program raises: {what}"
    explanation = "framejit traced an operation as one that raises, but it does not. This is a bug in framejit: please report it."
    hints = ("Move the operation out of the compiled function.",)


class Debugger(BreakOf):
    """The program calls a debugger, with `breakpoint()`, `pdb.set_trace()` or a function of another debugger.

    The call runs uncompiled from its beginning, so that the debugger shows the program's own frames with all their variables, and can step through them. If
    part of the call has been compiled already, up to an earlier graph break, the rest runs uncompiled. A break at the call would be possible, but useless:
    the frames of a split call have only those variables that are read later, and code in a graph can't be stepped through.
    """

    packages: ClassVar[frozenset[str]] = frozenset(
        {"pdb", "bdb", "ipdb", "pudb", "pdbpp", "debugpy", "pydevd", "web_pdb", "rpdb", "remote_pdb", "IPython", "code"}
    )
    """Packages with functions that open a debugger in the frame that calls them."""
    id = "FJ033"
    message = "call of a debugger: {what}"
    explanation = "A debugger shows frames and variables, which compiled code doesn't have."
    hints = ("Remove the call when you are done; to see where compiled code breaks, use framejit.explain().",)


class NotImported(BreakOf):
    """The program imports a module, or a name from one, that has not been imported yet.

    Importing runs the module's code, the program's import hooks, and whatever they import, so the import statement runs natively. Once the
    module is in `sys.modules`, the next call is compiled without the break.
    """

    id = "FJ037"
    message = "import of {what}"
    explanation = "The first import of a module runs its code, which must happen at this point of the program and only once."
    hints = ("Import the module at the top of the file, or before the first call.",)


class InsideLibrary(BreakOf):
    """A library function that the program calls does something that can't be traced.

    The standard library, torch's machinery (saving, loading, printing ...) and installed packages that don't work on tensors themselves are
    not split in the middle. The program's call of them runs natively as a whole, and functions of the program that they call back are
    compiled by themselves. The message says what stopped the trace inside.
    """

    why: str
    where: str
    gives: str = "a result"
    """The purpose of the call: "a result", which the program uses; "an effect"; "a message" to people who read logs or a terminal; or "a hook", if a module's
    call makes it."""
    id = "FJ043"
    message = "call of {what}, library code that cannot be traced to its end: {why} ({where})"
    explanation = "Something inside the call cannot be traced. Library code is not split there, so the whole call runs natively."
    hints = (
        "Where the program uses what it returns: call it outside the compiled function, and pass in what it returns.",
        "Where the program doesn't: move the call out of the compiled function, to before or after it.",
        "Where it only logs or prints: leave it out of compiled code with `if not framejit.is_compiling():`.",
        "Where it is a hook of a module: compile the module's forward rather than the module, `m.forward = framejit.compile(m.forward)`; hooks run around it.",
    )

    def advice(self) -> tuple[str, ...]:
        result, effect, message, hook = ((text[:1].upper() + text[1:]) for text in (hint.partition(": ")[2] for hint in self.hints))
        return {"a result": (result,), "an effect": (effect,), "a message": (message, effect), "a hook": (hook,)}[self.gives]


class SuperOfNone(SkippedFrame):
    """The program reads an attribute of `super(cls, None)`, or of `super()` where `self` is None, in Python 3.12.

    CPython's instruction for it behaves in two ways. At first it gives the attribute of an unbound `super` object; after the first run, the interpreter has
    specialised the instruction, and it raises TypeError. So the function that contains it runs uncompiled, and its callers are split around it: in a step,
    the instruction would be in another code object, which CPython specialises separately.
    """

    id = "FJ061"
    message = "attribute {reason!r} of super() of None"
    explanation = "The behaviour of Python 3.12 here depends on how often it has run this instruction."
    hints = ("Call the method with an instance.",)


class FailedInside(BreakOf):
    """framejit failed to compile a frame because of an error in framejit itself.

    The frame runs uncompiled, and the functions that it calls are compiled by themselves. A break is impossible: when a trace or a backend fails, its
    results so far can't be trusted. With `fullgraph=True`, inside `error_on_graph_break(True)`, and under FRAMEJIT_STRICT=1 the error is raised, as an
    InternalError.
    """

    where: str
    id = "FJ080"
    message = "an error inside framejit, {what} ({where})"
    explanation = (
        "framejit failed while it compiled the function. The function runs uncompiled, so its results are right. "
        "This is a bug in framejit: please report it."
    )
    hints = ("Set FRAMEJIT_STRICT=1 to see the traceback, and please report it.",)

    def text(self) -> str:
        return super().text().removesuffix(" ()")
