"""The table of parameters that the programs read, and the names of options; it needs no other part of the package."""

import functools
import json
import os

TABLE = os.path.join(os.path.dirname(__file__), "options.json")
# Short names by which messages call parameters.
SHORT = {"n_estimators": "-n", "C": "-c"}
# Parameters with another long name here, in addition to their own.
ALIASES = {"scoring": "--metric"}


@functools.cache
def read_table():
    """Read the table of algorithms and parameters."""
    with open(TABLE, encoding="utf-8") as file:
        return json.load(file)


def flag_of_parameter(name):
    """The option of a parameter of any algorithm; None for other names."""
    if all(row["name"] != name for row in read_table()["rows"]):
        return None
    return SHORT.get(name) or ALIASES.get(name, "--" + name.replace("_", "-"))
