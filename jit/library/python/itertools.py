"""itertools: each iterator is its plain Python stand-in, traced: a function of its fields for each step, or a generator."""

from __future__ import annotations

import itertools

from framejit.objects.core.registry import app, made_inside
from framejit.objects.types.iteratorfields import STEPS
from framejit.plain import itertools as plain

NAMES = (
    "chain", "count", "repeat", "cycle", "islice", "starmap", "takewhile", "dropwhile", "filterfalse", "compress", "pairwise", "batched",
    "accumulate", "zip_longest", "product", "permutations", "combinations", "combinations_with_replacement", "groupby", "tee",
)  # fmt: skip
for _name in NAMES:
    if hasattr(itertools, _name):
        _real = getattr(itertools, _name)
        app(_real, gives=_real if isinstance(_real, type) else None)(getattr(plain, _name))
        if _name in plain.STEPS:
            STEPS[id(_real)] = plain.STEPS[_name]
app(itertools.chain.__dict__["from_iterable"], gives=itertools.chain)(plain.chain_from_iterable)
made_inside(vars(itertools)["_grouper"], plain.Groups.members)
made_inside(vars(itertools)["_tee"], plain.tee_items)
