"""framejit.codegen: plans and replacement code of hand-made traces, run as ordinary functions."""

from __future__ import annotations

import operator
import time
from types import CellType, FunctionType

import pytest

from framejit.breaks import CannotReconstruct
from framejit.bytecode.instruction import NO_POSITION, Position
from framejit.codegen import CannotGenerate, FinishedTrace, emit, plan
from framejit.codegen.recorder import CodeRecorder, record
from framejit.effects import Effects
from framejit.errors import InternalError
from framejit.guards.source import Local, Pinned, Root, Slot
from framejit.objects.core.object import LazyObject, Object
from framejit.trail import Trail


class Node:
    """Stands for an fx.Node: codegen only carries it."""


class Const(Object):
    def __init__(self, value):
        super().__init__(type(value), None, value)

    def is_knowable(self):
        return True


class Output(Object):
    """A tensor made by the graph."""

    def __init__(self, node=None):
        super().__init__(object)
        self.node = node or Node()

    def reconstruct(self, cg):
        cg.load_node(self.node)


class Tuple(Object):
    def __init__(self, *items):
        super().__init__(tuple)
        self.items = items

    def reconstruct(self, cg):
        for item in self.items:
            cg.load(item)
        cg.build_tuple(len(self.items))


class List(Object):
    def __init__(self, *items, source=None):
        super().__init__(list, source)
        self.items = list(items)

    def needs_fill(self):
        return True

    def reconstruct(self, cg):
        cg.build_list(0)

    def fill(self, cg):
        cg.load(self)
        for item in self.items:
            cg.load(item)
        cg.build_list(len(self.items))
        cg.call_const(list.extend, 2)
        cg.pop_top()

    def replay(self, cg):
        cg.load(self)
        cg.call_const(list.clear, 1)
        cg.pop_top()
        self.fill(cg)


class Dict(Object):
    def __init__(self, **items):
        super().__init__(dict)
        self.items = items

    def reconstruct(self, cg):
        for key, item in self.items.items():
            cg.load_const(key)
            cg.load(item)
        cg.build_map(len(self.items))


class Set(Object):
    def __init__(self, *items):
        super().__init__(set)
        self.items = items

    def reconstruct(self, cg):
        for item in self.items:
            cg.load(item)
        cg.build_set(len(self.items))


class Plain:
    pass


class Instance(Object):
    """A user's object, whose attributes are set one by one."""

    def __init__(self, cls=Plain, source=None, **attributes):
        super().__init__(cls, source)
        self.attributes = attributes

    def needs_fill(self):
        return True

    def reconstruct(self, cg):
        cg.load_const(self.cls)
        cg.call_const(object.__new__, 1)

    def fill(self, cg):
        for name, value in self.attributes.items():
            cg.load(value)
            cg.load(self)
            cg.store_attr(name)

    replay = fill


class Cell(Object):
    def __init__(self, content):
        super().__init__(CellType)
        self.content = content

    def needs_fill(self):
        return True

    def reconstruct(self, cg):
        cg.call_const(CellType, 0)

    def fill(self, cg):
        cg.load(self.content)
        cg.load(self)
        cg.store_attr("cell_contents")


class Function(Object):
    def __init__(self, code, *cells):
        super().__init__(FunctionType)
        self.code = code
        self.cells = cells

    def reconstruct(self, cg):
        cg.load_const(self.code)
        cg.load_const({})
        cg.load_const("made")
        cg.load_const(None)
        for cell in self.cells:
            cg.load(cell)
        cg.build_tuple(len(self.cells))
        cg.call_const(FunctionType, 5)


class GlobalMode:
    """An effect that is no object's."""

    def __init__(self, log, text):
        self.log, self.text = log, text

    def replay(self, cg):
        cg.load_const(self.log)
        cg.load_const(self.text)
        cg.call_const(list.append, 2)
        cg.pop_top()

    def referents(self):
        return []


class Tracer:
    def __init__(self):
        self.trail = Trail()
        self.position = NO_POSITION

    @property
    def answers(self):
        return self

    def has_changed(self, obj):
        pass

    def root_position(self):
        return self.position


def traced(x, y=1, *rest, flag=False, **options):
    local = x
    return local


class Trace:
    """One trace in the making, and how to run its code: the two extra locals become parameters behind the real ones."""

    def __init__(self, template=traced):
        self.template = template.__code__
        self.root = Root()
        self.tracer = Tracer()
        self.effects = Effects(self.tracer)

    def source(self, index):
        return self.root.child(Local, Slot(index, f"a{index}"))

    def outside(self, index, cls=object):
        return LazyObject(cls(), self.source(index))

    def plan(self, result, **options):
        return plan(FinishedTrace(result, self.effects, self.template, **options))

    def run(self, result, graph=None, inputs=(), captures=None, boxed=True, **options):
        self.planned = self.plan(result, **options)
        self.code = emit(self.planned, graph, boxed).code
        captures = captures or {}
        fetched = tuple(captures[source.payload.index] for source in self.planned.captures)
        return as_function(self.code)(list(inputs), fetched)


def as_function(code):
    """A function of `.inputs` and `.captures` alone; the argument slots stay empty, as the runtime leaves them."""
    slots = code.co_varnames.index(".inputs")
    flat = code.replace(co_argcount=slots + 2, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~0x0C)
    function = FunctionType(flat, {})
    return lambda inputs, captures: function(*[None] * slots, inputs, captures)


@pytest.fixture
def trace():
    return Trace()


# Results.


def test_a_constant(trace):
    marker = object()
    assert trace.run(Const(marker)) is marker
    assert trace.planned.outputs == [] and trace.planned.captures == []


def test_the_code_looks_like_the_original_function(trace):
    trace.run(Const(1))
    code = trace.code
    assert (code.co_name, code.co_qualname, code.co_filename) == ("traced", "traced", __file__)
    assert code.co_varnames[:7] == ("x", "y", "flag", "rest", "options", ".inputs", ".captures")
    assert code.co_argcount == 2 and code.co_kwonlyargcount == 1 and code.co_flags & 0x0C == 0x0C
    assert code.co_firstlineno == traced.__code__.co_firstlineno


def test_an_argument_that_is_only_passed_through_is_the_same_object(trace):
    value = object()
    assert trace.run(trace.outside(0), captures={0: value}) is value
    assert trace.planned.captures == [trace.source(0)]


def test_a_pinned_value_needs_no_capture(trace):
    namespace = {}
    assert trace.run(Object(dict, trace.root.child(Pinned, namespace), namespace)) is namespace
    assert trace.planned.captures == []


@pytest.mark.parametrize("boxed", [True, False])
def test_the_graph_is_called_with_its_inputs(trace, boxed):
    a, b = Output(), Output()
    seen = []

    def graph(*args):
        seen.extend(*args if boxed else [args])
        if boxed:
            args[0].clear()
        return ["A", "B"]

    assert trace.run(Tuple(b, a, b), graph, inputs=[1, 2], boxed=boxed) == ("A", "B", "A")
    assert seen == [1, 2]
    assert trace.planned.outputs == [b.node, a.node]


def test_the_frame_lets_go_of_the_inputs_before_the_call(trace):
    alive = []

    class Input:
        def __del__(self):
            alive.append("freed")

    def graph(inputs):
        inputs.clear()
        alive.append("called")
        return ("out",)

    code = emit(trace.plan(Output()), graph).code
    assert as_function_releasing(code)(Input) == "out"
    assert alive == ["freed", "called"]


def as_function_releasing(code):
    """Runs the code in a frame whose caller holds no reference to the inputs."""
    function = as_function(code)

    def run(make):
        inputs = [make()]
        holder = [inputs]
        del inputs
        return function(holder.pop(), ())

    return run


def test_a_graph_that_nobody_needs_is_not_called(trace):
    assert trace.run(Const(3), None) == 3
    assert not trace.planned.needs_graph


def test_a_graph_with_effects_of_its_own_is_called(trace):
    calls = []
    assert trace.run(Const(3), lambda inputs: calls.append(inputs) or (), inputs=["x"], graph_needed=True) == 3
    assert calls == [["x"]]


def test_two_objects_of_one_node_are_one_output(trace):
    node = Node()
    result = trace.run(Tuple(Output(node), Output(node)), lambda inputs: (inputs,))
    assert result[0] is result[1]
    assert trace.planned.outputs == [node]


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 1000])
def test_many_outputs(trace, n):
    outputs = [Output() for _ in range(n)]
    assert trace.run(Tuple(*outputs), lambda inputs: list(range(n))) == tuple(range(n))


# Structures.


@pytest.mark.parametrize("n", [0, 1, 30, 31, 1000])
@pytest.mark.parametrize("make, real", [(Tuple, tuple), (List, list), (Set, set)])
def test_displays_of_any_size(trace, make, real, n):
    assert trace.run(make(*map(Const, range(n)))) == real(range(n))
    assert trace.code.co_stacksize < 100


@pytest.mark.parametrize("n", [0, 1, 30, 31, 1000])
def test_dict_displays_of_any_size(trace, n):
    result = trace.run(Dict(**{f"k{i}": Tuple(Const(i)) for i in range(n)}))
    assert result == {f"k{i}": (i,) for i in range(n)} and list(result) == [f"k{i}" for i in range(n)]


def test_a_display_may_contain_big_displays(trace):
    inner = [Tuple(*(Const((i, j)) for j in range(40))) for i in range(40)]
    assert trace.run(List(*inner)) == [tuple((i, j) for j in range(40)) for i in range(40)]


def test_a_value_loaded_twice_is_one_object(trace):
    shared = List(Const(1))
    plain = Tuple(shared, Output())
    result = trace.run(List(shared, Tuple(shared, plain), plain), lambda inputs: ("t",))
    assert result == [[1], ([1], ([1], "t")), ([1], "t")]
    assert result[0] is result[1][0] is result[2][0] and result[1][1] is result[2]


def test_values_that_are_equal_but_not_one_stay_two(trace):
    first, second = trace.run(Tuple(List(), List()))
    assert first is not second


def test_a_list_that_contains_itself(trace):
    items = List()
    items.items = [items, Const(1), items]
    result = trace.run(items)
    assert result[0] is result and result[2] is result and result[1] == 1 and len(result) == 3


def test_a_list_that_contains_itself_inside_another(trace):
    items = List()
    items.items = [items]
    (result,) = trace.run(Tuple(items))
    assert result[0] is result


@pytest.mark.parametrize("entry", ["tuple", "list", "inner"])
def test_a_cycle_through_tuples(trace, entry):
    items = List()
    outer = Tuple(items, Const(1))
    inner = Tuple(outer)
    items.items = [inner, outer]
    result = trace.run({"tuple": outer, "list": items, "inner": inner}[entry])
    top = {"tuple": lambda: result, "list": lambda: result[1], "inner": lambda: result[0]}[entry]()
    assert type(top) is tuple and top[1] == 1
    assert top[0][0][0] is top and top[0][1] is top


def test_cycles_of_instances_and_functions(trace):
    def template():
        def made():
            return cell

        cell = None
        return made

    parent, child = Instance(), Instance()
    cell = Cell(parent)
    function = Function(template().__code__, cell)
    parent.attributes = {"child": child, "method": function}
    child.attributes = {"parent": parent, "siblings": Tuple(child)}
    result = trace.run(parent)
    assert type(result) is Plain and result.child.parent is result
    assert result.child.siblings[0] is result.child
    assert result.method() is result


def test_a_chain_of_5000_instances(trace):
    first = Instance(number=Const(0))
    last = first
    for number in range(1, 5000):
        last = Instance(number=Const(number), next=last)
    result = trace.run(last)
    for number in range(4999, 0, -1):
        assert result.number == number
        result = result.next
    assert trace.code.co_nlocals < 100 and trace.code.co_stacksize < 200


def test_tuples_nested_5000_deep(trace):
    value = Tuple()
    for _ in range(5000):
        value = Tuple(value)
    result = trace.run(value)
    for _ in range(5000):
        (result,) = result
    assert result == ()


def test_5000_lists_in_a_list_need_few_locals(trace):
    result = trace.run(List(*(List(Const(i), List()) for i in range(5000))))
    assert result == [[i, []] for i in range(5000)]
    assert trace.code.co_nlocals < 20 and trace.code.co_stacksize < 50


class Attributes(Object):
    """The instance dict of an owner, which is built by filling it: the two need each other."""

    def __init__(self, **entries):
        super().__init__(dict)
        self.entries = entries
        self.owner = Owner(self)

    def needs_fill(self):
        return True

    def reconstruct(self, cg):
        cg.load(self.owner)
        cg.load_attr("__dict__")

    def fill(self, cg):
        for name, value in self.entries.items():
            cg.load(value)
            cg.load(self)
            cg.load_const(name)
            cg.store_subscr()


class Owner(Instance):
    def __init__(self, dictionary):
        super().__init__(Plain)
        self.dictionary = dictionary

    def fill(self, cg):
        cg.load(self.dictionary)
        cg.pop_top()


def test_groups_with_one_user_need_few_locals(trace):
    result = trace.run(List(*(Attributes(number=Const(i), sub=Attributes(n=Const(1)).owner).owner for i in range(1000))))
    assert [(o.number, o.sub.n) for o in result] == [(i, 1) for i in range(1000)]
    assert trace.code.co_nlocals < 20 and trace.code.co_stacksize < 50


def test_an_instance_dict_that_leaves_too_is_the_owners(trace):
    attributes = Attributes(number=Const(1))
    attributes.entries["own"] = attributes.owner
    dictionary, owner = trace.run(Tuple(attributes, attributes.owner))
    assert vars(owner) is dictionary and owner.own is owner and owner.number == 1


def test_a_ring_of_5000(trace):
    ring = [Instance(number=Const(i)) for i in range(5000)]
    for one, following in zip(ring, ring[1:] + ring[:1]):
        one.attributes["next"] = following
    result = start = trace.run(ring[0])
    for number in range(5000):
        assert result.number == number
        result = result.next
    assert result is start


def test_a_value_is_complete_before_another_hashes_it(trace):
    class Key:
        def __hash__(self):
            return self.number

        def __eq__(self, other):
            return self.number == other.number

    key = Instance(Key, number=Const(7))
    (result,) = trace.run(Set(key))
    assert hash(result) == 7


def test_only_what_is_needed_is_built(trace):
    items = List(Instance(), Output())
    items.items.clear()
    assert trace.run(items) == []
    assert trace.planned.outputs == []


# Effects.


def test_mutations_are_replayed_in_order_and_see_the_graphs_outputs(trace):
    log = []

    class Recording(list):
        def __init__(self, name, *items):
            super().__init__(items)
            self.name = name

    first, second = List(source=trace.source(0)), List(source=trace.source(1))
    out = Output()
    first.items, second.items = [out, second], [first, Const(2)]
    trace.effects.at_end(GlobalMode(log, "end"))
    trace.effects.mutated(second)
    trace.effects.mutated(first)
    real_first, real_second = Recording("first", 1, 2, 3), Recording("second")
    result = trace.run(Tuple(out, first), lambda inputs: ("tensor",), captures={0: real_first, 1: real_second})
    assert result == ("tensor", real_first)
    assert real_first[0] == "tensor" and real_first[1] is real_second and len(real_first) == 2
    assert real_second[0] is real_first and real_second[1] == 2
    assert log == ["end"]


def test_replays_come_in_order(trace):
    log = []

    class Logged(Object):
        def replay(self, cg):
            GlobalMode(log, self.source.describe()).replay(cg)

    for index in (2, 0, 1):
        trace.effects.mutated(Logged(list, trace.source(index)))
    trace.effects.at_end(GlobalMode(log, "end"))
    trace.run(Const(None))
    assert log == ["a2", "a0", "a1", "end"]


def test_a_new_value_that_is_stored_and_returned_is_one_object(trace):
    new = Instance(x=Output())
    owner = Instance(source=trace.source(0), new=new)
    trace.effects.mutated(owner)
    real = Plain()
    result = trace.run(new, lambda inputs: ("t",), captures={0: real})
    assert real.new is result and result.x == "t"


def test_nothing_is_replayed_when_the_graph_fails(trace):
    owner = Instance(source=trace.source(0), x=Const(1))
    trace.effects.mutated(owner)
    real = Plain()

    def graph(inputs):
        raise ValueError("from the graph")

    with pytest.raises(ValueError, match="from the graph"):
        trace.run(Output(), graph, captures={0: real})
    assert vars(real) == {}


# Positions.


def line_of(error, code):
    tb = error.__traceback__
    while tb.tb_frame.f_code.co_name != code.co_name:
        tb = tb.tb_next
    return tb.tb_lineno


def test_an_error_in_the_graph_carries_the_line_of_the_call(trace):
    def graph(inputs):
        raise ValueError

    first = traced.__code__.co_firstlineno
    positions = {"call_position": Position(first + 1, first + 1, 4, 9), "return_position": Position(first + 2, first + 2, 4, 9)}
    with pytest.raises(ValueError) as caught:
        trace.run(Output(), graph, **positions)
    assert line_of(caught.value, trace.code) == first + 1


def test_an_error_in_a_replay_carries_the_line_of_the_mutation(trace):
    class Strict:
        __slots__ = ()

    trace.tracer.position = Position(77, 77, 0, 4)
    trace.effects.mutated(Instance(Strict, trace.source(0), x=Const(1)))
    with pytest.raises(AttributeError) as caught:
        trace.run(Const(1), captures={0: Strict()}, return_position=Position(99, 99, 0, 1))
    assert line_of(caught.value, trace.code) == 77


def test_all_instructions_have_a_position(trace):
    trace.effects.mutated(List(Output(), source=trace.source(0)))
    trace.run(Tuple(Output(), List()), lambda inputs: ("a", "b"), captures={0: []}, return_position=Position(5, 5, 1, 2))
    assert all(row[0] is not None for row in trace.code.co_positions())


# The recorder.


def test_code_that_does_not_balance_is_refused():
    with pytest.raises(InternalError, match="leaves 2 items"):
        record(lambda cg: (cg.load_const(1), cg.load_const(2)), 1, "something")
    with pytest.raises(InternalError, match="pops 2 items"):
        record(lambda cg: (cg.load_const(1), cg.binary_op("+")), 1, "something")


def test_a_creation_that_needs_itself_is_refused(trace):
    value = Tuple()
    other = Tuple(value)
    value.items = (other, Const(1))
    with pytest.raises(InternalError, match="needs itself"):
        trace.plan(value)


def test_a_value_may_refuse_to_be_built(trace):
    class Stubborn(Object):
        def reconstruct(self, cg):
            cg.unsupported(CannotReconstruct("a generator"))

    with pytest.raises(CannotGenerate) as caught:
        trace.plan(List(Stubborn(object)))
    assert caught.value.reason == CannotReconstruct("a generator")


def test_calls_take_their_arguments_in_order(trace):
    class Written(Object):
        def reconstruct(self, cg: CodeRecorder):
            cg.load_const(10)
            cg.load_const(2)
            cg.load_const(3)
            cg.call_const(operator.sub, 2)
            cg.call_const(pow, 2)
            cg.call_const(list, 0)
            cg.call_const(lambda *args: args, 2)
            cg.load_const(0)
            cg.binary_subscr()
            cg.load_const(-1)
            cg.binary_op("-")
            cg.load_attr("real")

    assert trace.run(Written(object)) == 10**-1 + 1


def test_temporary_objects_made_for_a_load_are_not_mistaken(trace):
    class Many(Object):
        def reconstruct(self, cg):
            for number in range(200):
                cg.load(Const(number))
            cg.build_tuple(200)

    assert trace.run(Tuple(Many(tuple), Many(tuple))) == (tuple(range(200)),) * 2


# Speed.


def test_400_outputs_are_emitted_quickly(trace):
    graph = lambda inputs: ()
    result = Tuple(*(Output() for _ in range(400)))
    best = min(timed(lambda: emit(trace.plan(result), graph)) for _ in range(5))
    assert best < 0.05, f"{best * 1000:.1f} ms"


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
