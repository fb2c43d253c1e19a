"""``python -m pymcboost``: what a bug report needs, and man pages."""

import sys

from pymcboost.cli.package import main

if __name__ == "__main__":
    sys.exit(main())
