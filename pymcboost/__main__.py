"""``python -m pymcboost``: versions, facts for bug reports, and header folders."""

import sys

from pymcboost.cli.package import main

if __name__ == "__main__":
    sys.exit(main())
