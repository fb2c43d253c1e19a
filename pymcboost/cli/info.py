"""mcboost-info: what a model file holds. Needs NumPy only."""

import json
import sys

from pymcboost.cli.console import EXIT_CODES, Parser, run, word
from pymcboost.threads import counted

PROGRAM = "mcboost-info"
USAGE = f"{PROGRAM} [options] model_file"
DESCRIPTION = """\
Check a .mcb model file and print what it holds."""
TOP = 10
CLASSES_SHOWN = 20
KINDS = {1: "list of stumps", 2: "interval table", 3: "trees", 5: "linear machine", 6: "kernel machine"}
KERNELS = {
    "linear": "x . z",
    "poly": "(gamma x . z + coef0)^degree",
    "rbf": "exp(-gamma |x - z|^2)",
    "perceptron": "-|x - z|",
}
LINKS = {"none": "none: scores only", "softmax": "p = softmax(F)", "softmax2": "p = softmax(2 F)"}


def main(argv=None):
    """Run ``mcboost-info`` and return its exit status."""
    return run(PROGRAM, info, argv)


def describe(model, path):
    """Facts about a model as a dict that JSON can hold; what the training left for information is taken as it comes."""
    meta = model.meta
    names = meta.get("feature_names")
    names = names if isinstance(names, list) and len(names) == model.n_features_in_ else None
    base = 0 if meta.get("index_base") == 0 else 1
    features, shares = model.used_features()
    order = (-shares).argsort(kind="stable")[:TOP]
    facts = {
        "file": path,
        "bytes": len(model.to_bytes()),
        "kind": model.kind,
        "layout": model.layout,
        "link": model.link,
        "classes": model.classes_.tolist(),
        "n_features": model.n_features_in_,
        "n_features_used": len(features),
        "n_learners": model.n_learners,
        "n_rounds": model.n_rounds,
        "totally_corrective": not model.has_stages and not model.is_machine,
        "meta": meta,
        "top_features": [
            {"column": column, "name": str(names[column] if names else column + base), "importance": share}
            for column, share in zip(features[order].tolist(), shares[order].tolist(), strict=True)
        ],
    }
    if model.kind == 3:
        trees = model.ensemble
        depths = trees.depths()
        facts["trees"] = {
            "splits": len(trees.feature),
            "leaves": len(trees.leaf),
            "depth": int(depths.max(initial=0)),
            "mean_depth": float(depths.mean()) if len(depths) else 0.0,
            "leaf_values": trees.n_classes if trees.cls is None else 1,
            "leaf_type": model.leaves,
            "base_classes": trees.base is not None,
        }
    if model.kind == 6:
        machine = model.ensemble
        facts["kernel"] = {
            "name": machine.kernel,
            "gamma": machine.gamma,
            "coef0": machine.coef0,
            "degree": machine.degree,
            "support_vectors": len(machine),
            "scaled": machine.scale is not None,
        }
        facts["top_features"] = []  # there are no shares
    return facts


def lines(facts):
    """Yield the same facts as text."""
    meta, classes = facts["meta"], facts["classes"]
    params = meta.get("params")
    shown = " ".join(word(str(name)) for name in classes[:CLASSES_SHOWN]) + (" ..." if classes[CLASSES_SHOWN:] else "")
    learners = "merged" if facts["n_learners"] is None else facts["n_learners"]
    yield "file", f"{facts['file']}: {facts['bytes']:,} bytes, checksums good"
    yield "kind", f"{facts['kind']} ({KINDS[facts['kind']]})"
    if "algorithm" in meta:
        yield "algorithm", f"{word(str(meta['algorithm']))} (pymcboost {word(str(meta.get('version')))})"
    yield "classes", f"{len(classes)}: {shown}"
    yield "features", f"{facts['n_features']}, {facts['n_features_used']} of them used"
    trees, kernel = facts.get("trees"), facts.get("kernel")
    if trees:
        n, size = facts["n_learners"], facts["bytes"]
        rounds = ", totally corrective" if facts["totally_corrective"] else f" in {counted(facts['n_rounds'], 'round')}"
        yield "trees", f"{n}{rounds}" + (f", {size / n:.4g} bytes each" if n else "")
        yield (
            "leaves",
            f"{trees['leaves']}"
            + (f", {trees['leaves'] / n:.4g} a tree" if n else "")
            + (f"; {trees['leaf_values']} x {trees['leaf_type']}"),
        )
        yield "depth", f"at most {trees['depth']}, mean {trees['mean_depth']:.4g}"
    elif kernel:
        used = " ".join(
            f"{name}={kernel[name]:.6g}" for name in ("gamma", "coef0", "degree") if name in KERNELS[kernel["name"]]
        )
        yield "kernel", f"{kernel['name']}: {KERNELS[kernel['name']]}" + (f" with {used}" if used else "")
        yield "vectors", counted(kernel["support_vectors"], "support vector")
        yield "scaling", "in the model" if kernel["scaled"] else "none"
    elif facts["kind"] != 5:
        yield "learners", f"{learners}, totally corrective" if facts["totally_corrective"] else learners
    yield "link", LINKS[facts["link"]]
    if isinstance(params, dict):
        yield "parameters", " ".join(f"{word(str(name))}={word(str(value))}" for name, value in sorted(params.items()))
    if facts["top_features"]:
        what = "what moves the scores"
        if trees or facts["kind"] == 5:
            what = "the splits" if trees else "the sum of the absolute coefficients"
        yield "top features", f"share in {what}"
    for feature in facts["top_features"]:
        yield f"  {word(feature['name'])}", f"{feature['importance']:.4f}"


def info(argv):
    """Do what ``mcboost-info``'s arguments ask."""
    parser = Parser(PROGRAM, USAGE, description=DESCRIPTION, epilog=EXIT_CODES)
    parser.add_argument("model_file", help=".mcb file written by mcboost-train or by save() in Python")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_common()
    arguments = parser.parse_args(argv)

    from pymcboost.model.model import load_model

    facts = describe(load_model(arguments.model_file), arguments.model_file)
    if arguments.json:
        print(json.dumps(facts, indent=2))
    else:
        print("\n".join(f"{name:<14}{text}" for name, text in lines(facts)))


if __name__ == "__main__":
    sys.exit(main())
