"""Programs that the interpreter's tests run both on CPython and on the interpreter; each is a function without parameters."""

# ruff: noqa: F401, F821, PLE1132

import functools

PROGRAMS = []
GLOBAL = 1


def program(function):
    PROGRAMS.append(function)
    return function


@program
def loops():
    total = 0
    for i in range(10):
        if i == 3:
            continue
        if i == 8:
            break
        total += i
    else:
        total = -1
    while total > 5:
        total -= 4
    else:
        total *= 10
    return total, i


@program
def operators():
    a, b = 17, 5
    out = [a + b, a - b, a * b, a / b, a // b, a % b, a**b, a << b, a >> b, a & b, a | b, a ^ b, -a, +a, ~a, not a]
    for symbol in range(3):
        a += b
        a -= 1
        a *= 2
        a //= 3
        a %= 100
        a |= 1
        a ^= 6
        a <<= 1
        a >>= 1
        a &= 255
        a **= 1
    out += [a, a < b, a <= b, a == b, a != b, a > b, a >= b, a is b, a is not b, a in out, a not in out, 1 < 2 < 3, 3 < 2 < 1]
    return out, (a and b, a or b, 0 and b, 0 or b, None or [], b if a else a)


@program
def short_circuits():
    seen = []

    def note(x):
        seen.append(x)
        return x

    return (note(0) or note(1) and note(2)), (note(3) and note(0) or note(4)), not note(5), seen


@program
def none_tests():
    values = [None, 0, None, 5]
    return [(v is None, v is not None, "n" if v is None else "v") for v in values], [v for v in values if v is not None]


@program
def none_loops():
    node = [1, [2, [3, None]]]
    seen = []
    while node is not None:
        seen.append(node[0])
        node = node[1]
    while node is None:
        node = 1
    return seen, node


@program
def comprehensions():
    squares = [x * x for x in range(5)]
    pairs = {(x, y) for x in range(3) for y in range(3) if x != y}
    table = {x: [y for y in range(x)] for x in range(4)}
    x = 7
    nested = [[x for x in range(n)] for n in range(3)]
    total = sum(x for x in squares if x % 2)
    return squares, pairs, table, x, nested, total


@program
def comprehension_closures():
    x = "outer"
    functions = [lambda: x for x in range(3)]
    more = [(lambda y: lambda: (x, y))(i) for i in range(2)]
    return x, [f() for f in functions], [f() for f in more]


@program
def comprehension_that_raises():
    x = 1
    try:
        [1 // (x - 2) for x in range(5)]
    except ZeroDivisionError:
        return x


@program
def closures():
    count = 0

    def bump(by=1):
        nonlocal count
        count += by
        return count

    def adder(n):
        def add(x):
            return x + n + count

        return add

    return bump(), bump(5), adder(10)(1), count


@program
def cell_parameters():
    def f(a, *args, b=2, **kw):
        return (lambda: (a, args, b, kw))()

    return f(1), f(1, 2, 3, b=4, c=5)


@program
def unbound_cells():
    def f():
        return late

    try:
        f()
    except NameError as error:
        first = str(error)
    late = 3
    second = f()
    del late
    try:
        late
    except UnboundLocalError as error:
        return first, second, str(error)


@program
def unbound_locals():
    try:
        x
    except UnboundLocalError as error:
        text = str(error)
    x = 1
    del x
    try:
        del x
    except UnboundLocalError as error:
        return text, str(error)


@program
def unbound_after_loop():
    for i in []:
        pass
    return i


@program
def globals_and_builtins():
    global GLOBAL, temporary
    GLOBAL += 1
    temporary = len([GLOBAL])
    got = temporary
    del temporary
    GLOBAL = 1
    try:
        return got, undefined_name
    except NameError as error:
        return got, str(error)


@program
def delete_missing_global():
    global never_there
    del never_there


@program
def calls():
    def f(a, b=2, /, c=3, *args, d, e=5, **kw):
        return a, b, c, args, d, e, kw

    args, kw = (1, 2, 3, 4), {"d": 10, "z": 11}
    return [
        f(1, d=4),
        f(1, 2, 3, 4, 5, d=6, e=7, g=8),
        f(*args, **kw),
        f(0, *args[:2], *[9], d=1, **{"q": 2}),
        max(*args, key=lambda x: -x),
        "{} {a}".format(1, a=2),
        dict(a=1, **kw),
    ]


@program
def repeated_keyword():
    def f(**kw):
        return kw

    return f(**{"a": 1}, **{"a": 2})


@program
def methods():
    class Point:
        """A point."""

        scale: int = 2
        names = [n.upper() for n in "xy"]

        def __init__(self, x, y):
            self.x = x
            self.y = y

        def __add__(self, other):
            return Point(self.x + other.x, self.y + other.y)

        @property
        def norm(self):
            return self.scale * (self.x**2 + self.y**2)

        @classmethod
        def origin(cls):
            return cls(0, 0)

        @staticmethod
        def double(x):
            return x * 2

        def __repr__(self):
            return f"Point({self.x}, {self.y})"

    class Named(Point):
        def __init__(self, name, *args, **kw):
            super().__init__(*args, **kw)
            self.name = name

        def __repr__(self):
            return f"{self.name}:{super().__repr__()}:{super(Named, self).norm}:{__class__.__name__}"

    p = Point(1, 2) + Point(3, y=4)
    p.x += 1
    p.z = 1
    del p.z
    q = Named("n", x=1, y=2)
    return repr(p), p.norm, repr(Point.origin()), p.double(4), repr(q), Point.__doc__, Point.names, Point.__annotations__, hasattr(p, "z")


@program
def class_bodies():
    outer = "outer"
    x = "enclosing"

    class A:
        y = x
        x = "class"
        z = x
        o = outer
        del y
        table = {k: v for k, v in zip("ab", range(2))}
        try:
            missing
        except NameError as error:
            text = str(error)
        w = len(x)

    class B(A, metaclass=type):
        def method(self):
            return outer

    return A.x, A.z, A.o, hasattr(A, "y"), A.table, A.text, A.w, B().method(), A.__qualname__


@program
def decorators():
    def twice(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs), function(*args, **kwargs)

        return wrapper

    @twice
    def f(x: int, *, y: "str" = 2) -> float:
        """Doc."""
        return x + y

    return f(1), f(1, y=3), f.__name__, f.__doc__, f.__wrapped__.__annotations__, f.__wrapped__.__kwdefaults__


@program
def recursion():
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return fib(12)


@program
def unpacking():
    a, b, *c = range(5)
    *d, e = "xyz"
    (f, (g, h)), i = (1, (2, 3)), 4
    [j, *k, m] = [1, 2]
    first = second = []
    first.append(1)
    x, y = 1, 2
    x, y = y, x
    x, y, z = y, x, 9
    (only,) = [3]
    () = []
    return a, b, c, d, e, f, g, h, i, j, k, m, second, x, y, z, only


@program
def unpack_too_many():
    a, b = range(3)


@program
def unpack_too_few():
    a, *b, c = [1]


@program
def displays():
    a, b = [1, 2], {"x": 1}
    big = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, len(a)]
    return [*a, 3, *a], (*a, *b), {*a, 9}, {**b, "y": 2, **{"z": 3}}, {"k": a, "l": b}, {1: a[0], 2: a[1]}, (1, 2, a), big, 1 in {1, 2}


@program
def slices():
    a = list(range(10))
    i, j, k = 2, 8, 2
    out = [a[i:j], a[:j], a[i:], a[:], a[i:j:k], a[::-1], a[-3:], a[i], "hello"[1:i]]
    a[1:3] = [7, 7, 7]
    a[i:j:k] = [0, 0, 0]
    a[0] += 5
    del a[-1], a[:1]
    a[i:j] += [1]
    return out, a


@program
def strings():
    x, width, name = 3.14159, 10, "né"
    return f"{x}", f"{x:.2f}", f"{x:{width}.{2}f}|", f"{name!r} {name!s:>5} {name!a} {x=}", f"a{'b' + f'{name}'}c", "%s %d" % (name, 3), ""


@program
def walrus():
    out = []
    while (n := len(out)) < 4:
        out.append(n)
    return out, [y := 1, y**2], n, any((witness := v) > 2 for v in out), witness


@program
def conditional_chains():
    def grade(x):
        if x > 90:
            return "A"
        elif x > 80:
            return "B"
        elif 70 < x <= 80:
            return "C"
        return "F"

    return [grade(x) for x in (95, 85, 75, 10)]


@program
def imports():
    import os.path
    import os.path as p
    from math import pi as three
    from os import path, sep

    return os.path is p, path is p, three, sep


@program
def import_missing():
    from math import no_such_name


@program
def lambdas_and_defaults():
    functions = [lambda x, i=i: x + i for i in range(3)]
    return [f(10) for f in functions], (lambda *a, **k: (a, k))(1, b=2), sorted([3, 1, 2], key=lambda v: -v)


@program
def augmented_targets():
    class Box:
        n = 1

    box, items = Box(), {"a": [1]}
    box.n += 4
    items["a"] += [2]
    items["a"][0] -= 10
    box.list = items["a"]
    box.list[1] *= 5
    return box.n, Box.n, items


@program
def nested_loops_with_else():
    primes = []
    for n in range(2, 30):
        for p in primes:
            if n % p == 0:
                break
        else:
            primes.append(n)
    return primes


@program
def matrix_of_jumps():
    out = []
    for a in (0, 1, None, ""):
        for b in (0, 2, None):
            if a and not b or (b is None and a is not None):
                out.append((a, b))
            elif a is None:
                if not (b or a):
                    continue
                out.append("none")
    return out


def compiled(name, source):
    """Return a function made from a source that is too long to be written out here."""
    namespace = {}
    exec(source, namespace)
    return namespace[name]


program(compiled("many_locals", "def many_locals():\n" + "".join(f"    v{i} = {i}\n" for i in range(300)) + "    return v0, v256, v299\n"))
program(
    compiled(
        "long_jumps",
        "def long_jumps():\n  t = 0\n  for i in range(3):\n" + "".join(f"    if i != {i}: t += {i}\n" for i in range(400)) + "  return t\n",
    )
)
