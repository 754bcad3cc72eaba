"""`python -m tools.bench`: the benchmarks beside torch.compile."""

import sys

from tools.bench.compare import main

if __name__ == "__main__":
    sys.exit(main())
