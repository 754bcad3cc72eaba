"""Context managers: exits that swallow, raise or answer oddly, stacks of them, generators as managers, decorators, what `with` refuses."""

from __future__ import annotations

from differential.family import Family

PRELUDE = '''
class Exit:
    def __init__(self, answer=False, raises=None):
        self.answer, self.raises = answer, raises

    def __enter__(self):
        LOG.append("enter")
        return self

    def __exit__(self, kind, error, traceback):
        LOG.append(("exit", repr(error), repr(sys.exception()), traceback is None))
        if self.raises is not None:
            raise self.raises
        return self.answer


class Truth:
    def __init__(self, k):
        self.k = k

    def __bool__(self):
        print("truth")
        return opaque(self.k) > 1


class Wrong(Exit):
    def __exit__(self):
        return True


class Entering(Exit):
    def __enter__(self):
        raise LookupError("entering")


class Doubling:
    def __init__(self, t):
        self.t = t

    def __enter__(self):
        self.t.mul_(2)
        return self.t

    def __exit__(self, *error):
        self.t.mul_(0.5)
        return len(error) == 3 and error[0] is ValueError


class Decorating(contextlib.ContextDecorator):
    def __enter__(self):
        print("decorating")

    def __exit__(self, *error):
        LOG.append(("decorated", error[0] is None))
        return error[0] is KeyError


class Instance:
    pass


instance = Instance()
instance.__enter__ = lambda: 1
instance.__exit__ = lambda *error: True


class Property:
    @property
    def __enter__(self):
        LOG.append("property")
        return lambda: 5

    @property
    def __exit__(self):
        return lambda *error: opaque(2)


@contextlib.contextmanager
def twice(k):
    yield k
    if k % 2:
        yield k


@contextlib.contextmanager
def never(k):
    if k > 1:
        yield k


@contextlib.contextmanager
def replacing(k):
    try:
        yield k
    except ValueError as error:
        raise KeyError("replaced") from error
    except LookupError:
        LOG.append(repr(sys.exception()))
    else:
        print("replacing")


@contextlib.contextmanager
def nested(t, k):
    with Exit(), replacing(k) as got, torch.no_grad():
        yield t * opaque(got)


@contextlib.contextmanager
def finishing(t):
    t.add_(1)
    try:
        yield t
    finally:
        t.sub_(1)
        LOG.append(repr(sys.exception()))


@Decorating()
def with_decoration(t, k):
    if k == 2:
        raise KeyError(k)
    return t * k


stack = contextlib.ExitStack()
'''

FAMILY = Family(
    prelude=PRELUDE,
    variables={"c": "c = Exit(True)"},
    expressions={
        "m": (
            "c", "Exit()", "Exit(True)", "Exit({i})", "Exit(Truth({i}))", "Exit(raises=KeyError('exit'))", "Exit(raises=sys.exception())",
            "Wrong()", "Entering()", "Doubling({t})", "Doubling(x)", "Decorating()", "instance", "Property()", "twice({i})", "never({i})",
            "replacing({i})", "nested({t}, {i})", "finishing(x)", "finishing({t})", "contextlib.suppress(ValueError)",
            "contextlib.suppress()", "contextlib.nullcontext({t})", "n", "None", "Exit", "contextlib.ExitStack()", "managed({i})",
            "Manager({i}, hides=Exception)", "o", "stack", "contextlib.closing(iter(xs))", "torch.inference_mode({False;n > 1})",
            "torch.no_grad()", "torch.enable_grad()", "torch.set_grad_enabled({c})", "contextlib.redirect_stdout(sys.stdout)",
        ),
        "i": ("1", "len(LOG)", "(c.answer if isinstance(c, Exit) else {i})"),
        "t": (
            "x", "with_decoration({t}, 1)", "with_decoration({t}, {i}) if n != 2 else x",
            "Doubling(x.clone()).__enter__()", "nested({t}, {i}).__enter__()",
        ),
        "c": ("n > m", "torch.is_grad_enabled()", "Truth({i})", "(x * 2).requires_grad", "stack.pop_all() is stack"),
    },
    breaking={
        "m": ("Exit(opaque({i}) > 1)", "managed({bi})", "nested({bt}, 2)", "Exit({bc})", "Manager({bi}, False, (ValueError, TypeError))"),
    },
    statements=(
        "c = {m}", "LOG.append(tried(lambda: shown(c.__enter__())[0]))", "LOG.append(tried(lambda: {m}.__exit__(None, None, None)))",
        "LOG.append(tried(with_decoration, x, {i}) is None)", "stack.callback(LOG.append, {i})",
        "LOG.append(tried(lambda: shown(stack.enter_context({m}))[0]))", "LOG.append(tried(stack.push, {m}) is None)", "stack.close()",
        "LOG.append(tried(lambda: next({never;twice}({i}).gen)))", "c.answer = {i}", "stack.push(lambda *error: LOG.append(error[0]))",
        "torch.set_grad_enabled({n > 1;True;False})",
    ),
    breaking_statements=(
        "c = {bm}", "LOG.append((opaque(1), torch.is_grad_enabled()))", "stack.callback(print, {i})", "stack.callback(opaque, {i})",
        "x = with_decoration({bt}, {i})", "print(tried(stack.close))", "raise_late = {m}",
    ),
    blocks=(
        "with {m} as got:\n    LOG.append(type(got).__name__)\n    BLOCK", "with {m} as got, {m}:\n    BLOCK\n    raise {e}",
        "with {m}:\n    BLOCK\n    raise {ValueError(n);KeyError(n);{e}}", "with ({m}, {m} as got):\n    BLOCK",
        "with {m}:\n    with {m}:\n        BLOCK\n        {raise ValueError('in');n = 1 / 0;refuse(1);x[7];d['none']}\n    BLOCK",
        "for i in range({2;3}):\n    with {m}:\n        BLOCK\n        {break;continue;n += 1;raise ValueError(i);refuse(i)}",
        "try:\n    with {m}:\n        BLOCK\n        {raise ValueError('in');n = 1 / 0;refuse(1);n += 1}\n"
            "except Exception as error:\n    LOG.append((repr(error), repr(error.__context__), repr(error.__cause__)))\n    BLOCK\n"
            "{finally;else}:\n    BLOCK",
        "with contextlib.ExitStack() as NEW:\n    LOG.append(tried(lambda: type(NEW.enter_context({m})).__name__))\n"
            "    NEW.callback({LOG.append, n;print, 'called';opaque, 1;refuse, 1})\n"
            "    NEW.push({Exit(True);c;lambda *e: n > 1;contextlib.suppress(KeyError)})\n    BLOCK\n"
            "    {raise KeyError(n);n += 1;NEW.close();c = NEW.pop_all()}",
        "@contextlib.contextmanager\ndef NEW(k):\n    nonlocal n, x\n    try:\n        BLOCK\n        yield k\n        BLOCK\n"
            "    {finally;except ValueError;except Exception}:\n        BLOCK\nwith NEW({i}) as got:\n    BLOCK\n"
            "    {raise ValueError(n);raise KeyError(n);n += 1}",
        "class NEW(Exit):\n    def __{enter;exit}__(self, *error):\n        nonlocal n, x\n        BLOCK\n"
            "        return {self;True;n;super().__exit__(*error);len(error) > 0}\nwith NEW({c}):\n    BLOCK\n"
            "    {raise ValueError(n);n += 1;refuse(n)}",
        "def NEW(k):\n    nonlocal n, x\n    with {m}:\n        BLOCK\n        return k\n    return {t}\n"
            "LOG.append(type(tried(NEW, {i})).__name__)",
        "@{Decorating();Exit;twice({i});replacing({i});contextlib.suppress(KeyError);torch.no_grad()}\ndef NEW(k=1):\n"
            "    nonlocal n, x\n    BLOCK\n    return k\nLOG.append(shown(tried(lambda: NEW({i})))[0])",
    ),
    managers=("{m}", "{m}", "{bm}"),
    handlers=("(TypeError, AttributeError)", "RuntimeError", "LookupError"),
)  # fmt: skip
