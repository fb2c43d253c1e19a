"""Print the requirements named in pyproject.toml, one a line, for ``pip install -r``.

Usage: python tools/requirements.py GROUP ...

GROUP is ``build`` (what a build without isolation needs), ``run`` (the package's own dependencies) or the name of an
optional group such as ``test`` or ``lint``.
"""

import sys
import tomllib
from pathlib import Path


def requirements(groups, pyproject):
    """Requirements of the groups, in order, without repeats."""
    project = pyproject["project"]
    known = {
        "build": pyproject["build-system"]["requires"],
        "run": project["dependencies"],
        **project["optional-dependencies"],
    }
    unknown = [group for group in groups if group not in known]
    if unknown or not groups:
        sys.exit(
            f"requirements.py: {unknown or 'no group given'}; name one or more of: {', '.join(known)}"
        )
    return list(dict.fromkeys(line for group in groups for line in known[group]))


if __name__ == "__main__":
    path = Path(__file__).resolve().parents[1] / "pyproject.toml"
    print("\n".join(requirements(sys.argv[1:], tomllib.loads(path.read_text(encoding="utf-8")))))
