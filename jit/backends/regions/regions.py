"""Decides whether a graph is compiled in pieces, so that parts of it that repeat are compiled once.

It pays where enough nodes needn't be compiled, and where a piece does enough work: each call of a piece costs some ten microseconds, and nothing is fused
across its ends. Of regions that do little work, such as layers of a small model, a piece holds several.
"""

from __future__ import annotations

from collections.abc import Sequence

from framejit.backends.regions.pieces import Piece, Uncuttable, cut
from framejit.backends.request import GraphRequest
from framejit.graph.optional_records import is_optional, recorded_if

LEAST_SAVED = 60
"""The fewest nodes that needn't be compiled for a graph to be cut where it pays; about a second of compilation by Inductor."""
LEAST_IN_ONE_PLACE = 8
"""The fewest of these that are in one place."""
LEAST_WORK = 1 << 24
"""The least work of a piece where it pays, in multiplications: some 0.5 ms on a CPU."""
LEAST_INSISTED = 4
"""The fewest nodes that needn't be compiled for a graph to be cut if the program asks for it."""


def pieces_to_compile(request: GraphRequest) -> Sequence[Piece]:
    """The pieces to compile; empty if the graph stays whole."""
    if not takes_pieces(request):
        return ()
    insists = request.regions is True
    least = LEAST_INSISTED if insists else LEAST_SAVED
    try:
        pieces = cut(request, min(least, LEAST_IN_ONE_PLACE), 0 if insists else LEAST_WORK)
    except Uncuttable:
        return ()
    kinds = {piece.key: len(piece.nodes) for piece in pieces}
    saved = sum(len(piece.nodes) for piece in pieces) - sum(kinds.values())
    return pieces if saved >= least else ()


def takes_pieces(request: GraphRequest) -> bool:
    """Return whether the graph may be compiled in pieces. `aot_eager` compiles nothing, so it doesn't pay there."""
    backend = request.backend
    floats = any(type(info.value) is float for info in request.inputs)
    allowed = request.regions is True or (request.regions is None and not backend.runs_nodes)
    optional = any(map(is_optional, request.gm.graph.find_nodes(op="call_function", target=recorded_if)))  # which gradients there are is known of whole graphs
    return allowed and backend.takes_pieces(request.modes.grad) and not floats and not optional and request.piece is None
