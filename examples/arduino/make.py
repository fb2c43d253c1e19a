"""Makes an Arduino library of packed trees: a header without memory of its own, and a sketch that uses it.

    python examples/arduino/make.py MODEL.mcb [ROWS] [--name Digits] [--integer int8] [--out FOLDER]

It writes FOLDER/NAME, for the folder libraries of Arduino, and FOLDER/NAME.zip, for "Add .ZIP Library". Scores are sums
of integers, so that every board can compute them. ROWS holds float32 numbers, as NumPy's tofile writes them: where they
are integers, features are, too. Without ROWS features are numbers of float32.
"""

import argparse
import re
import shutil
from pathlib import Path

import numpy as np

import pymcboost
from pymcboost.export import to_integer_c
from pymcboost.export.integers import Quantised

PROPERTIES = """\
name={name}
version=1.0.0
author=pymcboost
maintainer=pymcboost
sentence=A classifier of {classes} classes and {features} features.
paragraph=Made by pymcboost of a model file. It has no memory of its own.
category=Data Processing
url=https://pypi.org/project/pymcboost
architectures=*
includes={name}.h
"""
SKETCH = """\
// Reads rows of {features} numbers from the serial line, and answers each with the label of its class.
#include <{name}.h>

static {feature} row[{features}];

void setup() {{
  Serial.begin(115200);
  Serial.setTimeout(60000);
}}

void loop() {{
  // What begins no number, such as the end of a line: with nothing behind it, reading would wait for its time-out.
  int c;
  while ((c = Serial.peek()) >= 0 && c != '-' && c != '.' && (c < '0' || c > '9')) Serial.read();
  if (c < 0) return;
  for (int i = 0; i < {features}; i++) {{
{read}
  }}
  Serial.println({label}{prefix}_label({prefix}_predict(row)));
}}
"""

# How a number is read: the bits of a float, a long, and a smaller integer.
READ_BITS = """\
    const float value = Serial.parseFloat();
    memcpy(&row[i], &value, sizeof value);"""
READ_LONG = """\
    row[i] = Serial.parseInt();"""
READ_BOUNDED = """\
    const long value = Serial.parseInt();
    row[i] = ({feature})constrain(value, {low}, {high}); // numbers beyond the type become its ends"""


def read_rows(path, n_features):
    """Rows of a file of float32 numbers."""
    data = Path(path).read_bytes()
    if not data or len(data) % (4 * n_features):
        size = 4 * n_features
        raise ValueError(
            f"{path}: rows of {n_features} float32 numbers take {size} bytes each, not {len(data)}"
        )
    return np.frombuffer(data, "<f4").reshape(-1, n_features)


def main(argv=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("rows", nargs="?")
    parser.add_argument(
        "--name",
        default="Model",
        help="of the library, which names of C begin with (default: Model)",
    )
    integers = ("int8", "int16", "int32")
    parser.add_argument(
        "--integer", choices=integers, default="int8", help="type of the leaves (default: int8)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("arduino-out"), help="folder (default: arduino-out)"
    )
    options = parser.parse_args(argv)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,39}", options.name):
        parser.error(
            f"--name {options.name}: a letter, then at most 39 letters, digits and _ make a name of C"
        )
    prefix, library = options.name.lower(), options.out / options.name
    sketch = library / "examples" / "Score" / "Score.ino"
    try:
        model = pymcboost.load_model(options.model)
        rows = read_rows(options.rows, model.n_features_in_) if options.rows else None
        feature = Quantised(model, options.integer, rows).input
        header = to_integer_c(model, prefix, integer=options.integer, rows=rows, header=True)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if model.classes_.dtype.kind in "iu" and np.abs(model.classes_.astype(float)).max() >= 1 << 31:
        parser.error(
            "MODEL: the sketch prints labels as long, of 32 bits; train with smaller ones, or with texts"
        )
    for folder in (library / "src", sketch.parent):
        folder.mkdir(parents=True, exist_ok=True)
    (library / "src" / f"{options.name}.h").write_text(header)
    read = {"uint32_t": READ_BITS, "int32_t": READ_LONG}.get(feature, READ_BOUNDED)
    ends = np.iinfo(feature[:-2])
    read = read.format(feature=feature, low=ends.min, high=ends.max)
    words = {
        "name": options.name, "prefix": prefix, "feature": feature, "features": model.n_features_in_,
        "classes": model.n_classes_, "read": read, "label": "(long)" if model.classes_.dtype.kind in "iu" else "",
    }  # fmt: skip
    (library / "library.properties").write_text(PROPERTIES.format(**words))
    sketch.write_text(SKETCH.format(**words))
    shutil.make_archive(str(library), "zip", options.out, options.name)
    print(library.with_suffix(".zip"))


if __name__ == "__main__":
    main()
