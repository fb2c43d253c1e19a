"""What a training on the command line says of wrong rows and options: the file, the row and the remedy."""

import pytest
from cli.programs import call

from pymcboost.cli.console import in_shell_words

FILES = {
    "t.svm": "".join(f"{i % 3} 1:{i} 2:{i * 7 % 11}\n" for i in range(30)),
    "inf.svm": "1 1:2\n2 1:1 2:-inf\n1 1:1\n",
    "nan.svm": "1 1:2\n2 1:nan\n1 1:1\n",
    "wide.svm": "".join(f"{i % 2} {i + 1}:{'inf' if i == 4 else 1} 99999999:1\n" for i in range(9)),
    "few.svm": "1 1:2\n2 1:3\n1 1:1\n",
    "other.svm": "8 1:2\n9 1:3\n",
    "more.svm": "9 1:2\n1 1:3\n7 1:3\n",
    "t.csv": "y,a\n" + "".join(f"{'pq'[i % 2]},{i}\n" for i in range(30)),
    "more.csv": "y,a\np,1\nz,2\n",
    "zero.svm": "1 0:2\n2 1:3\n",
    "none.svm": "1\n2\n",
    "one.svm": "7 1:2\n7 1:3\n7 1:1\n",
}
SPARSE = "1 1:2 9999999:1\n2 1:1\n" * 40
SAID = [
    ("t.svm", "these are decision stumps, as -a mcboost trains them by default; -a vector-tree trains trees, which"),
    ("inf.svm", "inf.svm: line 2 has -inf for the feature 2; write nan for a missing value\n"),
    ("-P inf.svm t.svm", "inf.svm: line 2 has -inf for the feature 2; write nan for a missing value\n"),
    ("wide.svm", "wide.svm: line 5 has inf for the feature 5; write nan for a missing value\n"),
    ("-a hingeboost nan.svm", "line 2 has nan for the feature 1; this algorithm needs finite values; fill it in\n"),
    ("-q one.svm", "error: one.svm: all rows have the label 7; a training needs rows of at least 2 classes\n"),
    ("-P more.svm t.svm",
     "more.svm: 2 of 3 rows have a label that the model does not know (7, 9); they count as errors\n"),
    ("-P more.csv t.csv", "more.csv: 1 of 2 rows has a label that the model does not know (z); they count as errors\n"),
    ("-P other.svm t.svm", "none of the labels in y_val occurs in y"),
    ("--base 1 zero.svm", "use --base 0 or --base auto if its indices start at 0\n"),
    ("zero.svm", "so indices are read as zero-based; set --base 0 to confirm\n"),
    ("none.svm", "no row has a feature; if that is intended, give --n-features\n"),
    ("--n-features 1 t.svm", "ignoring features beyond --n-features 1"),
    ("-a hingeboost -t 2 sparse.svm", "needs dense X, only --kernel linear accepts sparse X"),
    ("-E 3 --validation-fraction 0.01 t.svm", "early_stopping: cannot set aside --validation-fraction 0.01 of 30"),
    ("--nu 9 t.svm", "0 of 3 rounds: no weak learner has an edge above --nu 9\n"),
    ("--nu 9 t.svm", "a limit on the weak learners is too strict, as --nu 9 may be\n"),
    ("--max-depth 0 t.svm", "argument --max-depth: '0' is not an integer from 1 to 500 or none\n"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), SAID)
def test_training_says_what_is_wrong(tmp_path, line, said):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    if "sparse.svm" in line:
        (tmp_path / "sparse.svm").write_text(SPARSE)
    completed = call(
        "train", *(["-n", 3] if "-n" not in line.split() else []), *line.split(), cwd=tmp_path
    )
    assert said in completed.stderr


def test_predict_says_which_features_are_dropped(files, tmp_path):
    (tmp_path / "t.svm").write_text("2 1:1 9:1\n")
    completed = call("predict", "t.svm", files / "model.mcb", "out", cwd=tmp_path)
    assert (
        "t.svm: ignoring features beyond the 5 of the model (largest index 9 at line 1)\n"
        in completed.stderr
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_bins=9 is too few; set scale=True", "--max-bins 9 is too few; set --scale"),
        ("early_stopping=False, or scoring='error'.", "--no-early-stopping, or --metric error."),
        ("Increase n_estimators, as in n_estimators=5.", "Increase -n, as in -n 5."),
        ("learning_rate=1e-3: too small", "--learning-rate 1e-3: too small"),
        (
            "a/max_bins=9.svm: max_bins=9.svm, base=0/x",
            "a/max_bins=9.svm: max_bins=9.svm, base=0/x",
        ),
        ("unknown=3 and C=5", "unknown=3 and -c 5"),
        ('Use n_estimators="auto" (not bins=max_bins=9)', "Use -n auto (not bins=max_bins=9)"),
        (
            "a refusal of max_bins=9\nusage: --max-bins=9",
            "a refusal of --max-bins 9\nusage: --max-bins=9",
        ),
    ],
)
def test_parameters_in_messages_are_options(text, said):
    assert in_shell_words(text) == said


@pytest.mark.parametrize("options", ["-a mcboost", "--weak-learner tree", "-q", "-a vector-tree"])
def test_a_chosen_learner_is_not_commented(tmp_path, options):
    (tmp_path / "t.svm").write_text(FILES["t.svm"])
    done = call("train", "-n", 3, *options.split(), "t.svm", cwd=tmp_path)
    assert "default" not in done.stderr and (tmp_path / "t.svm.mcb").exists()
