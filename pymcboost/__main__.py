"""``python -m pymcboost``: versions, what a bug report needs, folders of the headers."""

import sys

from pymcboost.cli.package import main

if __name__ == "__main__":
    sys.exit(main())
