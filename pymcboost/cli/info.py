"""mcboost-info: print what a model file contains. Needs NumPy only."""

import json
import sys

from pymcboost.cli.console import EXIT_CODES, Parser, importing, load_named, run, word

PROGRAM = "mcboost-info"
USAGE = f"{PROGRAM} [options] model_file"
DESCRIPTION = """\
Check a .mcb model file and print a summary of it."""
TOP = 10
CLASSES_SHOWN = 20
LINKS = {"none": "none: scores only", "softmax": "p = softmax(F)", "softmax2": "p = softmax(2 F)"}
LINKS |= {"sigmoid": "p = 1 / (1 + exp(-F)) of each label", "shares": "p = F / sum of F"}


def main(argv=None):
    """Run ``mcboost-info`` and return its exit status."""
    return run(PROGRAM, info, argv)


def describe(model, path):
    """Facts about a model as a dict for JSON; the contents of ``meta`` are not checked."""
    from pymcboost.model import early

    meta = model.information
    ensemble = model.ensemble
    names = meta.get("feature_names")
    names = names if isinstance(names, list) and len(names) == model.n_features_in_ else None
    base = 1 if model.index_base is None else model.index_base
    features, shares = model.used_features()
    order = (-shares).argsort(kind="stable")[: TOP if ensemble.share_of else 0]
    return {
        "file": path,
        "bytes": len(model.to_bytes()),
        "prepared_bytes": model.prepared_size,
        "kind": model.kind,
        "layout": model.layout,
        "link": model.link,
        "temperature": model.temperature,
        **({"thresholds": model.thresholds.tolist()} if model.thresholds.any() else {}),
        "classes": model.classes_.tolist(),
        "n_features": model.n_features_in_,
        "n_features_used": len(features),
        "n_categorical": 0 if model.categories is None else len(model.categories.feature),
        "n_learners": model.n_learners,
        "n_rounds": model.n_rounds,
        "totally_corrective": model.totally_corrective,
        "early_exits": list(early.facts(model)),
        "meta": meta,
        "top_features": [
            {
                "column": column,
                "name": str(names[column] if names else column + base),
                "importance": share,
            }
            for column, share in zip(features[order].tolist(), shares[order].tolist(), strict=True)
        ],
        **ensemble.describe(model.leaves),
    }


def _first_of(words):
    """The first of many words."""
    return " ".join(words[:CLASSES_SHOWN]) + (" ..." if len(words) > CLASSES_SHOWN else "")


def lines(facts, kind):
    """Yield the facts of `describe` as lines of text, a name and a text; ``kind`` is the class of the ensemble."""
    meta = facts["meta"]
    classes = facts["classes"]
    params = meta.get("params")
    shown = _first_of([word(str(name)) for name in classes])
    yield "file", f"{facts['file']}: {facts['bytes']:,} bytes, checksums good"
    yield "kind", f"{facts['kind']} ({kind.NAME})"
    if "algorithm" in meta:
        version = word(str(meta.get("version")))
        yield "algorithm", f"{word(str(meta['algorithm']))} (pymcboost {version})"
    yield "classes", f"{len(classes)}: {shown}"
    categorical = f", {facts['n_categorical']} categorical" if facts["n_categorical"] else ""
    yield "features", f"{facts['n_features']}, {facts['n_features_used']} of them used{categorical}"
    yield from kind.lines(facts)
    if facts["prepared_bytes"]:
        n_bytes = f"{facts['prepared_bytes']:,}"
        yield "prepared", f"{n_bytes} bytes of memory for mcb_prepare on this machine"
    link = LINKS[facts["link"]]
    if facts["link"] == "none" and facts["temperature"] is not None:
        link = "none: the temperature gives p = softmax(F)"
    yield "link", link
    if facts["temperature"] is not None:
        yield "temperature", f"{facts['temperature']:.4g}, by which F is divided"
    if "thresholds" in facts:
        thresholds = _first_of([f"{score:.4g}" for score in facts["thresholds"]])
        yield "thresholds", f"{thresholds}; a label is given where its F is above"
    for fact in facts["early_exits"]:
        facts_of_exit = [
            f"{name} {word(str(value))}" for name, value in fact.items() if name != "way"
        ]
        yield "early exit", f"{fact['way']} ({', '.join(facts_of_exit)})"
    if isinstance(params, dict):
        words = [f"{word(str(name))}={word(str(value))}" for name, value in sorted(params.items())]
        yield "parameters", " ".join(words)
    if facts["top_features"]:
        yield "top features", f"share in {kind.share_of}"
    for feature in facts["top_features"]:
        yield f"  {word(feature['name'])}", f"{feature['importance']:.4f}"


def make_parser():
    """The parser."""
    parser = Parser(PROGRAM, USAGE, description=DESCRIPTION, epilog=EXIT_CODES)
    parser.add_argument(
        "model_file", help=".mcb file written by mcboost-train or by save() in Python"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the same facts as one JSON object"
    )
    parser.add_argument(
        "--dump",
        choices=("text", "json"),
        help="print the whole model, with every split, leaf, coefficient and support vector in "
        "full precision",
    )
    parser.add_common()
    return parser


def info(argv):
    """Do what ``mcboost-info``'s arguments ask."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if arguments.dump and arguments.json:
        parser.error(
            "--json prints facts about the model and --dump prints the model itself; use one "
            "of them"
        )

    with importing():
        from pymcboost.model.kinds import KINDS
        from pymcboost.model.model import load_model

    model = load_named(load_model, arguments.model_file)
    if arguments.dump:
        with importing():
            from pymcboost.model import dump

        as_lines = dump.as_text if arguments.dump == "text" else dump.as_json
        sys.stdout.writelines(as_lines(model))
        return
    facts = describe(model, arguments.model_file)
    if arguments.json:
        print(json.dumps(facts, indent=2))
    else:
        print("\n".join(f"{name:<14}{text}" for name, text in lines(facts, KINDS[facts["kind"]])))


if __name__ == "__main__":
    sys.exit(main())
