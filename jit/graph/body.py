"""`Body`, a graph under construction: its nodes, a note for each, and the values of outer graphs that it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

from framejit.errors import UserFrame
from framejit.graph.fake import storages, version_of
from framejit.graph.global_modes import Modes
from framejit.graph.statistics import changed_statistics
from framejit.graph.written import counted_elsewhere, in_lists, written_by_others
from framejit.quick_dataclass import dataclass
from framejit.trail import NodeAdded, Trail


@dataclass(frozen=True, slots=True)
class NodeNote:
    """Facts about a node that aren't in its metadata.

    Attributes:
        modes: torch's global modes when the node was made.
        place: the place in the outermost frame of the program.
        instruction: the instruction that made the node, if it is an operator that the program has called.
        handled: whether the program has a handler for errors of the node.
    """

    modes: Modes
    place: UserFrame | None
    instruction: tuple[CodeType, int] | None
    handled: bool


@dataclass(frozen=True, slots=True)
class Mapping:
    """The parameters of a `torch.vmap`: how many items it maps, and how it treats random numbers."""

    size: Any
    randomness: str


@dataclass(frozen=True, slots=True)
class Transforming:
    """The transform of torch.func that runs a graph.

    Attributes:
        name: the name of the transform.
        records: whether autograd begins a record in the graph, so that values from outer graphs have no record.
        mapping: the parameters of a `torch.vmap`.
        outside_of: for a graph that computes all items of a `torch.vmap` at once, the graph of one item. Neither that transform nor those inside it are in
            force in this graph.
    """

    name: str
    records: bool
    mapping: Mapping | None = None
    outside_of: Body | None = None


class Body:
    """A graph under construction. Every change of it is recorded on the trail, so that it can be undone.

    `outer`: the graph inside which it is built, and whose tensors it may use; None for a trace's outermost graph. `items_by_index`: in `x[i]`, a tensor `i`
    without dimensions is an ordinary index, and not a number whose value is needed. `takes_floats`: whether it may use floats of outer graphs that vary.
    `takes_numbers`: whether it may compute with numbers read from its own tensors. `takes_sizes`: whether it may use tensors of outer graphs whose sizes
    depend on data. `is_backward`: autograd runs the graph later. `transform`: the transform of
    torch.func that runs the graph, if there is one; fakes of such a graph have no autograd record from outer graphs.
    """

    def __init__(
        self,
        trail: Trail,
        outer: Body | None = None,
        items_by_index: bool = False,
        takes_floats: bool = True,
        takes_numbers: bool = False,
        transform: Transforming | None = None,
        is_backward: bool = False,
        takes_sizes: bool = False,
    ) -> None:
        self.fx = fx.Graph()
        self.outer = outer
        self.items_by_index = items_by_index
        self.takes_floats: bool = takes_floats and (outer is None or outer.takes_floats)
        self.takes_numbers: bool = outer is None or (takes_numbers and outer.takes_numbers)
        self.takes_sizes: bool = outer is None or (takes_sizes and outer.takes_sizes)
        self.transform = transform
        self.is_backward = is_backward
        self.notes: dict[fx.Node, NodeNote] = {}
        """The notes of all nodes except placeholders and attached modules, in the order in which the nodes were made."""
        self.lifted: dict[fx.Node, fx.Node] = {}
        """Nodes of the graph around this one that are used here, each with the placeholder that stands for it."""
        self._versions: dict[fx.Node, int] = {}
        self._arguments: dict[fx.Node, Callable[[], torch.Tensor]] = {}
        self._made_of: dict[fx.Node, fx.Node] = {}
        self.modules: dict[str, fx.GraphModule] = {}
        """Finished inner graphs that nodes refer to, by name."""
        self.copies: list[dict[fx.Node, fx.Node]] = []
        """The nodes that were made for each copied call of a module, each with the node that it is a copy of."""
        self._kept: set[fx.Node] = set()
        self._last_placeholder: fx.Node | None = None
        self._trail = trail

    def placeholder(self, name: str, example: Any) -> fx.Node:
        """A new placeholder, after the existing ones."""
        after = self.fx._root if self._last_placeholder is None else self._last_placeholder
        with self.fx.inserting_after(after):
            node = self.fx.create_node("placeholder", "", name=name)
        node.target = node.name
        node.meta["example_value"] = example
        self._trail.set(self, "_last_placeholder", node)
        self._trail.learned(node, self.fx.erase_node, node)
        return node

    def argument(self, name: str, make: Callable[[], torch.Tensor], of: fx.Node | None = None) -> fx.Node:
        """A new placeholder for the value that the operator running this graph makes from one of its arguments, `of` this node. `make` makes its fake."""
        node = self.placeholder(name, make())
        self._arguments[node] = make
        self._trail.learned(self, self._arguments.pop, node)
        if of is not None:
            self._made_of[node] = of
            self._trail.learned(self, self._made_of.pop, node)
        return node

    def makes(self, node: fx.Node) -> bool:
        """Return whether a node is an operator of this graph."""
        return node.graph is self.fx and node.op != "placeholder"

    def is_given(self, node: fx.Node) -> bool:
        """Return whether a node stands for a value that the operator running this graph makes from one of its arguments."""
        return node in self._arguments

    def origin(self, placeholder: fx.Node) -> fx.Node | None:
        """The node of an outer graph that a placeholder stands for or is made from; None if it isn't known."""
        lifted = next((outer for outer, inner in self.lifted.items() if inner is placeholder), None)
        return self._made_of.get(placeholder) if lifted is None else lifted

    def shares_memory_with_arguments(self, fakes: Iterable[torch.Tensor]) -> bool:
        """Return whether one of these fakes lies in the memory of an argument."""
        return not storages(node.meta["example_value"] for node in self._arguments).isdisjoint(storages(fakes))

    def add(self, op: str, target: Callable[..., Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any], note: NodeNote) -> fx.Node:
        """A new node for an operator, at the end."""
        node = self.fx.create_node(op, target, args, kwargs)
        self.notes[node] = note
        self._trail.note(NodeAdded, node, self.erase, node)
        return node

    def add_like(self, other: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
        """A new node for the operator of another one, at the end, whose arguments are like that one's."""
        node = self.fx.create_node(other.op, other.target, name=other.name)  # which would ask arguments of any form whether they are symbolic
        node.args = args
        if kwargs:
            node.kwargs = kwargs
        self.notes[node] = self.notes[other]
        self._trail.note(NodeAdded, node, self.erase, node)
        return node

    def note_copies(self, copies: dict[fx.Node, fx.Node]) -> None:
        """Note the nodes that were made for a copied call, each with the node that it is a copy of."""
        self.copies.append(copies)
        self._trail.learned(next(iter(copies)), self.copies.pop)

    def erase(self, node: fx.Node) -> None:
        """Remove a node that `add` or `add_like` has made."""
        del self.notes[node]
        self._kept.discard(node)
        self.fx.erase_node(node)

    def numbers(self) -> set[Any]:
        """The symbols of the numbers that nodes of this graph compute."""
        return {symbol for node in self.notes for symbol in node.meta.get("unbacked_bindings", ())}

    def keep(self, node: fx.Node) -> None:
        """Note that a node does something besides computing its result, so that it stays even if the result isn't used."""
        self._kept.add(node)

    @property
    def kept(self) -> set[fx.Node]:
        """The nodes that do something besides computing their results."""
        return self._kept

    def attach(self, module: fx.GraphModule) -> fx.Node:
        """Make a node for a finished inner graph, which is an argument of the operator that runs it."""
        name = f"inner_{len(self.modules)}"
        self.modules[name] = module
        self._trail.learned(self, self.modules.pop, name)
        node = self.fx.create_node("get_attr", name)
        node.meta["example_value"] = module
        self._trail.learned(node, self.fx.erase_node, node)
        return node

    def own(self, node: fx.Node) -> fx.Node | None:
        """The node that represents, in this graph, a node of it or of an outer graph; None for any other, of an inner graph that has ended.

        A value that is used for the first time is lifted: each graph in between gets a placeholder for it.
        """
        if node.graph is self.fx:
            return node
        if self.outer is None:
            return None
        outer = self.outer.own(node)
        if outer is None:
            return None
        known = self.lifted.get(outer)
        if known is None:
            example = outer.meta["example_value"]
            known = self.lifted[outer] = self.placeholder(outer.name, self._seen_inside(example))
            self._trail.learned(self, self.lifted.pop, outer)
            if isinstance(example, torch.Tensor):
                self._versions[outer] = version_of(example)
                self._trail.learned(self, self._versions.pop, outer)
        return known

    @property
    def leaves_transform(self) -> bool:
        """Return whether the graph runs outside a transform that surrounds it in the trace."""
        return self.transform is not None and self.transform.outside_of is not None

    def hides_records(self) -> bool:
        """Return whether results computed here may require a gradient although their fakes don't show it."""
        if self.outer is None and self.transform is not None:
            return True
        if self.transform is None:
            return self.outer is not None and self.outer.hides_records()
        if self.leaves_transform:
            return True
        return not self.transform.records and any(getattr(outer.meta["example_value"], "requires_grad", False) for outer in self.lifted)

    def _seen_inside(self, example: Any) -> Any:
        """The node or number that represents a value of the outer graph in this graph."""
        return without_record(example) if self.transform is not None and isinstance(example, torch.Tensor) else example

    def changes_arguments(self) -> bool:
        """Return whether a placeholder's tensor, lifted or an argument, has been changed in place here."""
        placeholders = {*self._arguments, *self.lifted.values()}
        fakes = [fake for node in placeholders if isinstance(fake := node.meta["example_value"], torch.Tensor)]
        return any(version_of(fake) > 0 for fake in fakes) or not storages(fakes).isdisjoint(written_by_others(self._kept, placeholders))

    def changed_lifted(self) -> list[torch.Tensor]:
        """The fakes of tensors of the outer graph that have been changed in place here."""
        written = counted_elsewhere(self._kept, {*self._arguments, *self.lifted.values()})
        lifted = {outer: outer.meta["example_value"] for outer in self._versions}
        return [fake for outer, fake in lifted.items() if version_of(fake) != self._versions[outer] or storages([fake]) & written]

    def changes_lifted(self) -> bool:
        """Return whether a tensor of the outer graph has been changed in place here."""
        return bool(self.changed_lifted())

    def changes_uncounted(self) -> bool:
        """Return whether running statistics, or tensors of a list, of the outer graph have been changed in place here. In the functions of an operator,
        AOTAutograd loses such changes, or fails."""
        written = [*in_lists(self._kept), *[fake for node in self._kept for fake in changed_statistics(node)]]
        return not storages(written).isdisjoint(storages(node.meta["example_value"] for node in self._versions))

    def refresh_lifted(self) -> None:
        """Take over the fakes of lifted nodes after they were made again."""
        for outer, placeholder in self.lifted.items():
            placeholder.meta["example_value"] = self._seen_inside(outer.meta["example_value"])
            if outer in self._versions:
                self._versions[outer] = version_of(outer.meta["example_value"])
        for node, make in self._arguments.items():
            node.meta["example_value"] = make()


def transforms_of(body: Body | None) -> Iterator[tuple[Body, Transforming]]:
    """The transforms of torch.func in force in a graph, each with the graph that it runs, the innermost first."""
    while body is not None:
        if body.transform is not None:
            yield body, body.transform
            body = body.transform.outside_of or body
        body = body.outer


def depends_on_arguments(nodes: Iterable[fx.Node], inner: Body, body: Body) -> bool:
    """Return whether one of these nodes, of the graph `inner`, depends on the arguments of the outer graph `body`, as its operator passes them.

    If that isn't known, the result is True.
    """
    bodies, around = {body.fx: body}, inner
    while around is not body:
        assert around.outer is not None
        if around.transform is None:
            return True  # a function that may run with other arguments, as a backward does
        bodies[around.fx], around = around, around.outer
    seen: set[fx.Node] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node in seen or node.graph not in bodies:
            continue
        seen.add(node)
        if node.op != "placeholder":
            waiting += node.all_input_nodes
        elif node.graph is body.fx:
            if body.is_given(node):
                return True
        else:
            origin = bodies[node.graph].origin(node)
            if origin is None:
                return True
            waiting.append(origin)
    return False


def without_record(fake: torch.Tensor) -> torch.Tensor:
    """A fake that looks like another, in its own memory, without an autograd record and without the value that fakes of small constants have."""
    found = fake.data if fake.is_conj() or fake.is_neg() else fake.new_empty_strided(fake.size(), fake.stride())
    if isinstance(found, FakeTensor):
        found.constant = None
    return found
