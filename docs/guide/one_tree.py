"""Draws one-tree.svg: the first round of class-wise trees and of a vector tree on iris, as `why-one-tree.md` shows it.

Run it in this folder: ``python one_tree.py``.
"""

import json
from pathlib import Path

from sklearn.datasets import load_iris

from pymcboost import LogitBoostClassifier, VectorTreeBoostClassifier
from pymcboost.inspection import to_json

COLOURS = "#4477aa", "#ee6677", "#228833"
LEAF_WIDTH, LEVEL_HEIGHT, GAP, UNIT = 78, 62, 28, 13


class Tree:
    """A tree as elements of SVG: its leaves side by side from `left` on, its root at `top`."""

    def __init__(self, tree, names, left, top):
        self.nodes, self.names, self.left, self.top = tree["nodes"], names, left, top
        self.elements, self.n_leaves = [], 0
        # A class-wise tree has the numbers of one class, and its leaves one bar.
        self.colours = COLOURS if tree["class"] is None else COLOURS[tree["class"] :]
        self.draw(0, top)

    def draw(self, node, y):
        """The horizontal position of a node, drawn with all that is below it."""
        fields = self.nodes[node]
        if "value" in fields:
            x = self.left + LEAF_WIDTH * (self.n_leaves + 0.5)
            self.n_leaves += 1
            self.draw_leaf(fields["value"], x, y)
            return x
        below = [self.draw(fields[side], y + LEVEL_HEIGHT) for side in ("left", "right")]
        x = sum(below) / 2
        lines = [
            f'<line x1="{x:g}" y1="{y + 14}" x2="{end:g}" y2="{y + LEVEL_HEIGHT - 14}"/>'
            for end in below
        ]
        self.elements += lines
        name = self.names[fields["feature"]].removesuffix(" (cm)")
        self.write(f"{name} ≤ {fields['threshold']:.2f}", x, y + 4)
        return x

    def draw_leaf(self, values, x, y):
        """Bars above and below a line: a number for each class."""
        values = values if isinstance(values, list) else [values]
        width = 14
        start = x - width * len(values) / 2
        self.elements.append(
            f'<rect x="{x - 27:g}" y="{y - 14}" width="54" height="60" rx="4" class="leaf"/>'
        )
        for place, (value, colour) in enumerate(zip(values, self.colours, strict=False)):
            height = abs(value) * UNIT
            upper = y + 16 - max(value, 0) * UNIT
            self.elements.append(
                f'<rect x="{start + width * place + 1:g}" y="{upper:.1f}" width="{width - 2}" '
                f'height="{height:.1f}" fill="{colour}"/>'
            )
        self.elements.append(f'<line x1="{x - 23:g}" y1="{y + 16}" x2="{x + 23:g}" y2="{y + 16}"/>')

    def write(self, text, x, y):
        """A line of text, centred."""
        self.elements.append(f'<text x="{x:g}" y="{y}">{text}</text>')


def first_round(estimator, left, top):
    """The trees of one round on iris, side by side from `left` on."""
    iris = load_iris()
    model = estimator(
        n_estimators=1,
        max_leaf_nodes=3,
        learning_rate=1.0,
        subsample=1.0,
        max_features=1.0,
        calibrate=None,
        random_state=0,
    ).fit(iris.data, iris.target)
    elements = []
    for nodes in json.loads(to_json(model))["trees"]:
        tree = Tree(nodes, iris.feature_names, left, top)
        elements += tree.elements
        left += LEAF_WIDTH * tree.n_leaves + GAP
    return elements


def main():
    """Write the picture beside this file."""
    elements = first_round(LogitBoostClassifier, 10, 66)
    elements += first_round(VectorTreeBoostClassifier, 10, 340)
    for text, y in (
        ("Class-wise trees: one tree per class, one value per leaf", 26),
        ("Vector tree: one tree for all classes, one value per class in each leaf", 300),
    ):
        elements.append(f'<text x="14" y="{y}" class="title">{text}</text>')
    for place, (name, colour) in enumerate(zip(load_iris().target_names, COLOURS, strict=True)):
        y = 400 + 24 * place
        elements.append(f'<rect x="400" y="{y}" width="12" height="12" fill="{colour}"/>')
        elements.append(f'<text x="420" y="{y + 11}" class="key">{name}</text>')
    style = (
        "text{font-family:sans-serif;font-size:12px;text-anchor:middle;fill:#222}"
        ".title{font-weight:bold;font-size:14px;text-anchor:start}.key{text-anchor:start}"
        "line{stroke:#555}.leaf{fill:#f4f4f4;stroke:#bbb}"
    )
    picture = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 530" width="700" height="530">',
        f"<style>{style}</style>",
        '<rect width="700" height="530" fill="#fff"/>',
        *elements,
        "</svg>",
    ]
    Path(__file__).with_name("one-tree.svg").write_text("\n".join(picture) + "\n")


if __name__ == "__main__":
    main()
