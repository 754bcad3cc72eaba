"""Writes random Python programs: typed expressions and statements in nested blocks, with graph breaks at random places.

What they are made of is in `basics.py`, and by family in `families/`; a program has up to two families.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from differential.basics import BASICS, SEEN_OF_GROUPS
from differential.families import (
    classes,
    containers,
    exceptions,
    generators,
    gradients,
    items,
    keys,
    managers,
    mappings,
    operators,
    sizes,
    texts,
    typechecks,
    weakly,
)
from differential.family import Family
from hypothesis import strategies as st

FAMILIES = {
    module.__name__.rpartition(".")[2]: module.FAMILY
    for module in (
        classes, containers, exceptions, generators, gradients, items, keys, managers, mappings, operators, sizes, texts, typechecks, weakly
    )  # fmt: skip
}


@dataclass
class Writer:
    """One program being written: `number`, an integer between two, both included, decides; `lines` is the text so far."""

    number: Callable[[int, int], int]
    families: list[Family] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)
    """Templates of expressions that call the functions defined before."""
    closures: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    """Names of the classes defined before, which take a tensor and a number."""
    left: int = 0
    """Statements that may still be written."""
    flat: bool = False
    """Most statements are simple ones of the families, one after another: what one of them changes, the next ones read."""

    def pick(self, choices: Any) -> Any:
        return choices[self.number(0, len(choices) - 1)]

    def chance(self, times: int, of: int) -> bool:
        return self.number(0, of - 1) >= of - times

    def templates(self, table: Callable[[Family], Any]) -> tuple[str, ...]:
        """The templates of one table: half of the time, or more, those of a family, where one has some."""
        special = tuple(template for family in self.families for template in table(family))
        return special if special and (self.chance(3 if self.flat else 2, 4) or not table(BASICS)) else table(BASICS)

    def expression(self, kind: str, depth: int = 0) -> str:
        """An expression of a kind: i (a number), t (a tensor of three), c (a condition) ...; a letter b in front makes it one with a break."""
        if kind == "t" and self.helpers and self.chance(1, 4 if depth == 0 else 8):
            template = self.pick(self.helpers)
        else:
            of, breaking = kind[-1], kind[0] == "b" or (depth == 0 and self.chance(1, 8))
            table = self.templates(lambda family: family.breaking.get(of, ())) if breaking else ()
            template = self.pick(table or self.templates(lambda family: family.expressions.get(of, ())))
        return self.fill(template, depth + 1)

    def simplest(self, kind: str) -> str:
        return next(family.expressions[kind[-1]][0] for family in (BASICS, *self.families) if kind[-1] in family.expressions)

    def fill(self, template: str, depth: int = 0) -> str:
        """The template with its choices made and an expression in each of its places."""
        template = unescaped(template)
        while choice := re.search(r"\{((?:[^{}]|\{\w+\})*;(?:[^{}]|\{\w+\})*)\}", template):
            template = template[: choice.start()] + self.pick(choice[1].split(";")) + template[choice.end() :]

        def filled(match: re.Match[str]) -> str:
            text = self.simplest(match[1]) if depth > 2 else self.expression(match[1], depth)
            tight = re.match(r"[.\[]| [*%]", template[match.end() :]) or template[: match.start()].endswith("* ")
            return f"({text})" if tight and re.search(r"^-| (?![^(]*\)$)", text) else text

        return re.sub(r"\{(b?[a-z])\}", filled, template).translate({0: "{", 1: "}"})

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def block(self, indent: int, loop: bool, depth: int, most: int = 3, inside: str = "function") -> None:
        """One or more statements; a block of one statement at least."""
        for _ in range(self.number(1, most)):
            self.statement(indent, loop, depth, inside)

    def statement(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.left -= 1
        compound = depth < 3 and self.left > 0
        kinds = ["simple", "simple", "break", "break"]
        kinds += ["if", "for", "with", "try", "while", "def", "class", "match", "for", "with", "try", "group"] if compound else []
        kinds += ["leave"] if loop else []
        kinds += ["return", "raise"] if depth else []
        kinds += ["yield"] if inside == "generator" else []
        kinds += ["closure"] if self.closures else []
        special = ["special"] if compound and any(family.blocks for family in self.families) else []
        kinds += special * 3
        kinds += ["instance"] * 2 if self.kinds else []
        if self.flat:
            kinds = ["simple"] * 6 + ["break"] + special * 2
        getattr(self, f"write_{self.pick(kinds)}")(indent, loop, depth, inside)

    def write_simple(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, self.fill(self.pick(self.templates(lambda family: family.statements))))

    def write_break(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, self.fill(self.pick(self.templates(lambda family: family.breaking_statements))))

    def write_leave(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, f"if {self.expression('c')}:")
        self.put(indent + 1, self.pick(("break", "continue")))

    def write_return(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, "return" if inside == "generator" else f"return {self.expression('t')}")

    def write_raise(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, f"raise {self.expression('e', 1)}" + self.pick(("", "", "", " from None", " from TypeError(n)")))

    def write_yield(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, f"yield {self.expression('t')}")

    def write_closure(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, f"{self.pick(('x', 'y'))} = {self.pick(self.closures)}({self.expression('t')})")

    def write_if(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, f"if {self.expression('c')}:")
        self.block(indent + 1, loop, depth + 1, inside=inside)
        if self.chance(1, 2):
            self.put(indent, "else:")
            self.block(indent + 1, loop, depth + 1, inside=inside)

    def write_for(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        head = self.fill(self.pick(self.templates(lambda family: family.loops)))
        self.put(indent, head)
        if re.search(r"\bv\b", head.split(" in ")[0]) and self.chance(1, 2):
            self.put(indent + 1, "y = y + v")
        self.block(indent + 1, True, depth + 1, inside=inside)
        if self.chance(1, 4):
            self.put(indent, "else:")
            self.block(indent + 1, loop, depth + 1, 1, inside=inside)

    def write_while(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        counter = f"w{len(self.lines)}"
        self.put(indent, f"{counter} = 0")
        self.put(indent, f"while {counter} < 3 and ({self.expression('c')}):")
        self.put(indent + 1, f"{counter} += 1")
        self.block(indent + 1, True, depth + 1, inside=inside)
        if self.chance(1, 4):
            self.put(indent, "else:")
            self.block(indent + 1, loop, depth + 1, 1, inside=inside)

    def write_with(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        manager = self.fill(self.pick(self.templates(lambda family: family.managers)))
        if self.chance(1, 5):
            manager += f", {self.fill(self.pick(self.templates(lambda family: family.managers)))}"
        elif "torch" not in manager and self.chance(1, 3):
            manager += " as got"
        self.put(indent, f"with {manager}:")
        self.block(indent + 1, loop, depth + 1, inside=inside)

    def write_try(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, "try:")
        self.block(indent + 1, loop, depth + 1, inside=inside)
        handlers = self.number(0, 2)
        for handler in [self.pick(self.templates(lambda family: family.handlers)) for _ in range(handlers)]:
            named = self.chance(1, 2)
            self.put(indent, f"except {handler}{' as error' if named else ''}:")
            if named:
                self.put(indent + 1, self.fill(self.pick(self.templates(lambda family: family.seen))))
            self.block(indent + 1, loop, depth + 1, 2, inside=inside)
            if self.chance(1, 4):
                self.put(indent + 1, "raise")
        if handlers and self.chance(1, 4):
            self.put(indent, "else:")
            self.block(indent + 1, loop, depth + 1, 1, inside=inside)
        if not handlers or self.chance(1, 3):
            self.put(indent, "finally:")
            self.block(indent + 1, False, depth + 1, 2, inside=inside)

    def write_group(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, "try:")
        if self.chance(2, 3):
            self.put(indent + 1, self.fill("raise ExceptionGroup('g', [ValueError({i}), ExceptionGroup('h', [KeyError(n), ValueError(m)])])"))
        else:
            self.block(indent + 1, loop, depth + 1, inside=inside)
        for handler in ("ValueError", "LookupError", "Exception")[self.number(0, 1) : self.number(2, 3)]:
            self.put(indent, f"except* {handler} as error:")
            self.put(indent + 1, self.pick(SEEN_OF_GROUPS))

    def write_class(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        name = f"Local{len(self.lines)}"
        self.put(indent, f"class {name}(Thing):")
        self.put(indent + 1, f"made = {self.expression('i')}")
        self.put(indent + 1, "def step(self, t, k=1):")
        self.put(indent + 2, self.pick(("print('local', k)", "k += opaque(k)", "LOG.append(k)")))
        self.put(indent + 2, f"return super().step(t, {self.pick(('k', 'n', 'self.made'))})")
        self.put(indent, f"x = {name}({self.expression('t')}, {self.expression('i')}).step(x)")

    def write_match(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, f"match {self.pick(('n', '(n, m)', 'opaque(n)', 'o', 'd', 'Pair(x, n)'))}:")
        for pattern in ("1 | 2", "(1, m)", "Loud(n=n)", "{'b': y}", "Pair(y, n) if n > opaque(n)"):
            if self.chance(1, 2):
                self.put(indent + 1, f"case {pattern}:")
                self.block(indent + 2, loop, depth + 1, 1, inside=inside)
        self.put(indent + 1, "case _:")
        self.block(indent + 2, loop, depth + 1, 1, inside=inside)

    def write_def(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        name = f"inner{len(self.lines)}"
        self.put(indent, f"def {name}(z, k={self.expression('i', 2)}):")
        self.put(indent + 1, "nonlocal n, x")
        outer, self.closures = self.closures, []
        self.put(indent + 1, self.pick(("n = n + 1", "x = x + z", "print('inner', n)", "LOG.append(n)")))
        self.block(indent + 1, False, 3, 2)
        self.put(indent + 1, self.pick(("return z * n", "return z + x", "return z + k")))
        self.closures = outer
        self.put(indent, f"{self.pick(('x', 'y'))} = {name}({self.expression('t')})")
        if depth == 0:
            self.closures.append(name)

    def write_special(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        """A compound statement of a family."""
        blocks = [block for family in self.families for block in family.blocks]
        text = self.pick(blocks).replace("NEW", f"new{len(self.lines)}")
        for line in self.fill(text).splitlines():
            inner = indent + (len(line) - len(line.lstrip())) // 4
            if line.strip() != "BLOCK":
                self.put(inner, line.strip())
                continue
            outer, self.closures = self.closures, [] if "def " in text else self.closures
            self.block(inner, False, depth + 1, 2, "function" if "def " in text else inside)
            self.closures = outer

    def write_instance(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        """A new `o`, of one of the program's classes."""
        self.put(indent, f"o = {self.pick(self.kinds)}({self.expression('t')}, {self.expression('i')})")

    def kind(self, name: str) -> None:
        """A class with methods that have random bodies."""
        bases = [base for family in self.families for base in family.bases]
        methods = [method for family in self.families for method in family.methods]
        members = [member for family in self.families for member in family.members]
        lines, self.lines = self.lines, []
        for _ in range(self.number(1, 3)):
            if self.chance(1, 2):
                self.lines += self.fill(self.pick(members)).splitlines()
                continue
            decorator, signature, opening = self.pick(methods)
            name_of_method, parameters = signature.rstrip(")").split("(", 1)
            if decorator:
                self.put(0, decorator)
            self.function(name_of_method, parameters, 2, "yield" in opening, opening)
        body = [f"    {line}" if line.strip() else line for line in "\n".join(self.lines).splitlines()]
        self.lines = [*lines, "", "", f"class {name}({self.fill(self.pick(bases))}):", *body]
        self.kinds.append(name)

    def function(self, name: str, parameters: str, size: int, generator: bool = False, opening: str = "") -> None:
        """A function with a body; starts with what the body uses and the parameters do not bring."""
        if opening:
            self.put(0, f"def {name}({parameters}):")
        else:
            self.lines += ["", "", f"def {name}({parameters}):"]
        start = len(self.lines)
        for line in opening.splitlines():
            self.put(1, line)
        self.closures = []
        self.left = size
        for _ in range(self.number(1, size)):
            self.statement(1, False, 0, "generator" if generator else "function")
            if self.left <= 0:
                break
        self.put(1, "yield x" if generator else self.pick(("return x", "return x + y", "return x * n", "return x + m")))
        body = "\n".join(self.lines[start:])
        given = [*re.findall(r"\w+", re.sub(r"=\s*[^,]+", "", parameters)), *re.findall(r"^(\w+) = ", opening, re.MULTILINE)]
        variables = {local: text for family in (*self.families, BASICS) for local, text in family.variables.items()}
        used = [text for local, text in variables.items() if local not in given and re.search(rf"\b{local}\b", body)]
        if "nonlocal n" in body and "n" not in given and variables["n"] not in used:
            used.append(variables["n"])
        head = [f"    {text}" for text in used]
        if re.search(r"\bCOUNT = ", body):
            head.insert(0, "    global COUNT")
        for at in range(start, len(self.lines)):
            if self.lines[at].endswith("nonlocal n, x"):
                scope = _scope(self.lines, at)
                taken = {"n", *re.findall(r"(?:\(|, )\*{0,2}(\w+)", self.lines[at - 1])}  # its parameters
                extra = "".join(f", {local}" for local in variables if local not in taken and any(_binds(line, local) for line in scope))
                self.lines[at] += extra
                if any("COUNT = " in line for line in scope):
                    self.lines[at] = self.lines[at] + "\n" + self.lines[at].split("nonlocal")[0] + "global COUNT"
        at = start + len(opening.splitlines())
        self.lines[at:at] = head


def unescaped(template: str) -> str:
    """The template with \\0 and \\1 for the doubled braces: `}}}` closes first what was opened last."""
    text, opened, at = "", [], 0
    while at < len(template):
        double = template[at : at + 2]
        if double == "{{" or (double == "}}" and opened and opened[-1] == "{{"):
            text += "\0" if double == "{{" else "\1"
            opened = [*opened, double] if double == "{{" else opened[:-1]
            at += 2
            continue
        opened = [*opened, "{"] if double[0] == "{" else opened[:-1] if double[0] == "}" else opened
        text += double[0]
        at += 1
    return text


def _scope(lines: list[str], at: int) -> list[str]:
    """The lines of the inner function whose `nonlocal` stands at `at`."""
    indent = len(lines[at]) - len(lines[at].lstrip())
    scope = []
    for line in lines[at + 1 :]:
        if len(line) - len(line.lstrip()) < indent:
            break
        scope.append(line)
    return scope


def _binds(line: str, name: str) -> bool:
    """Return whether the line assigns to the name as a variable of the function."""
    text = line.strip()
    return bool(
        re.match(rf"(\w+, )*{name}(, \*?\w+)* (=|\+=|\*=|-=) |{name} = |(\w+ = )+{name} = ", text)
        or re.search(rf"\({name} := ", text)
        or re.match(rf"for (\w+, )*{name}\b", text)
    )


SIGNATURES = (
    ("x", "{f}({t})"),
    ("x, n=1", "{f}({t}, {i})"),
    ("x, n=1, *, y=None", "{f}({t}, n={i}, y={t})"),
    ("x, *rest, n=2", "{f}({t}, {i}, x, n={i})"),
    ("x, n, **more", "{f}(n={i}, x={t}, other=y)"),
    ("x, y, n, xs", "{f}(*[x, {t}], **{{'n': {i}, 'xs': xs}})"),
    ("o, x, d", "{f}(o, {t}, d)"),
)


def program(number: Callable[[int, int], int], size: int = 5) -> str:
    """The source text of a module whose function `main(x, y, n, xs, d, o)` is to be compiled."""
    names = sorted({number(0, len(FAMILIES) - 1) for _ in range(number(0, 2))})
    families = [list(FAMILIES.values())[name] for name in names]
    writer = Writer(number, families)
    for kind in range(number(1, 2) if any(family.methods for family in families) else 0):
        writer.kind(f"Kind{kind}")
    for helper in range(number(0, 3)):
        parameters, template = writer.pick(SIGNATURES)
        generator = writer.chance(1, 7)
        name = f"{'generate' if generator else 'helper'}{helper}"
        writer.function(name, parameters, max(2, size - 2), generator)
        call = template.replace("{f}", name)
        writer.helpers.append(f"sum({call}, y)" if generator else call)
    writer.flat = bool(families) and writer.chance(1, 2)
    writer.function("main", "x, y, n, xs, d, o", 2 * size if writer.flat else size)
    prelude = "\n\n".join(family.prelude for family in (BASICS, *families))
    return prelude + "\n".join(writer.lines).replace("y=None):", "y=SCALE):") + "\n"


@st.composite
def programs(draw: Callable[[Any], Any], size: int = 5) -> str:
    """Programs that shrink to small ones."""
    return program(lambda low, high: draw(st.integers(low, high)), size)
