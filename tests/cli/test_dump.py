"""mcboost-info --dump: the scores follow from what docs/json.md says of it, and from nothing else."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from cli.programs import call

from pymcboost import HingeBoostOCClassifier, VectorTreeBoostClassifier, load_model, load_svmlight
from pymcboost.registry import ALGORITHMS

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
TREES = [name for name in sorted(ALGORITHMS) if name != "hingeboost"]
MODELS = [
    *TREES,
    *(
        f"{name} --weak-learner tree --max-leaf-nodes 5"
        for name in ("mcboost", "multiboost", "adaboost-oc", "piboost")
    ),
    "adaboost-mo --decoder hamming",
    "adaboost-mo --decoder linear --weak-learner tree",
    "mcboost --layout interval",
    "mcboost --layout interval",
    "vector-tree --calibrate none --min-samples-leaf 1",
]
MACHINES = [
    "hingeboost",
    *(f"hingeboost -t {kernel} --scale -g 0.3 -r 1 -d 2" for kernel in (0, 1, 2, 5)),
    "hingeboost -t 2 --calibrate temperature",
]


def dumped(path, cwd):
    completed = call("info", "--dump", "json", path, cwd=cwd)
    assert (completed.returncode, completed.stderr) == (0, "")
    return json.loads(completed.stdout)


def leaf(nodes, x):
    node = nodes[0]
    while "value" not in node:
        value = x[node["feature"]]
        side = (
            node["missing"]
            if np.isnan(value)
            else "left"
            if value <= node["threshold"]
            else "right"
        )
        node = nodes[node[side]]
    return node["value"]


def decoded(model, sums):
    margins = np.array(model["code"]) * sums[:, None]
    if model["decoder"] == "hamming":
        return np.array(model["bias"]) - (margins < 0).sum(axis=0) - (margins == 0).sum(axis=0) / 2
    return np.array(model["bias"]) - np.log(np.exp(-margins).sum(axis=0))


def by_trees(model, x):
    F = np.array(model["bias"])
    columns = np.zeros(len(model["code"] or ()))
    for tree in model["trees"]:
        value = leaf(tree["nodes"], x)
        if tree["class"] is None:
            F += value
        elif model["decoder"] != "linear":
            columns[tree["class"]] += value
        elif model["code"] is not None:
            F += value * np.array(model["code"][tree["class"]])
        else:
            F[tree["class"]] += value
            if tree["base"] is not None:
                F[tree["base"]] -= value
    return F if model["decoder"] == "linear" else decoded(model, columns)


def by_intervals(model, x):
    F = np.array(model["bias"])
    for one in model["features"]:
        value = x[one["feature"]]
        F += (
            one["missing"]
            if np.isnan(value)
            else one["values"][sum(t < value for t in one["thresholds"])]
        )
    return F


def by_coefficients(model, x):
    return np.array(model["bias"]) + np.array(model["coef"]) @ x


def by_kernel(model, x):
    about = model["kernel"]
    F = np.array(model["bias"])
    if model["scale"] is not None:
        x = ((x - np.array(model["scale"]["offset"])) * np.array(model["scale"]["factor"])).astype(
            np.float32
        )
    for vector in model["support"]:
        z = np.array(vector["x"])
        value = {
            "linear": x @ z,
            "poly": (about["gamma"] * (x @ z) + about["coef0"]) ** about["degree"],
            "rbf": np.exp(-about["gamma"] * ((x - z) ** 2).sum()),
            "perceptron": -np.sqrt(((x - z) ** 2).sum()),
        }[about["kernel"]]
        F += value * np.array(vector["coef"])
    return F


RULES = {
    "trees": by_trees,
    "intervals": by_intervals,
    "linear": by_coefficients,
    "kernel": by_kernel,
}


@pytest.mark.parametrize("options", MODELS + MACHINES)
def test_scores_follow_from_the_dump(files, tmp_path, options):
    rows = (files / "train.svm").read_text()
    if options not in MACHINES:  # of every class some values are missing
        rows = re.sub(r"(?m)^(.*[05] 2:)\S+ 3:\S+", r"\1nan 3:nan", rows)
        assert rows.count("nan") > 20
    (tmp_path / "t.svm").write_text(rows)
    completed = call("train", "-q", "-n", 9, "-a", *options.split(), "t.svm", "m.mcb", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    model = load_model(tmp_path / "m.mcb")
    dump = dumped("m.mcb", tmp_path)
    X = load_svmlight(files / "test.svm").X
    exact = options not in MACHINES and dump["decoder"] != "exp"
    if options not in MACHINES:
        X[::7, 1] = X[::5, 3] = np.nan
    expected = model.raw_scores(X)
    scores = np.array([RULES[dump["kind"]](dump, x) for x in X.astype(float)])
    if exact:
        assert np.array_equal(scores, expected)
    else:
        np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)
    about = [
        dump[name] for name in ("classes", "n_features", "link", "temperature", "bias", "meta")
    ]
    assert about[:4] == [[-1, 2, 7], 5, model.link, model.temperature]
    assert about[4:] == [model.ensemble.bias.tolist(), model.meta]
    if dump["kind"] == "trees":
        assert (len(dump["trees"]), sum(dump["rounds"]), len(dump["rounds"])) == (
            model.n_learners,
            model.n_learners,
            model.n_rounds,
        )


def test_the_page_names_every_key(files, tmp_path):
    keys = set()

    def gather(value, name=""):
        if isinstance(value, dict):
            keys.update(value)
            for own, part in value.items():
                if own != "meta":
                    gather(part)
        elif isinstance(value, list):
            for part in value:
                gather(part)

    for options in ("mart", "mcboost --layout interval", "hingeboost", "hingeboost -t 2 --scale"):
        call(
            "train",
            "-q",
            "-n",
            2,
            "-a",
            *options.split(),
            files / "train.svm",
            "m.mcb",
            cwd=tmp_path,
        )
        gather(dumped("m.mcb", tmp_path))
    assert keys <= set(re.findall(r"`(\w+)`", PAGE))


def test_text_has_a_line_for_every_node(files, tmp_path):
    assert (
        call(
            "train", "-q", "-n", 3, "-a", "abc-mart", files / "train.svm", "m.mcb", cwd=tmp_path
        ).returncode
        == 0
    )
    text = call("info", "--dump", "text", "m.mcb", cwd=tmp_path).stdout.splitlines()
    dump = dumped("m.mcb", tmp_path)
    begin = next(i for i, line in enumerate(text) if line.startswith("tree 0"))
    assert [line.split(" ", 1)[0] for line in text[:begin]] == [
        n for n in dump if n not in ("feature_names", "trees")
    ]
    lines = iter(text[begin:])
    for number, tree in enumerate(dump["trees"]):
        less = "" if tree["base"] is None else f", less class {dump['classes'][tree['base']]}"
        assert next(lines) == f"tree {number}: class {dump['classes'][tree['class']]}{less}"
        for at, node in enumerate(tree["nodes"]):
            if "value" in node:
                assert next(lines) == f"  {at}: {node['value']!r}"
            else:
                split = f"x{node['feature'] + 1} <= {node['threshold']!r} ? {node['left']} : {node['right']}"
                assert next(lines) == f"  {at}: {split}, missing {node[node['missing']]}"
    assert next(lines, None) is None


def test_names_of_features_and_classes(tmp_path, blobs):
    pandas = pytest.importorskip("pandas")
    X, y = blobs
    frame = pandas.DataFrame(X, columns=["a b", "c", "d", "e", "f"])
    names = np.array(["sea bass", "2", "trout"])[np.searchsorted([-1, 2, 7], y)]
    HingeBoostOCClassifier(n_estimators=2).fit(frame, names).save(tmp_path / "linear.mcb")
    VectorTreeBoostClassifier(n_estimators=2, min_samples_leaf=1).fit(frame, names).save(
        tmp_path / "trees.mcb"
    )
    dump = dumped("trees.mcb", tmp_path)
    assert (dump["feature_names"], dump["classes"]) == (
        [*frame.columns],
        ["2", "sea bass", "trout"],
    )
    text = call("info", "--dump", "text", "trees.mcb", cwd=tmp_path).stdout
    assert re.search(r'^  0: "(a b|c|d|e|f)" <= ', text, re.M)
    text = call("info", "--dump", "text", "linear.mcb", cwd=tmp_path).stdout
    assert re.search(r'^class "sea bass": "a b":', text, re.M)


def test_chains_of_any_depth(tmp_path):
    """No recursion, neither here nor in who reads it."""
    from pymcboost import Model
    from pymcboost.model.builders import TreesBuilder

    n = 5000
    builder = TreesBuilder(2, 1)
    builder.add_tree(
        [0] * n,
        np.arange(n),
        [False] * n,
        right=np.ones(n, int),
        leaf=np.arange(n + 1) * 0.5,
        cls=0,
    )
    builder.end_round()
    Model.from_ensemble(builder.freeze(), [0, 1]).save(tmp_path / "deep.mcb")
    model = load_model(tmp_path / "deep.mcb")
    dump = dumped("deep.mcb", tmp_path)
    x = np.array([[17.5], [4999.5], [-1.0]])
    assert [by_trees(dump, row).tolist() for row in x] == model.raw_scores(x).tolist()
    assert len(call("info", "--dump", "text", "deep.mcb", cwd=tmp_path).stdout.splitlines()) > 2 * n


@pytest.mark.parametrize("above", [0.0, [0.25, 0.0, -1.5]])
def test_thresholds_of_labels(tmp_path, above):
    from pymcboost import Model
    from pymcboost.model.builders import TreesBuilder

    model = Model.from_ensemble(
        TreesBuilder(3, 1).freeze(), [4, 5, 6], link="sigmoid"
    ).with_thresholds(above)
    model.save(tmp_path / "m.mcb")
    expected = above if any(model.thresholds) else None
    assert dumped("m.mcb", tmp_path).get("thresholds") == expected
    assert ("thresholds" in call("info", "--dump", "text", "m.mcb", cwd=tmp_path).stdout) == (
        expected is not None
    )
    assert (
        json.loads(call("info", "--json", "m.mcb", cwd=tmp_path).stdout).get("thresholds")
        == expected
    )
    line = re.search("^thresholds +(.*)$", call("info", "m.mcb", cwd=tmp_path).stdout, re.M)
    assert (line and line[1]) == (expected and "0.25 0 -1.5; a label is given where its F is above")


def test_dump_and_json_exclude_each_other(files):
    completed = call("info", "--json", "--dump", "text", files / "model.mcb")
    assert (completed.returncode, "use one of them" in completed.stderr) == (1, True)
