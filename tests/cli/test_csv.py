"""CSV with a header as input: the models are those of the same numbers as LIBSVM text."""

import gzip
import re

import numpy as np
import pytest
from cli.programs import call, run, run_python
from cli.test_island import blocker

from pymcboost import (
    ABCLogitBoostClassifier,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
    load_model,
    load_svmlight,
)

NAMES = ["a", "b b", "c", "d", "e"]
UNLABELLED = "mcboost-predict: 60 of 60 rows have no label; they are predicted but do not count in the accuracy\n"


def write_csv(path, X, y=None, names=NAMES, label="kind", at=0):
    """Rows with the labels in the column ``at``; NaN is an empty cell."""
    lines = [list(names), *([f"{v:.9g}" if v == v else "" for v in row] for row in X.tolist())]
    if y is not None:
        for line, cell in zip(lines, [label, *y], strict=True):
            line.insert(at, str(cell))
    path.write_text("\n".join(",".join(line) for line in lines) + "\n")
    return path


@pytest.fixture
def data(files):
    return load_svmlight(files / "train.svm"), load_svmlight(files / "test.svm")


@pytest.mark.parametrize("options", [[], ["-a", "mart", "-w2", "3"], ["--layout", "interval"]])
def test_same_model_as_of_libsvm_text(files, tmp_path, data, options):
    train, test = data
    write_csv(tmp_path / "t.csv", train.X, train.y, at=2)
    completed = call("train", "-n", 9, *options, "--label", "kind", "t.csv", "m.mcb", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert (
        "t.csv: 180 rows, 5 features (dense), 3 classes (-1: 60, 2: 60, 7: 60)" in completed.stderr
    )
    assert (
        call(
            "train", "-q", "-n", 9, *options, files / "train.svm", "same.mcb", cwd=tmp_path
        ).returncode
        == 0
    )
    model, same = load_model(tmp_path / "m.mcb"), load_model(tmp_path / "same.mcb")
    assert model.meta == {**same.meta, "feature_names": NAMES, "label_column": "kind"}
    assert model.with_meta(same.meta).to_bytes() == same.to_bytes()
    expected = call("predict", "-b", 1, files / "test.svm", "same.mcb", "-", cwd=tmp_path)
    write_csv(tmp_path / "test.csv", test.X, test.y, at=5)
    prediction = call("predict", "-b", 1, "test.csv", "m.mcb", "-", cwd=tmp_path)
    assert (prediction.stdout, prediction.stderr) == (expected.stdout, expected.stderr)


def test_columns_go_by_their_names(tmp_path, data):
    train, test = data
    write_csv(tmp_path / "t.csv", train.X, train.y)
    assert call("train", "-q", "-n", 9, "t.csv", cwd=tmp_path).returncode == 0
    write_csv(tmp_path / "plain.csv", test.X)
    plain = call("predict", "-d", 1, "plain.csv", "t.csv.mcb", "-", cwd=tmp_path)
    assert (plain.returncode, plain.stderr) == (0, UNLABELLED)
    order = [3, 1, 4, 0, 2]
    more = np.column_stack([test.X[:, order], np.arange(60)])
    write_csv(
        tmp_path / "moved.csv", more, test.y, names=[*(NAMES[j] for j in order), "more"], at=3
    )
    moved = call("predict", "-d", 1, "moved.csv", "t.csv.mcb", "-", cwd=tmp_path)
    assert moved.stdout == plain.stdout
    assert moved.stderr.startswith("Accuracy = ")
    write_csv(tmp_path / "less.csv", test.X[:, 1:], test.y, names=NAMES[1:])
    completed = call("predict", "less.csv", "t.csv.mcb", "-", cwd=tmp_path)
    assert (completed.returncode, completed.stdout) == (2, "")
    assert (
        "less.csv:1: there is no column 'a'; the columns are 'kind', 'b b', 'c', 'd', 'e'\n"
        in completed.stderr
    )
    write_csv(tmp_path / "other.csv", test.X, test.y, label="truth")
    renamed = call(
        "predict", "-d", 1, "--label", "truth", "other.csv", "t.csv.mcb", "-", cwd=tmp_path
    )
    assert (renamed.stdout, renamed.stderr) == (moved.stdout, moved.stderr)
    assert (
        call("predict", "-d", 1, "other.csv", "t.csv.mcb", "-", cwd=tmp_path).stderr == UNLABELLED
    )


def test_text_labels(tmp_path, data):
    train, test = data
    words = {-1: "sea bass", 2: "2", 7: "trout"}
    y, truth = ([words[label] for label in part.y.tolist()] for part in data)
    write_csv(tmp_path / "t.csv", train.X, y, at=1)
    write_csv(tmp_path / "v.csv", test.X[:, ::-1], truth, names=NAMES[::-1], at=4)
    completed = call(
        "train", "-n", 9, "--label", "kind", "-P", "v.csv", "t.csv", "m.mcb", cwd=tmp_path
    )
    assert completed.returncode == 0, completed.stderr
    model = load_model(tmp_path / "m.mcb")
    same = MCBoostClassifier(n_estimators=9, random_state=0).fit(train.X, np.array(y))
    assert model.classes_.tolist() == ["2", "sea bass", "trout"]
    assert np.array_equal(model.raw_scores(test.X), same.model_.raw_scores(test.X))
    hits = int((model.predict(test.X) == np.array(truth)).sum())
    assert f"validation error {100 - 100 * hits / 60:.4g}%" in completed.stderr
    completed = call("predict", "--report", "v.csv", "m.mcb", "out", cwd=tmp_path)
    assert completed.stdout.startswith(
        f"Accuracy = {100 * hits / 60:g}% ({hits}/60) (classification)\nclass "
    )
    folds = call("train", "-q", "-n", 5, "-v", 3, "--label", "kind", "t.csv", cwd=tmp_path)
    assert len(folds.stdout.splitlines()) == 3
    write_csv(tmp_path / "v.csv", test.X, ["cod", "", *truth[2:]])
    completed = call("predict", "v.csv", "m.mcb", "out", cwd=tmp_path)
    assert "1 of 60 rows has no label" in completed.stderr
    assert (
        "1 of 59 rows has a label that the model does not know (cod); they count as errors"
        in completed.stderr
    )


def test_numbers_as_they_may_be_written(tmp_path):
    rows = [
        '\ufeffkind, x ,"y, z"',
        '1,0.5,"2"',
        "+1.0, 1e2 ,N/A",
        "2,,-3",
        "",
        "2.0,NaN,NA",
        "1,null,+.5",
    ]
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress("\r\n".join(rows).encode()))
    completed = call("train", "-n", 2, "t.csv.gz", "m.mcb", cwd=tmp_path)
    assert "5 rows, 2 features (dense), 2 classes (1: 3, 2: 2)" in completed.stderr
    assert load_model(tmp_path / "m.mcb").meta["feature_names"] == ["x", "y, z"]
    (tmp_path / "same.svm").write_text(
        "1 1:0.5 2:2\n1 1:100 2:nan\n2 1:nan 2:-3\n2 1:nan 2:nan\n1 1:nan 2:0.5\n"
    )
    assert call("train", "-q", "-n", 2, "same.svm", cwd=tmp_path).returncode == 0
    one, other = load_model(tmp_path / "m.mcb"), load_model(tmp_path / "same.svm.mcb")
    assert one.with_meta(other.meta).to_bytes() == other.to_bytes()


def test_standard_input_and_models_without_names(files, data, tmp_path):
    train, test = data
    text = write_csv(tmp_path / "t", train.X, train.y).read_text()
    completed = run(
        "train", "-q", "-n", 30, "--format", "csv", "-", "m.mcb", cwd=tmp_path, stdin=text
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    expected = call("predict", files / "test.svm", files / "model.mcb", "-")
    for options in ({"y": test.y}, {}):
        write_csv(tmp_path / "u.csv", test.X, **options)
        prediction = call("predict", "u.csv", files / "model.mcb", "-", cwd=tmp_path)
        assert (prediction.stdout, prediction.stderr) == (
            expected.stdout,
            expected.stderr if options else UNLABELLED,
        )
    write_csv(tmp_path / "u.csv", test.X[:, :3], names=NAMES[:3])
    completed = call("predict", "u.csv", files / "model.mcb", "-", cwd=tmp_path)
    assert (
        "u.csv:1: the file has 3 feature columns, but the model needs 5 and has no column names\n"
        in completed.stderr
    )


def test_infinity_is_scored_where_it_is_written(files, tmp_path):
    for value, status in (("inf", 0), ("-Infinity", 0), ("1e400", 0), ("1e39", 2)):
        (tmp_path / "t.csv").write_text(f"a,b,c,d,e\n1,2,3,4,{value}\n")
        completed = call("predict", "t.csv", files / "model.mcb", "out", cwd=tmp_path)
        assert completed.returncode == status
        assert ("t.csv: column 'e', row 1: 1e+39 is too large for float32" in completed.stderr) == (
            status == 2
        )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "t.csv:1: the line with the column names is missing"),
        ("y,a,a\n1,2,3\n", "t.csv:1: the column name 'a' occurs twice"),
        ("y,a\n", "t.csv: the file has no row of data"),
        (
            "y\n1\n",
            "t.csv:1: there is no column besides that of the labels; set the column separator with --separator",
        ),
        (
            "y,a\n1,2\n\n1,2,3\n",
            "t.csv: Error tokenizing data. C error: Expected 2 fields in line 3, saw 3; ",
        ),
        (
            "y,a\n1,2\n1,gas\n",
            "t.csv: column 'a' has 'gas' in row 2; features must be numbers, or empty if",
        ),
        (
            "a,y\n1,no\n",
            "t.csv: column 'y' has 'no' in row 1; features must be numbers, or empty if missing. If "
            "this column holds the labels, give --label y. If it holds categories, train with --categorical-features y",
        ),
        ("y,a\n1,1_0\n", "t.csv: column 'a' has '1_0' in row 1; features must be numbers"),
        (
            "y,a\n1,1e99\n",
            "t.csv: column 'a', row 1: 1e+99 is too large for float32 (about 3.4e38); scale it",
        ),
        ("y,a\n1,2,3\n2,2,3\n", "t.csv: Length of header or names does not match length of data."),
        ("y,a\n1,?\n", "t.csv: column 'a' has '?' in row 1; features must be numbers"),
        ("y,a\n1,1e400\n", "t.csv: row 1 has inf for the feature 'a'"),
        (
            "1,1.5,0.5\n2,1,3\n",
            "t.csv:1: the column name '1' is a number; if the first line is a row of data, give "
            "--no-header, and if it names the columns, give --header",
        ),
        ("cat,1.5\ndog,2\n", "t.csv:1: the column name '1.5' is a number"),
        (
            "y,a\nx,1\nNA,2\nz,3\n",
            "t.csv: row 2 has no label in the column 'y'; training needs one in each",
        ),
        (
            "y,a\nnan,1\nx,2\n",
            "t.csv: row 1 has no label in the column 'y'; training needs one in each",
        ),
        (
            "y,a\n1,2\n,3\n",
            "t.csv: row 2 has no label in the column 'y'; training needs one in each",
        ),
        (
            "y,a\n1,2\n2,-inf\n",
            "t.csv: row 2 has -inf for the feature 'a'; write nan for a missing value",
        ),
    ],
)
def test_what_is_refused(tmp_path, text, said):
    (tmp_path / "t.csv").write_text(text)
    completed = call("train", "-n", 2, "t.csv", cwd=tmp_path)
    assert (completed.returncode, len(completed.stderr.splitlines())) == (2, 1)
    assert completed.stderr.startswith(f"mcboost-train: error: {said}")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("y,a\n1,2\n2,3\n", [], ["labels from the first column, 'y' (--label names another)"]),
        ("y,a\n1,2\n2,3\n", ["--label", "a"], []),
        ("e,e1\n1,2\n2,3\n", ["--label", "e"], []),
        ("y,1\n1,2\n2,3\n", ["--header"], ["labels from the first column, 'y' (--label names another)"]),
        ("1,2\n2,3\n1,5\n", ["--no-header"], ["labels from the first column, '1' (--label names another)"]),
        ("y,a\n1,2\n2,3\n", ["--label", "2"], []),
    ],
)  # fmt: skip
def test_which_columns_are_said(tmp_path, text, options, said):
    (tmp_path / "t.csv").write_text(text)
    completed = call("train", "-n", 2, *options, "t.csv", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    found = [line for line in completed.stderr.splitlines() if "column" in line]
    assert found == [f"mcboost-train: t.csv: {words}" for words in said]


def test_other_refusals(tmp_path, data):
    write_csv(tmp_path / "t.csv", data[0].X, data[0].y)
    completed = call("train", "--label", "Kind", "t.csv", cwd=tmp_path)
    assert "t.csv:1: there is no column 'Kind'; the columns are 'kind', 'a'" in completed.stderr
    write_csv(tmp_path / "v.csv", data[1].X, ["x", *data[1].y[1:]])
    completed = call("train", "-P", "v.csv", "t.csv", cwd=tmp_path)
    assert (
        "v.csv: the label 'x' is not an integer, but the labels of the training file are"
        in completed.stderr
    )
    (tmp_path / "t.csv").write_bytes(b"y,a\n1,\xff\n")
    completed = call("train", "t.csv", cwd=tmp_path)
    assert (
        completed.returncode,
        "expected comma-separated values in UTF-8" in completed.stderr,
    ) == (2, True)


@pytest.mark.parametrize(
    "cls", [VectorTreeBoostClassifier, ABCLogitBoostClassifier, MCBoostClassifier]
)
def test_categories_score_as_in_python(tmp_path, cls):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    colour, size = (
        np.array(["red", "green", "blue", "odd one"])[rng.integers(0, 4, 200)],
        rng.integers(0, 30, 200),
    )
    X = pandas.DataFrame({"colour": colour, "size": size, "weight": rng.integers(0, 9, 200) / 2})
    y = ((colour == "red") + (size % 3 == 1)).astype(int)
    X.assign(kind=y).to_csv(tmp_path / "t.csv", index=False)
    options = [
        "-q",
        "-a",
        cls.algorithm,
        "-n",
        5,
        "--label",
        "kind",
        "--categorical-features",
        "colour,size",
    ]
    completed = call("train", *options, "-P", "t.csv", "t.csv", "m.mcb", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    model = load_model(tmp_path / "m.mcb")
    assert model.categories.names[0] == ["blue", "green", "odd one", "red"]
    X.loc[:9, "colour"] = ["mauve", None] * 5
    X.to_csv(tmp_path / "new.csv", index=False)
    prediction = call("predict", "-d", 1, "new.csv", "m.mcb", "-", cwd=tmp_path)
    scores = [
        [float(value) for value in line.split()[1:]] for line in prediction.stdout.splitlines()[1:]
    ]
    assert np.array(scores).tobytes() == model.raw_scores(X).tobytes()
    python = cls(n_estimators=5, random_state=0, categorical_features=["colour", "size"])
    rows = pandas.read_csv(tmp_path / "t.csv")
    rows["size"] = rows["size"].astype("category")
    python.fit(rows.drop(columns=["kind"]), y, None, rows.drop(columns=["kind"]), y)
    assert python.decision_function(X.astype({"size": "category"})).tobytes() == (
        model.decision_function(X).tobytes()
    )


def test_wrong_categories_are_explained(tmp_path, files):
    (tmp_path / "t.csv").write_text("kind,a,b\n1,x,2\n2,y,3\n")
    for arguments, message in (
        (
            ["-a", "hingeboost", "t.csv", "--categorical-features", "a"],
            "category; hingeboost does not support categories",
        ),
        (
            ["-a", "vector-tree", files / "train.svm", "--categorical-features", "a"],
            "of a CSV or Parquet file; LIBSVM",
        ),
        (
            ["-a", "vector-tree", "t.csv", "--categorical-features", "c"],
            "there is no column 'c'; the columns are 'a', 'b'",
        ),
        (
            ["--layout", "interval", "t.csv", "--categorical-features", "a"],
            "--layout interval cannot store categories; leave out --layout or --categ",
        ),
        (
            ["-a", "vector-tree", "t.csv"],
            "'a' has 'x' in row 1; .* --label a.*--categorical-features a",
        ),
    ):
        completed = call("train", *arguments, cwd=tmp_path)
        assert completed.returncode in (1, 2)
        assert re.search(message, completed.stderr), completed.stderr


def test_quotes_that_are_not_closed_lose_nothing(tmp_path):
    rows = [f"{i % 2},{i % 7},{'red' if i % 3 else 'blue'}" for i in range(60)]
    (tmp_path / "good.csv").write_text("\n".join(["label,x,colour", *rows]) + "\n")
    rows[20] = rows[20].replace("red", '"red')
    (tmp_path / "open.csv").write_text("\n".join(["label,x,colour", *rows]) + "\n")
    arguments = [
        "-n",
        3,
        "-a",
        "vector-tree",
        "--min-samples-category",
        2,
        "--categorical-features",
        "colour",
    ]
    assert call("train", "-q", *arguments, "good.csv", "m.mcb", cwd=tmp_path).returncode == 0
    for done in (
        call("train", *arguments, "open.csv", "n.mcb", cwd=tmp_path),
        call("predict", "open.csv", "m.mcb", "-", cwd=tmp_path),
    ):
        assert done.returncode == 2 and not done.stdout
        assert (
            "EOF inside string starting at row 20; a quote may be unclosed, or a row" in done.stderr
        )


def test_levels_have_the_names_of_python(tmp_path):
    """Whole numbers with a point, as pandas writes integers beside missing values, and levels that read as missing."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    code, mark = (
        rng.integers(0, 12, 400).astype(float),
        np.array(["?", "a", "b"])[rng.integers(0, 3, 400)],
    )
    y = (code % 3 == 1) * 2 + (mark == "?")
    code[rng.random(400) < 0.1] = np.nan
    frame = pandas.DataFrame({"y": y.astype(int), "code": code, "mark": mark})
    frame.to_csv(tmp_path / "t.csv", index=False)
    X = frame[["code", "mark"]].astype({"code": "category"})
    trees = VectorTreeBoostClassifier(
        n_estimators=9, categorical_features=["code", "mark"], min_samples_category=2
    )
    model = trees.fit(X, y).model_
    model.save(tmp_path / "p.mcb")
    completed = call("predict", "-b", 1, "--label", "y", "t.csv", "p.mcb", "out", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    lines = (tmp_path / "out").read_text().splitlines()[1:]
    found = np.array([[float(part) for part in line.split()[1:]] for line in lines])
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-5)
    options = [
        "-q",
        "-a",
        "vector-tree",
        "-n",
        9,
        "--label",
        "y",
        "--categorical-features",
        "code,mark",
    ]
    assert call("train", *options, "t.csv", "c.mcb", cwd=tmp_path).returncode == 0
    names = load_model(tmp_path / "c.mcb").categories.names
    assert names == (sorted(map(str, range(12))), ["?", "a", "b"])


def test_weights_of_text_labels(tmp_path, data):
    X, y = data[0].X, np.array(["3", "x", "7"])[np.arange(180) % 3]
    write_csv(tmp_path / "t.csv", X, y)
    assert call("train", "-q", "-n", 5, "-w3", 2.5, "t.csv", "m.mcb", cwd=tmp_path).returncode == 0
    same = MCBoostClassifier(
        n_estimators=5, random_state=0, class_weight={"3": 2.5, "7": 1, "x": 1}
    ).fit(X, y)
    assert np.array_equal(load_model(tmp_path / "m.mcb").raw_scores(X), same.model_.raw_scores(X))
    completed = call(
        "tune", "-p", 1, "-n", "2,3", "-v", 2, "-w3", 2.5, "-w8", 2, "t.csv", cwd=tmp_path
    )
    best = completed.stdout.splitlines()[-1].removeprefix("Best: ").split()
    assert call("train", "-q", *best, "-w3", 2.5, "t.csv", "same.mcb", cwd=tmp_path).returncode == 0
    assert (tmp_path / "t.csv.mcb").read_bytes() == (tmp_path / "same.mcb").read_bytes()
    assert re.findall("no row has the label .*", completed.stderr) == [
        "no row has the label 8; its weight is not used"
    ]
    y = np.array(["03", "x", "+7"])[np.arange(180) % 3]
    write_csv(tmp_path / "t.csv", X, y)
    completed = call(
        "train", "-n", 5, "-w03", 2.5, "-w+7", 3, "-w3", 9, "t.csv", "m.mcb", cwd=tmp_path
    )
    assert re.findall("no row has the label .*", completed.stderr) == [
        "no row has the label 3; its weight is not used"
    ]
    same = MCBoostClassifier(
        n_estimators=5, random_state=0, class_weight={"03": 2.5, "+7": 3, "x": 1}
    ).fit(X, y)
    assert np.array_equal(load_model(tmp_path / "m.mcb").raw_scores(X), same.model_.raw_scores(X))


def test_long_labels(tmp_path):
    label = 2**53
    (tmp_path / "t.csv").write_text(f"y,a\n{label},1\n+{label}.0,2\n{label}.,3\n7,4\n")
    completed = call("train", "-n", 2, "t.csv", "m.mcb", cwd=tmp_path)
    assert f"2 classes (7: 1, {label}: 3)" in completed.stderr
    for beyond in (f"{label + 1}", f"-{label + 1}.0", "9" * 600):
        (tmp_path / "t.csv").write_text(f"y,a\n{beyond},1\n7,2\n")
        completed = call("train", "-n", 2, "t.csv", cwd=tmp_path)
        shown = beyond if len(beyond) <= 40 else beyond[:37] + "..."
        said = f"t.csv: label '{shown}' is out of range; labels must be finite and within +-2^53"
        assert completed.returncode == 2 and f"error: {said}" in completed.stderr
    (tmp_path / "t.csv").write_text(f"y,a\n{label + 1},1\nx,2\n{label + 2},3\n")
    assert "3 classes (" in call("train", "-n", 2, "t.csv", cwd=tmp_path).stderr


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", ":"])
def test_separators_are_told_apart(tmp_path, separator):
    rows = [["y", "a b", "c"], ["1", "0.5", "2"], ["2", "1e2", ""], ["1", "3", "4"]]
    (tmp_path / "t.csv").write_text("\n".join(map(separator.join, rows)) + "\n")
    (tmp_path / "same.csv").write_text("\n".join(map(",".join, rows)) + "\n")
    options = ["--separator", ":"] if separator == ":" else []
    for name, more in (("t.csv", options), ("same.csv", [])):
        completed = call("train", "-q", "-n", 2, *more, name, f"{name}.mcb", cwd=tmp_path)
        assert completed.returncode == 0, completed.stderr
    assert (tmp_path / "t.csv.mcb").read_bytes() == (tmp_path / "same.csv.mcb").read_bytes()
    if separator == "\t":
        (tmp_path / "t.csv").rename(tmp_path / "t.tsv")
        assert (
            call(
                "train", "-q", "-n", 2, "--separator", "tab", "t.tsv", "u.mcb", cwd=tmp_path
            ).returncode
            == 0
        )
        assert (tmp_path / "u.mcb").read_bytes() == (tmp_path / "same.csv.mcb").read_bytes()


@pytest.mark.parametrize("at", [0, 5])
def test_no_row_is_lost_without_a_header(files, tmp_path, data, at):
    train, test = data
    write_csv(tmp_path / "t.csv", train.X, train.y, at=at)
    for name, part in (("t.csv", train), ("u.csv", test)):
        write_csv(tmp_path / name, part.X, part.y, at=at)
        lines = (tmp_path / name).read_text().splitlines(keepends=True)
        (tmp_path / name).write_text("".join(lines[1:]))
    label = ["--label", at + 1]
    completed = call(
        "train", "-n", 30, "--no-header", *label, "-P", "u.csv", "t.csv", "m.mcb", cwd=tmp_path
    )
    assert completed.returncode == 0 and "t.csv: 180 rows, 5 features" in completed.stderr
    same = load_model(files / "model.mcb")
    assert np.array_equal(
        load_model(tmp_path / "m.mcb").raw_scores(test.X), same.raw_scores(test.X)
    )
    expected = call("predict", files / "test.svm", files / "model.mcb", "-")
    prediction = call("predict", "--no-header", "u.csv", "m.mcb", "-", cwd=tmp_path)
    assert (prediction.stdout, prediction.stderr) == (expected.stdout, expected.stderr)
    assert call("predict", "u.csv", "m.mcb", "-", cwd=tmp_path).returncode == 2
    write_csv(tmp_path / "plain.csv", test.X)
    assert call("predict", "plain.csv", "m.mcb", "-", cwd=tmp_path).stdout == expected.stdout


def test_columns_whose_names_are_numbers_are_known_to_the_model(tmp_path, data):
    train, test = data
    write_csv(tmp_path / "t.csv", train.X, train.y, names="01234")
    assert (
        call(
            "train", "-q", "-n", 3, "--header", "-P", "t.csv", "t.csv", "m.mcb", cwd=tmp_path
        ).returncode
        == 0
    )
    assert call("predict", "-q", "t.csv", "m.mcb", "-", cwd=tmp_path).returncode == 0


def test_labels_stay_as_they_are_written(tmp_path):
    (tmp_path / "t.csv").write_text("y,a\n007,1\n7,2\n1.50,3\n")
    assert call("train", "-q", "-n", 2, "t.csv", cwd=tmp_path).returncode == 0
    assert load_model(tmp_path / "t.csv.mcb").classes_.tolist() == ["007", "1.50", "7"]


def test_without_pandas_the_message_says_what_to_install(tmp_path):
    (tmp_path / "t.csv").write_text("y,a\n1,2\n2,3\n")
    code = f"{blocker(['pandas'])}\nfrom pymcboost.cli.train import main\nsys.argv[1:] = ['t.csv']\nsys.exit(main())"
    completed = run_python(code, cwd=tmp_path)
    assert completed.returncode == 2
    assert (
        't.csv: CSV files need pandas (blocked: pandas): python -m pip install "pymcboost[csv]", or'
        in completed.stderr
    )


def test_a_first_line_without_end_is_refused(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a," * (1 << 24)))
    completed = call("train", "t.csv.gz", cwd=tmp_path)
    assert (
        completed.returncode == 2
        and "the first line has more than 16 MiB; check that the file" in completed.stderr
    )


@pytest.mark.parametrize("name", ["t.csv", "t.svm"])
@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"\xff\xfe1\0,\0", "this is UTF-16 text; convert it"),
        (b"\xfe\xff\0001\0,", "this is UTF-16 text; convert it"),
        (b"(\xb5/\xfd\x04", "this is a zstd archive; decompress it"),
        (b"PK\x03\x04\x14", "this is a zip archive; extract the file first"),
        (b"]\0\0\x80\0", "this is a .lzma archive; decompress it"),
        (b"\x1f\x8b\x08", "this is compressed data; its name must end with .gz"),
        (b"PAR1", "this is a Parquet file; its name must end in .parquet"),
    ],
)
def test_other_formats_are_named_as_what_they_are(tmp_path, name, start, said):
    (tmp_path / name).write_bytes(start)
    completed = call("train", name, cwd=tmp_path)
    assert completed.returncode == 2 and said in completed.stderr, completed.stderr


@pytest.mark.parametrize("options", [[], pytest.param(["--no-header"], marks=pytest.mark.slow)])
def test_a_line_without_an_end_after_the_first_is_refused_in_little_memory(options, tmp_path):
    """It is 200 MB, and 200 kB as an archive."""
    path = tmp_path / "rows.csv.gz"
    first = b"a,b,kind\n" if not options else b"1,2,0\n"
    path.write_bytes(gzip.compress(first) + 200 * gzip.compress(b"1" * 1_000_000))
    column = "3" if options else "kind"
    arguments = [str(path), str(tmp_path / "m"), "--label", column, *options]
    code = f"""
import sys
from pymcboost.cli.train import main
sys.argv[1:] = {arguments}
try:
    status = main()
except SystemExit as end:
    status = end.code
# The peak of getrusage begins with that of the process that started this one.
lines = open("/proc/self/status").read().splitlines()
print(status, next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM")))
"""
    completed = run_python(code)
    status, megabytes = map(int, completed.stdout.split())
    assert (
        status == 2
        and "a line has more than 16 MiB; check that the file has line breaks" in completed.stderr
    )
    assert megabytes < 350
