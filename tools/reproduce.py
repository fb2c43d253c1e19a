"""Start the experiments of tools/reproduce/: `python tools/reproduce.py --help`."""

import sys

# The package of the same name stands before this file on the path.
from reproduce.run import main

if __name__ == "__main__":
    sys.exit(main())
