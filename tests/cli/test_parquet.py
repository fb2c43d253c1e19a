"""Parquet as input: the models are those of the same values as CSV."""

import subprocess

import numpy as np
import pytest
from cli.programs import call, command, environment, run_python
from cli.test_island import blocker

from pymcboost import load_model

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def write(path, columns):
    parquet.write_table(arrow.table(columns), path)


def as_csv(path, columns):
    names = list(columns)
    rows = zip(*(columns[name].to_pylist() for name in names), strict=True)
    text = "".join(
        ",".join("" if value is None else str(value) for value in row) + "\n" for row in rows
    )
    path.write_text(",".join(names) + "\n" + text)


@pytest.fixture
def columns(blobs):
    X, y = blobs
    made = {"kind": arrow.array([f"c{label}" for label in y])}
    made |= {name: arrow.array(X[:, j].astype(np.float64)) for j, name in enumerate("abc")}
    made["whole"] = arrow.array(np.round(X[:, 3] * 5).astype(np.int32))
    made["flag"] = arrow.array(np.where(X[:, 4] > 0, 1, 0).astype(np.uint8))
    made["missing"] = arrow.array([None if i % 7 == 0 else float(i % 5) for i in range(len(y))])
    return made


def test_the_same_bytes_as_from_csv(tmp_path, columns):
    write(tmp_path / "t.parquet", columns)
    as_csv(tmp_path / "t.csv", columns)
    for name in ("t.parquet", "t.csv"):
        completed = call("train", "-n", 9, name, f"{name}.mcb", cwd=tmp_path)
        assert completed.returncode == 0, completed.stderr
    assert (tmp_path / "t.parquet.mcb").read_bytes() == (tmp_path / "t.csv.mcb").read_bytes()
    model = load_model(tmp_path / "t.parquet.mcb")
    assert model.feature_names == [*"abc", "whole", "flag", "missing"]
    turned = {name: columns[name] for name in reversed(columns)}
    write(tmp_path / "turned.parquet", {"more": columns["kind"], **turned})
    names = ("t.csv", "t.parquet", "turned.parquet")
    outs = [call("predict", "-b", 1, name, "t.csv.mcb", "-", cwd=tmp_path) for name in names]
    assert outs[0].returncode == 0 and outs[0].stdout == outs[1].stdout == outs[2].stdout
    assert outs[0].stderr == outs[1].stderr == outs[2].stderr


def test_kinds_of_labels(tmp_path, columns):
    numbers = arrow.array([i % 3 for i in range(240)])
    texts = arrow.array([f"c{i % 3}" for i in range(240)])
    for name, labels in (
        ("int", numbers),
        ("dictionary", texts.dictionary_encode()),
        ("text", texts),
    ):
        write(tmp_path / name, {**columns, "kind": labels})
        completed = call(
            "train",
            "-q",
            "-n",
            4,
            "--format",
            "parquet",
            "--label",
            "kind",
            name,
            f"{name}.mcb",
            cwd=tmp_path,
        )
        assert completed.returncode == 0, completed.stderr
    assert load_model(tmp_path / "int.mcb").classes_.tolist() == [0, 1, 2]
    assert (tmp_path / "dictionary.mcb").read_bytes() == (tmp_path / "text.mcb").read_bytes()


def test_blanks_around_text_labels_are_no_part_of_them(tmp_path, columns):
    padded = arrow.array([f" c{i % 3}" + " " * (i % 2) for i in range(240)])
    write(tmp_path / "t.parquet", {**columns, "kind": padded})
    as_csv(tmp_path / "t.csv", {**columns, "kind": padded})
    for name in ("t.parquet", "t.csv"):
        assert call("train", "-q", "-n", 3, name, f"{name}.mcb", cwd=tmp_path).returncode == 0
    assert load_model(tmp_path / "t.parquet.mcb").classes_.tolist() == ["c0", "c1", "c2"]
    assert (tmp_path / "t.parquet.mcb").read_bytes() == (tmp_path / "t.csv.mcb").read_bytes()


def test_long_labels(tmp_path):
    features = {"a": arrow.array([1.0, 2.0, 3.0])}
    for kind in (arrow.int64(), arrow.float64()):
        labels = arrow.array([2**53, 2**53, 7]).cast(kind)
        write(tmp_path / "t.parquet", {"kind": labels, **features})
        completed = call("train", "-n", 2, "t.parquet", cwd=tmp_path)
        assert f"2 classes (7: 1, {2**53}: 2)" in completed.stderr, completed.stderr
        for beyond in (2**53 + 2, 2**60):
            write(
                tmp_path / "t.parquet",
                {"kind": arrow.array([beyond, 7, 7]).cast(kind, safe=False), **features},
            )
            completed = call("train", "-n", 2, "t.parquet", cwd=tmp_path)
            assert (
                completed.returncode == 2 and f"t.parquet: label '{beyond}" in completed.stderr
            ), completed.stderr
    write(tmp_path / "t.parquet", {"kind": arrow.array([1e300, 7.0, 7.0]), **features})
    completed = call("train", "-n", 2, "t.parquet", cwd=tmp_path)
    assert (
        completed.returncode == 2
        and f"t.parquet: label '{int(1e300)!s:.37}...' is out" in completed.stderr
    ), completed.stderr


def test_truth_values_and_decimals_are_numbers(tmp_path, columns):
    flags = columns["flag"].cast(arrow.bool_())
    write(
        tmp_path / "t.parquet",
        {**columns, "flag": flags, "whole": columns["whole"].cast(arrow.decimal128(12, 1))},
    )
    write(tmp_path / "same.parquet", columns)
    for name in ("t", "same"):
        assert (
            call("train", "-q", "-n", 4, f"{name}.parquet", f"{name}.mcb", cwd=tmp_path).returncode
            == 0
        )
    assert (tmp_path / "t.mcb").read_bytes() == (tmp_path / "same.mcb").read_bytes()


def test_standard_input_and_validation_file(tmp_path, columns):
    write(tmp_path / "t.parquet", columns)
    completed = call("train", "-n", 4, "-P", "t.parquet", "t.parquet", "m.mcb", cwd=tmp_path)
    assert completed.returncode == 0 and "validation error" in completed.stderr
    arguments = [*command("train"), "--format", "parquet", "-q", "-n", "4", "-", "p.mcb"]
    with open(tmp_path / "t.parquet", "rb") as stream:
        subprocess.run(arguments, stdin=stream, check=True, cwd=tmp_path, env=environment())
    call("train", "-n", 4, "-q", "t.parquet", "q.mcb", cwd=tmp_path)
    assert (tmp_path / "p.mcb").read_bytes() == (tmp_path / "q.mcb").read_bytes()


def test_categories_are_those_of_csv(tmp_path, columns):
    texts = arrow.array(
        [None if i % 11 == 0 else ("red", "green", "blue")[i % 3] for i in range(240)]
    )
    made = {**columns, "a": texts, "whole": columns["whole"]}
    write(tmp_path / "t.parquet", made)
    write(tmp_path / "dictionary.parquet", {**made, "a": texts.dictionary_encode()})
    as_csv(tmp_path / "t.csv", made)
    options = [
        "-q",
        "-a",
        "vector-tree",
        "-n",
        4,
        "--min-samples-category",
        2,
        "--categorical-features",
        "whole,a",
    ]
    for name in ("t.parquet", "dictionary.parquet", "t.csv"):
        completed = call("train", *options, "-P", name, name, f"{name}.mcb", cwd=tmp_path)
        assert completed.returncode == 0, completed.stderr
    found = {
        (tmp_path / f"{name}.mcb").read_bytes()
        for name in ("t.parquet", "dictionary.parquet", "t.csv")
    }
    assert len(found) == 1
    model = load_model(tmp_path / "t.csv.mcb")
    assert model.categories.feature.tolist() == [0, 3] and model.ensemble.subset.any()
    assert model.categories.names[0] == ["blue", "green", "red"]
    outs = [
        call("predict", "-b", 1, name, "t.csv.mcb", "-", cwd=tmp_path).stdout
        for name in ("t.csv", "t.parquet")
    ]
    assert outs[0] == outs[1] != ""
    completed = call("train", "-a", "vector-tree", "t.parquet", cwd=tmp_path)
    assert completed.returncode == 2 and "column 'a' has 'green' in row 2; " in completed.stderr
    assert "--categorical-features a (not with hingeboost)" in completed.stderr
    arguments = [*options, "--categorical-features", "c,d", "t.parquet", "m.mcb"]
    assert "there is no column 'd'" in call("train", *arguments, cwd=tmp_path).stderr


def test_what_is_refused(tmp_path, columns):
    write(tmp_path / "t.parquet", columns)
    (tmp_path / "text.parquet").write_text("a,b\n1,2\n")
    bytes_of = (tmp_path / "t.parquet").read_bytes()
    footer = int.from_bytes(bytes_of[-8:-4], "little")
    (tmp_path / "footer.parquet").write_bytes(
        bytes_of[: -8 - footer] + bytes([255]) * footer + bytes_of[-8:]
    )
    (tmp_path / "pages.parquet").write_bytes(bytes_of[:4] + bytes([255]) * 400 + bytes_of[404:])
    write(tmp_path / "dates.parquet", {**columns, "kind": columns["whole"].cast(arrow.date32())})
    write(tmp_path / "words.parquet", {**columns, "a": columns["kind"]})
    write(
        tmp_path / "large.parquet", {**columns, "a": arrow.array([0.0] * 4 + [1e39] + [0.0] * 235)}
    )
    write(tmp_path / "none.parquet", {name: column.slice(0, 0) for name, column in columns.items()})
    write(tmp_path / "one.parquet", {"kind": columns["kind"]})
    write(tmp_path / "unlabelled.parquet", {**columns, "kind": arrow.array(["x", None] * 120)})
    for arguments, status, message in (
        (["text.parquet"], 2, "expected a Parquet file"),
        (
            ["dates.parquet"],
            2,
            "dates.parquet: column 'kind' has date values; labels and categories must be",
        ),
        (["footer.parquet"], 2, "footer.parquet: "),
        (["pages.parquet"], 2, "expected a Parquet file"),
        (["gone.parquet"], 4, "gone.parquet: No such file or directory"),
        (
            ["words.parquet"],
            2,
            "words.parquet: column 'a' has 'c-1' in row 1; features must be numbers",
        ),
        (["large.parquet"], 2, "large.parquet: column 'a', row 5: 1e+39 is too large for float32"),
        (["none.parquet"], 2, "none.parquet: the file has no row of data"),
        (["one.parquet"], 2, "one.parquet: there is no column besides that of the labels\n"),
        (["unlabelled.parquet"], 2, "unlabelled.parquet: row 2 has no label in the column 'kind'"),
        (
            ["--label", "sort", "t.parquet"],
            2,
            "t.parquet: there is no column 'sort'; the columns are 'kind', 'a', ",
        ),
        (["--base", 1, "t.parquet"], 1, "--base and --n-features are for LIBSVM text"),
        (
            ["-P", "t.svm", "t.parquet"],
            1,
            "the training file and the validation file must be of the same kind",
        ),
    ):
        completed = call("train", "-n", 3, *arguments, cwd=tmp_path)
        assert completed.returncode == status and message in completed.stderr, completed.stderr
    closed = [
        "bash",
        "-c",
        '"$@" <&-',
        "-",
        *command("train"),
        "-q",
        "--format",
        "parquet",
        "-",
        "m.mcb",
    ]
    completed = subprocess.run(
        closed, cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert completed.returncode == 4 and "standard input is closed" in completed.stderr, (
        completed.stderr
    )
    assert not list(tmp_path.glob("*.mcb"))


def test_without_pyarrow_the_message_says_what_to_install(tmp_path, columns):
    write(tmp_path / "t.parquet", columns)
    train = "from pymcboost.cli.train import main\nsys.argv[1:] = ['t.parquet']\nsys.exit(main())"
    code = f"{blocker(['pyarrow'])}\n{train}"
    completed = run_python(code, cwd=tmp_path)
    assert completed.returncode == 2
    assert (
        "Parquet files need pandas and pyarrow" in completed.stderr
        and "pymcboost[parquet]" in completed.stderr
    )


def test_prediction_needs_pandas_but_no_estimator(tmp_path, columns):
    write(tmp_path / "t.parquet", columns)
    assert call("train", "-q", "-n", 4, "t.parquet", "m.mcb", cwd=tmp_path).returncode == 0
    names = ["sklearn", "scipy", "joblib", "pymcboost.training.parameters"]
    code = f"{blocker(names)}\nfrom pymcboost.cli.predict import main\nsys.exit(main(['t.parquet', 'm.mcb', 'out']))"
    completed = run_python(code, cwd=tmp_path)
    assert completed.returncode == 0 and completed.stdout.startswith("Accuracy = "), (
        completed.stderr
    )
