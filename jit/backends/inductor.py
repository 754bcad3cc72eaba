"""The backend `inductor`, which loads Inductor when it first compiles a graph, or when the program gives it a mode or options."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from framejit.backends import ecosystem
from framejit.backends.registry import Backend
from framejit.graph.demands import OF_OTHERS
from framejit.process.when_needed import is_loaded, when_needed
from framejit.quick_dataclass import dataclass

compiling = when_needed("framejit.backends.inductor_compile")
config = when_needed("torch._inductor.config")
backward_passes = when_needed("framejit.backends.backward_passes")
units = when_needed("framejit.backends.translation_units")
PASSES = (
    "pre_grad_custom_pass", "joint_custom_pre_pass", "joint_custom_post_pass", "post_grad_custom_pre_pass", "post_grad_custom_post_pass",
    "custom_partitioner_fn", "_pre_fusion_custom_pass", "_post_fusion_custom_pass",
)  # fmt: skip
"""The settings by which programs give Inductor passes over graphs."""

LEVELS = {
    "x86-64": {"cmov", "cx8", "fpu", "fxsr", "mmx", "sse", "sse2"},
    "x86-64-v2": {"cx16", "lahf_lm", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "x86-64-v3": {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"},
    "x86-64-v4": {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"},
}
"""The instructions that each level of the x86-64 psABI adds, by the names that Linux has for them."""
WIDTH_OF_AVX2, OF_AVX2 = 256, frozenset({"avx2", "f16c", "fma"})
"""The value of Inductor's option `cpp.simdlen` that makes it write code with AVX2, and the instructions that it then lets the C++ compiler use."""


def is_on(option: str, variable: str) -> bool:
    """Return whether a switch of Inductor's is on, which is off by default, and which programs set in Inductor's configuration or by an environment
    variable."""
    if not is_loaded("torch._inductor.config") and variable not in os.environ:
        return False
    found: Any = config
    for part in option.split("."):
        found = getattr(found, part)
    return bool(found)


@dataclass(frozen=True)
class InductorBackend(Backend):
    """Inductor with a mode's or the user's settings, which are in force for the backward pass too."""

    @property
    def patches(self) -> Mapping[str, Any]:
        return self.kwargs.get("config_patches", {})

    def configured(self, mode: str | None, options: Mapping[str, Any] | None) -> Backend:
        ecosystem.require_torch("inductor")
        patches = compiling.mode_options(mode) if mode is not None else {}
        patches |= compiling.check_options(options or {})
        return replace(self, kwargs={"config_patches": patches} if patches else {})

    def freezes(self) -> bool:
        return bool(self.patches.get("freezing", is_on("freezing", "TORCHINDUCTOR_FREEZING")))

    def takes_pieces(self, grad: bool) -> bool:
        """Return False if the program has given Inductor passes of its own, which see the whole graph, and in the cases of `Backend.takes_pieces`."""
        return super().takes_pieces(grad) and not any(map(self.has_pass, PASSES))

    def has_pass(self, name: str) -> bool:
        """Return whether the program has given Inductor a pass by this setting."""
        if name in self.patches or not is_loaded("torch._inductor.config"):
            return bool(self.patches.get(name))
        return bool(getattr(config, name, None))

    @contextlib.contextmanager
    def for_several(self) -> Iterator[None]:
        with units.several_together(), backward_passes.postponed():
            yield

    def instructions(self) -> frozenset[str] | None:
        if self.patches.get("cpp.simdlen") != WIDTH_OF_AVX2 or self.patches.get("cpp.march") not in LEVELS:
            return None
        names = list(LEVELS)
        below = names[: names.index(self.patches["cpp.march"]) + 1]
        return frozenset(instruction for level in below for instruction in LEVELS[level]) | OF_AVX2

    def any_threads(self) -> bool:
        return bool(self.patches.get("cpp.dynamic_threads", is_on("cpp.dynamic_threads", "TORCHINDUCTOR_CPP_DYNAMIC_THREADS")))

    def cudagraphs(self) -> bool:
        return bool(self.patches.get("triton.cudagraphs", is_on("triton.cudagraphs", "TORCHINDUCTOR_CUDAGRAPHS")))


def compile_inductor(gm: Any, example_inputs: Sequence[Any], config_patches: Mapping[str, Any] | None = None) -> Any:
    """torch's `compile_fx` with what framejit changes in it. Raises UnsupportedTorch if the installed torch lacks something that this needs."""
    ecosystem.require_torch("inductor")
    return compiling.compile_inductor(gm, example_inputs, config_patches)


BACKEND = InductorBackend(
    "inductor", compile_inductor, inputs="fake", trusted=True,
    takes=replace(
        OF_OTHERS, takes_unbacked=True, takes_gradients=True, takes_hooks=True, takes_sparse=False, compiles_kernels=True, joins_branches=True,
        checks_before_changes=True,
    ),
)  # fmt: skip
