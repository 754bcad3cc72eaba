"""A hypothesis strategy that draws arguments from the regions which valid_inputs() has found. It needs hypothesis to be installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from framejit.user.exploring.example_inputs import Arguments
from framejit.user.exploring.regions import MOST_ELEMENTS, InputRegion


@st.composite
def inputs_of(draw: Any, regions: Sequence[InputRegion], more: int = 8) -> Arguments:
    """Draw positional and keyword arguments from any of the regions. Sizes are the smallest ones of the region, or larger by up to `more` if the region
    contains such sizes; ints may be smaller too.

        explored = framejit.valid_inputs(function, (torch.randn(3, 4),))

        @given(inputs_of([region for region in explored if region.error is None]))
        def test_function(arguments):
            args, kwargs = arguments
    """
    region: InputRegion = draw(st.sampled_from(list(regions)))
    ints = {number.symbol for number in region.example.ints}
    wanted = {name: size + draw(st.integers(-more if name in ints else 0, more)) for name, size in region.sizes.items()}
    sizes = wanted if region.accepts(wanted) else region.sizes_from(wanted)
    if sizes is None or region.example.elements(sizes) > MOST_ELEMENTS:
        sizes = region.sizes
    return region.inputs(sizes, draw(st.integers(0, 1 << 16)))
