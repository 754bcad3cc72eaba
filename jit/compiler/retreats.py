"""After a backend has failed to compile a graph, the next trace gives something up: one thing at a time, in a fixed order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from framejit.backends.registry import Backend
from framejit.graph.builder import GraphBuilder
from framejit.graph.demands import Demands
from framejit.guards.dynamic import FIXED, Dynamic
from framejit.library.torch.sparse.sparse import sparse_values
from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TraceTerms:
    """The terms of a trace: which sizes and numbers are symbolic, and what may enter its graph."""

    dynamic: Dynamic
    demands: Demands

    def without(self, demand: str) -> TraceTerms:
        return replace(self, demands=replace(self.demands, **{demand: False}))


@dataclass(frozen=True, slots=True)
class FailedGraph:
    """A graph that a backend can't compile. `terms`: those of its trace. `first`: those that the function's first trace had."""

    graph: GraphBuilder
    backend: Backend
    terms: TraceTerms
    first: TraceTerms


Retreat = Callable[[FailedGraph], TraceTerms | None]
"""Gives the terms of the next attempt, or None where the graph has nothing of the kind."""


def giving_up(demand: str, is_in: Callable[[GraphBuilder], bool]) -> Retreat:
    """The graph does without what a field of Demands lets in."""

    def retreat(failed: FailedGraph) -> TraceTerms | None:
        return failed.terms.without(demand) if getattr(failed.terms.demands, demand) and is_in(failed.graph) else None

    return retreat


def for_contexts(retreat: Retreat) -> Retreat:
    """A retreat that only helps backends which AOTAutograd serves: others take any sizes and numbers."""
    return lambda failed: retreat(failed) if failed.backend.needs_contexts else None


def makes_sparse(graph: GraphBuilder) -> bool:
    return any(node.op != "placeholder" for node in sparse_values(graph.outermost.fx))


def takes_sparse(graph: GraphBuilder) -> bool:
    return any(node.op == "placeholder" or any(user.op != "output" for user in node.users) for node in sparse_values(graph.outermost.fx))


def floats_are_constants(failed: FailedGraph) -> TraceTerms | None:
    """Floats that vary become constants, each of which is compiled."""
    dynamic = failed.terms.dynamic
    if not dynamic.floats or not failed.graph.shapes.has_floats():
        return None
    return replace(failed.terms, dynamic=replace(dynamic, floats=False))


def sizes_are_constants(failed: FailedGraph) -> TraceTerms | None:
    """All sizes and numbers become constants, unless the program has declared them to vary."""
    may_be = failed.graph.shapes.may_be_constants() or failed.graph.wrappers.has_met("distributed")
    if not may_be or failed.terms.dynamic.fixed:
        return None
    return replace(failed.terms, dynamic=FIXED)


def distributed_stay_outside(failed: FailedGraph) -> TraceTerms | None:
    """Distributed tensors stay outside of the graph, and sizes vary as they did at first."""
    if not failed.graph.wrappers.has_met("distributed") or not failed.terms.demands.takes_distributed:
        return None
    return replace(failed.terms.without("takes_distributed"), dynamic=failed.first.dynamic)


RETREATS: tuple[Retreat, ...] = (
    giving_up("checks_before_changes", lambda graph: bool(graph.unbacked.checked)),
    giving_up("takes_gradients", lambda graph: graph.autograd_node is not None and graph.autograd_node.asks),
    giving_up("joins_branches", lambda graph: graph.has_joined),
    giving_up("takes_unbacked", lambda graph: graph.unbacked.present),
    giving_up("takes_nested", lambda graph: graph.wrappers.has_met("jagged")),
    giving_up("takes_masked", lambda graph: graph.wrappers.has_met("masked")),
    giving_up("takes_sparse", takes_sparse),
    giving_up("makes_sparse", makes_sparse),
    *map(for_contexts, (floats_are_constants, sizes_are_constants, distributed_stay_outside)),
)


def retreat(failed: FailedGraph) -> TraceTerms | None:
    """The terms of the next attempt; None where the graph has nothing more to give up."""
    return next(filter(None, (step(failed) for step in RETREATS)), None)
