"""The needs of an artifact in the process that loads it: versions, the processor's instructions, torch's settings, the sources of what was traced.

They are fewer than what the cache on disk asks for (`kept.circumstances`), since an artifact is moved to other machines on purpose.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from framejit.backends.registry import Backend
from framejit.driver import kept
from framejit.program.code_kinds import is_library_file
from framejit.saved import folder

INSTRUCTIONS = re.compile(r"(mmx|sse|ssse|pni|avx|fma|bmi|f16c|abm|popcnt|movbe|amx|gfni|v?aes|v?pclmulqdq|sha|adx|cx16|lahf_lm|3dnowprefetch|xop|tbm)")
"""The beginnings of the names of those features of an x86-64 processor that code from a C++ compiler may use."""
Source = tuple[str, str, bool]
"""The name of a module, the hash of its file's contents, and whether it is a library's."""
FEATURES = "instructions of the processor"
THREADS = "number of threads"
ADVICE = {
    THREADS: "call torch.set_num_threads({before}) before, or precompile with options={{'cpp.dynamic_threads': True}}",
    "torch.get_float32_matmul_precision()": "call torch.set_float32_matmul_precision({before!r}) before",
    "torch.are_deterministic_algorithms_enabled()": "call torch.use_deterministic_algorithms({before}) before",
}
"""By the name of a circumstance, how it can be made the same again. For the others, precompiling is the only way."""
IN_A_GROUP = "this process belongs to a process group of torch.distributed, on which code may depend in ways that no guard knows"
FOR_OTHERS = "precompile on such a processor, or for one: options={'cpp.march': 'x86-64-v3', 'cpp.simdlen': 256}"
"""The advice where the processor is another one."""
AGAIN = "precompile again under these circumstances"


def circumstances(backend: Backend | None = None) -> dict[str, Any]:
    """The circumstances of this process, as data for JSON; with a backend, those of them on which its code depends."""
    used = None if backend is None else backend.instructions()
    return {
        "framejit's build": kept.short(sorted((name, size) for name, size, _ in kept.build() if name.endswith(".py"))),
        "torch": torch.__version__,
        "torch's build": torch.version.git_version,
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "Python's option -O": sys.flags.optimize,
        "processor": platform.machine(),
        FEATURES: instructions() if used is None else sorted(used),
        THREADS: None if backend is not None and backend.any_threads() else torch.get_num_threads(),
        "oneDNN": bool(torch.backends.mkldnn.is_available() and torch._C._get_mkldnn_enabled()),
        "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled(),
        "torch.get_float32_matmul_precision()": torch.get_float32_matmul_precision(),
    }


def is_in_a_group() -> bool:
    """Return whether the process belongs to a process group of torch.distributed."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def instructions() -> list[str]:
    """The names of the processor's features that compiled code may use; all that the system tells where it isn't an x86-64 processor."""
    words = next((line.partition(":")[2].split() for line in kept.processor().splitlines() if line.startswith(("flags", "Features"))), [])
    return sorted(word for word in words if platform.machine() != "x86_64" or INSTRUCTIONS.match(word))


def differences(before: Mapping[str, Any]) -> Iterator[str]:
    """Sentences about the circumstances that an artifact was made under, and that aren't those of this process."""
    now = circumstances()
    for name, value in before.items():
        if name == FEATURES:
            if missing := sorted(set(value) - set(kept.processor().split())):
                yield f"its code uses instructions that this processor lacks ({', '.join(missing)}); {FOR_OTHERS}"
        elif value != now.get(name) and value is not None:
            yield f"{name}: it was made with {value}, and this process has {now.get(name)}; {ADVICE.get(name, AGAIN).format(before=value)}"


def sources_of(files: Collection[str]) -> list[Source]:
    """The sources that these files are. A file from which no module was imported is named itself."""
    modules = {getattr(module, "__file__", None): name for name, module in sorted(sys.modules.items(), reverse=True)}
    found = [(modules.get(file, file), contents_of(file), is_library_file(file)) for file in files]
    return sorted((name, folder.digest(contents), of_library) for name, contents, of_library in found if contents is not None)


def changed_sources(sources: Collection[Source]) -> Iterator[str]:
    """Sentences about the sources that aren't the same in this process."""
    for name, digest, _ in sources:
        file = file_of(name)
        contents = None if file is None else contents_of(file)
        if contents is None:
            yield f"the source of {name} isn't there"
        elif folder.digest(contents) != digest:
            main = "; let both programs import the model from a module" if name == "__main__" else ""
            yield f"{name} ({file}) is another than when the artifact was made: {AGAIN.replace('under these circumstances', 'with it')}{main}"


def file_of(name: str) -> str | None:
    """The file of a module, whether or not it has been imported; a name with a slash is a file's."""
    if "/" in name:
        return name
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__file__", None)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return None if spec is None else spec.origin


def contents_of(file: str) -> bytes | None:
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError):
        return None
