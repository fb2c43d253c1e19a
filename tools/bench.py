"""Start the benchmarks of tools/bench/: `python tools/bench.py --help`."""

import sys

# The package of the same name stands before this file on the path.
from bench.run import main

if __name__ == "__main__":
    sys.exit(main())
