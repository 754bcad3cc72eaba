"""A strategy for hypothesis, which has to be installed: arguments from the regions that valid_inputs() has found, small sizes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from framejit.user.exploring.example_inputs import Arguments
from framejit.user.exploring.regions import MOST_ELEMENTS, InputRegion


@st.composite
def inputs_of(draw: Any, regions: Sequence[InputRegion], more: int = 8) -> Arguments:
    """Positional arguments and those by name, of any of the regions. Sizes are those of the region, or by up to `more` larger, as far as the region has
    such; ints are smaller too.

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
