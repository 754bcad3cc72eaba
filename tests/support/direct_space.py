"""A direct object space for the interpreter's tests: Objects are the real Python values, so its results can be compared with CPython's."""

from __future__ import annotations

import builtins
import functools
import inspect
import operator
import types
import weakref
from collections.abc import Generator

from framejit.bytecode.versions.rows import BINARY_SYMBOLS
from framejit.ceval import loop
from framejit.ceval.frame import Frame, State
from framejit.ceval.signals import Return, Yield
from framejit.objects.core.object import Raise

_NAMES = ("add and_ floordiv lshift matmul mul mod or_ pow rshift sub truediv xor").split()
SIGNALS = (Return, Yield, Raise)
OPERATORS = {
    symbol: getattr(operator, name) for symbol, name in zip(BINARY_SYMBOLS, [*_NAMES, *("i" + name.rstrip("_") for name in _NAMES)])
}
COMPARISONS = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge}


INTERPRETED = weakref.WeakKeyDictionary()  # functions that native code may call -> those whose code is interpreted


class Namespace:
    cls = dict

    def __init__(self, real):
        self.real = real

    def lookup(self, vm, name):
        return self.real.get(name)

    def store(self, vm, name, value):
        self.real[name] = value

    def delete(self, vm, name):
        return self.real.pop(name, None) is not None


class Cell:
    def __init__(self, cell):
        self.cell = cell

    def load(self, vm):
        try:
            return box(self.cell.cell_contents)
        except ValueError:
            return None

    def store(self, vm, value):
        if value is None:
            del self.cell.cell_contents
        else:
            self.cell.cell_contents = unbox(value)


class NoneObject:
    """Python's None as an Object: the interpreter's own None is an unbound variable or NULL."""


NONE = NoneObject()


def box(value):
    return NONE if value is None else value


def unbox(value):
    return None if value is NONE else value


def native(function):
    """Return a handler that unboxes operands, boxes the result, and turns exceptions of native code into Raise."""

    @functools.wraps(function)
    def run(vm, *args):
        try:
            return box(function(vm, *[unbox(arg) for arg in args]))
        except SIGNALS:
            raise
        except BaseException as error:
            raise Raise(error) from None

    return run


def natively(function, *args):
    """Call a function of the interpreter for native code: Raise becomes the exception that it holds, with its context untouched."""
    try:
        return function(*args)
    except Raise as signal:
        exc = signal.exc
    context, cause, suppressed = exc.__context__, exc.__cause__, exc.__suppress_context__
    try:
        raise exc
    finally:
        exc.__context__, exc.__cause__ = context, cause
        exc.__suppress_context__ = suppressed


class DirectGenerator(Generator):
    def __init__(self, vm, frame):
        self.vm = vm
        self.frame = frame

    def step(self, sent, exc):
        frame = self.frame
        if frame.state is State.RUNNING:
            raise ValueError("generator already executing")
        if frame.state is State.FINISHED:
            if exc is not None:
                raise exc
            return None, True
        with self.vm.entering(frame):
            signal = loop.resume(self.vm, frame, box(sent), exc, frame.parent)
        return unbox(signal.value), type(signal) is not Yield

    def finish(self, sent, exc):
        value, finished = natively(self.step, sent, exc)
        if finished:
            raise StopIteration(*([] if value is None else [value]))
        return value

    def send(self, value):
        return self.finish(value, None)

    def throw(self, typ, val=None, tb=None):
        exc = typ if val is None else val
        return self.finish(None, exc() if isinstance(exc, type) else exc)


class Entering:
    def __init__(self, vm, frame):
        self.vm, self.frame = vm, frame

    def __enter__(self):
        self.frame.parent = self.vm.frame
        self.vm.frame = self.frame

    def __exit__(self, *args):
        self.vm.frame = self.frame.parent


class DirectVM:
    """The vm of the direct space. `tracebacks` holds the entries recorded for each exception, innermost first."""

    def __init__(self):
        self.frame = None
        self.tracebacks = {}
        self.refused = []
        self.has_generators = False

    def entering(self, frame):
        return Entering(self, frame)

    def raise_(self, cls, *args, **fields):
        raise Raise(cls(*args))

    def unsupported(self, reason):
        raise NotImplementedError(reason.what)

    class trail:
        @staticmethod
        def mark():
            return 0

    def observe(self, obj):
        return obj

    def count_iteration(self):
        pass

    def handled_exception(self):
        return None  # of frames that are not in this space

    def chain_context(self, exc, handled):
        if handled is None or exc is handled:
            return
        link = handled
        while link.__context__ is not None:
            if link.__context__ is exc:
                link.__context__ = None
                break
            link = link.__context__
        exc.__context__ = handled

    def add_traceback(self, exc, frame, reraised):
        if not reraised:
            self.tracebacks.setdefault(id(exc), []).append((frame.code.co_name, frame.lineno))

    def call_function(self, function, args, kwargs):
        """Interpret a real Python function."""
        code = function.__code__
        if code.co_varnames[:1] == (".0",):
            bound = {".0": args[0]}
        else:
            plain = types.FunctionType(code, function.__globals__, code.co_name, function.__defaults__, function.__closure__)
            plain.__kwdefaults__ = function.__kwdefaults__
            arguments = inspect.signature(plain).bind(*args, **kwargs)  # re.sub has a `__text_signature__` that leaves out parameters
            arguments.apply_defaults()
            bound = arguments.arguments
        bound = {name: box(value) for name, value in bound.items()}
        cells = [Cell(cell) for cell in function.__closure__ or ()]
        frame = Frame(code, bound, Namespace(function.__globals__), Namespace(vars(builtins)), function, cells)
        with self.entering(frame):
            return unbox(loop.run(self, frame))


def call(vm, function, args, kwargs, delivery=None):
    args = [unbox(arg) for arg in args]
    kwargs = {name: unbox(value) for name, value in kwargs.items()}
    return box(_call(vm, function, args, kwargs))


def _call(vm, function, args, kwargs):
    if isinstance(function, types.MethodType):
        function, args = function.__func__, [function.__self__, *args]
    function = INTERPRETED.get(function, function) if isinstance(function, types.FunctionType) else function
    if isinstance(function, types.FunctionType) and function.__code__.co_filename != __file__:
        try:
            return vm.call_function(function, args, kwargs)
        except SIGNALS:
            raise
        except TypeError as error:  # binding
            raise Raise(error) from None
    try:
        if function is super and not args:
            frame = vm.frame
            receiver = frame.locals[0]
            receiver = receiver.load(vm) if isinstance(receiver, Cell) else receiver
            return super(frame.cells["__class__"].load(vm), receiver)
        if function is builtins.__build_class__:
            return _build_class(vm, *args, **kwargs)
        return function(*args, **kwargs)
    except SIGNALS:
        raise
    except BaseException as error:
        raise Raise(error) from None


def _build_class(vm, body, name, *bases, **keywords):
    meta, namespace, keywords = types.prepare_class(name, bases, keywords)
    body = INTERPRETED[body]
    cells = [Cell(cell) for cell in body.__closure__ or ()]
    frame = Frame(body.__code__, {}, Namespace(body.__globals__), Namespace(vars(builtins)), body, cells, Namespace(namespace))
    with vm.entering(frame):
        loop.run(vm, frame)
    for entry in ("__classcell__", "__classdictcell__"):
        if isinstance(namespace.get(entry), Cell):
            namespace[entry] = namespace[entry].cell
    made = meta(name, bases, {key: unbox(value) for key, value in namespace.items()}, **keywords)
    if (cell := namespace.get("__classdictcell__")) is not None:
        cell.cell_contents = Namespace(cell.cell_contents)  # where the interpreter looks names up
    return made


def make_function(vm, code, namespace, builtins, defaults, kwdefaults, closure, annotations, qualname):
    """Return a real function whose code is interpreted when native code calls it."""
    cells = tuple(cell.cell for cell in closure) if closure else None
    real = types.FunctionType(code, namespace.real, code.co_name, unbox(defaults), cells)
    real.__kwdefaults__ = unbox(kwdefaults)
    real.__qualname__ = qualname
    real.__module__ = namespace.real.get("__name__")
    names = iter(annotations or ())
    real.__annotations__ = dict(zip(names, names))

    def trampoline(*args, **kwargs):
        return natively(vm.call_function, real, args, kwargs)

    functools.update_wrapper(trampoline, real)
    del trampoline.__wrapped__
    trampoline.__kwdefaults__ = real.__kwdefaults__
    INTERPRETED[trampoline] = real
    return trampoline


def set_annotate(function, annotate):
    function.__annotate__ = INTERPRETED[function].__annotate__ = annotate


def load_method(vm, obj, name, null_above):
    found = getattr_(vm, obj, name)
    if isinstance(found, types.MethodType):
        return found.__func__, found.__self__
    return found, None


@native
def getattr_(vm, obj, name):
    return getattr(obj, name)


def next_(vm, iterator):
    try:
        return box(_next(vm, iterator))
    except Raise as signal:
        if isinstance(signal.exc, StopIteration):
            return None
        raise


@native
def _next(vm, iterator):
    return next(iterator)


@native
def unpack(vm, obj, n):
    return [box(item) for item in _unpackers(n)(obj)]


@functools.cache
def _unpackers(n):
    names = [f"x{i}" for i in range(n)]
    source = f"lambda obj: [[{', '.join(names)}] for {''.join(name + ', ' for name in names)} in [obj]][0]"
    return eval(source if n else "lambda obj: [[] for [] in [obj]][0]")


@native
def unpack_ex(vm, obj, before, after):
    items = list(obj)
    if len(items) < before + after:
        raise ValueError(f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    end = len(items) - after
    return [box(item) for item in (*items[:before], items[before:end], *items[end:])]


@native
def format_(vm, obj, conversion, spec):
    return format({None: lambda value: value, "s": str, "r": repr, "a": ascii}[conversion](obj), spec or "")


@native
def lookup_special(vm, obj, name):
    found = getattr(type(obj), name, None)
    return None if found is None else found.__get__(obj, type(obj))


def special_or_null(vm, obj, name):
    return unbox(lookup_special(vm, obj, name))


@native
def import_name(vm, namespace, builtin_names, name, fromlist, level):
    return __import__(name, namespace.real, None, fromlist, level)


@native
def import_from(vm, module, name):
    if not hasattr(module, name):
        raise ImportError(f"cannot import name {name!r} from {module.__name__!r} ({getattr(module, '__file__', 'unknown location')})")
    return getattr(module, name)


def send(vm, receiver, value):
    if isinstance(receiver, DirectGenerator):
        result, finished = receiver.step(unbox(value), None)
        return box(result), finished
    try:
        return (_next(vm, receiver) if value is NONE else _send(vm, receiver, value)), False
    except Raise as signal:
        return _returned(signal), True


def throw(vm, receiver, exc):
    if isinstance(receiver, DirectGenerator):
        result, finished = receiver.step(None, exc)
        return box(result), finished
    try:
        return _throw(vm, receiver, exc), False
    except Raise as signal:
        return _returned(signal), True


def _returned(signal):
    if not isinstance(signal.exc, StopIteration):
        raise signal
    return box(signal.exc.value)


@native
def _send(vm, receiver, value):
    return receiver.send(value)


@native
def _throw(vm, receiver, exc):
    if not hasattr(receiver, "throw"):
        raise exc
    return receiver.throw(exc)


def dict_merge(vm, target, mapping, function):
    for key in mapping:
        if key in target:
            vm.raise_(TypeError, f"{function.__module__}.{function.__qualname__}() got multiple values for keyword argument '{key}'")
        target[key] = mapping[key]


def match_class(vm, subject, cls, count, names):
    """Return the values that a class pattern extracts, or None if the subject doesn't match. `__match_args__` must have enough names."""
    if not isinstance(subject, cls):
        return None
    names = (*getattr(cls, "__match_args__", ())[:count], *names)
    if not all(hasattr(subject, name) for name in names):
        return None
    return (*([subject] if count and not hasattr(cls, "__match_args__") else []), *(getattr(subject, name) for name in names))


def exception_match(vm, exc, cls):
    return isinstance(exc, cls)


def normalized(vm, exc, cause):
    exc = exc() if isinstance(exc, type) and issubclass(exc, BaseException) else exc
    if not isinstance(exc, BaseException):
        vm.raise_(TypeError, "exceptions must derive from BaseException")
    if cause is not None:
        cause = unbox(cause)
        exc.__cause__ = cause() if isinstance(cause, type) else cause
    return exc


abstract = types.SimpleNamespace(
    depends_on_data=lambda vm, obj: False,
    binary_op=native(lambda vm, symbol, a, b: OPERATORS[symbol](a, b)),
    unary_op=native(lambda vm, symbol, a: {"-": operator.neg, "+": operator.pos, "~": operator.invert}[symbol](a)),
    not_=native(lambda vm, a: not a),
    compare=native(lambda vm, symbol, a, b: COMPARISONS[symbol](a, b)),
    is_=lambda vm, a, b: a is b,
    contains=native(lambda vm, container, item: item in container),
    truth=native(lambda vm, obj: bool(obj)),
    length=native(lambda vm, obj: len(obj)),
    getattr_=getattr_,
    lookup_attr=lambda vm, obj, name: getattr(unbox(obj), name, None),
    load_attr=getattr_,
    store_attr=native(lambda vm, obj, name, value: setattr(obj, name, value)),
    delattr_=native(lambda vm, obj, name: delattr(obj, name)),
    load_method=load_method,
    getitem=native(lambda vm, obj, key: obj[key]),
    load_item=native(lambda vm, obj, key: obj[key]),
    setitem=native(lambda vm, obj, key, value: operator.setitem(obj, key, value)),
    store_item=native(lambda vm, obj, key, value: operator.setitem(obj, key, value)),
    delitem=native(lambda vm, obj, key: operator.delitem(obj, key)),
    iter_=native(lambda vm, obj: iter(obj)),
    next_=next_,
    call=call,
    call_ex=lambda vm, function, args, kwargs, delivery: call(vm, function, list(args), dict(kwargs or {})),
    unpack=unpack,
    unpack_ex=unpack_ex,
    format_=format_,
    super_attr=lambda vm, global_super, arguments, name, implied: native(super_attr)(vm, name, global_super, *arguments),
    import_name=import_name,
    import_from=import_from,
    imported=lambda vm, name, found: found,
    exception_match=exception_match,
    type_name=lambda vm, obj: type(unbox(obj)).__name__,
    full_type_name=lambda vm, obj: f"{type(obj).__module__}.{type(obj).__qualname__}".removeprefix("builtins."),
    send=send,
    throw=throw,
)
matching = types.SimpleNamespace(
    is_sequence=lambda vm, obj: isinstance(obj, (list, tuple, range)),
    is_mapping=lambda vm, obj: isinstance(obj, dict),
    match_keys=native(lambda vm, obj, keys: tuple(obj[key] for key in keys) if all(key in obj for key in keys) else None),
    match_class=native(match_class),
)
build = types.SimpleNamespace(
    const=lambda vm, value: box(value),
    tuple_=native(lambda vm, items: tuple(unbox(item) for item in items)),
    list_=native(lambda vm, items: [unbox(item) for item in items]),
    dict_=native(lambda vm, pairs: {unbox(key): unbox(value) for key, value in pairs}),
    set_=native(lambda vm, items: {unbox(item) for item in items}),
    slice_=native(lambda vm, start, stop, step: slice(start, stop, step)),
    string_=native(lambda vm, parts: "".join(parts)),
    function=make_function,
    set_annotate=set_annotate,
    cell=lambda vm, content: Cell(types.CellType() if content is None else types.CellType(unbox(content))),
    generator=lambda vm, frame: DirectGenerator(vm, frame),
    list_append=native(lambda vm, target, item: target.append(item)),
    list_extend=native(lambda vm, target, iterable: target.extend(iterable)),
    list_to_tuple=native(lambda vm, items: tuple(items)),
    set_add=native(lambda vm, target, item: target.add(item)),
    set_update=native(lambda vm, target, iterable: target.update(iterable)),
    map_add=native(lambda vm, target, key, value: operator.setitem(target, key, value)),
    dict_update=native(lambda vm, target, mapping: target.update(mapping)),
    dict_merge=native(dict_merge),
)


def super_attr(vm, name, global_super, *arguments):
    return getattr(global_super(*arguments), name)


def install(monkeypatch):
    """Replace framejit.objects by this space in every handler module."""
    for module in (*loop.HANDLER_MODULES, loop):
        others = {"build": build, "matching": matching, "lookup_special": special_or_null, "exceptions": types.SimpleNamespace(normalized=normalized)}
        others["delegate"] = lambda vm, iterable, of_coroutines: abstract.iter_(vm, iterable)
        spaces = others | dict.fromkeys(("abstract", "operators", "text", "calls", "imports"), abstract)
        for name, space in spaces.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, space)


def traceback_entries(error, skip):
    """Return (function, line) for each entry of a real traceback, innermost first, without the frames of the file `skip`."""
    entries = []
    tb = error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename != skip:
            entries.append((tb.tb_frame.f_code.co_name, tb.tb_lineno))
        tb = tb.tb_next
    return entries[::-1]
