"""Programs for users and developers of framejit: the demonstration, the model zoo and the benchmarks.

They measure compilations, so that they don't use what earlier processes have compiled, unless FRAMEJIT_CACHE says so.
"""

import os

os.environ.setdefault("FRAMEJIT_CACHE", "0")
