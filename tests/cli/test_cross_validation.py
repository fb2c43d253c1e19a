"""mcboost-train -v: what it prints; and LIBSVM's C, of which every fold has its own."""

import numpy as np
import pytest
from cli.programs import call, write_svm

from pymcboost import MCBoostClassifier, load_model, load_svmlight
from pymcboost.registry import get_class


def test_cross_validation_prints_libsvms_line_mean_and_deviation_and_writes_nothing(
    files, tmp_path
):
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedKFold

    seeds = ([], ["-S", 0], ["-S", 8])
    runs = [
        call("train", "-q", "-n", 15, "-v", 4, *seed, files / "train.svm", cwd=tmp_path)
        for seed in seeds
    ]
    assert [done.returncode for done in runs] == [0, 0, 0]
    assert [done.stderr for done in runs] == ["", "", ""]
    assert runs[0].stdout == runs[1].stdout
    data = load_svmlight(files / "train.svm")
    for done, seed in zip(runs, (0, 0, 8), strict=True):
        hits = []
        losses = []
        for train, test in StratifiedKFold(4, shuffle=True, random_state=seed).split(
            data.X, data.y
        ):
            model = MCBoostClassifier(n_estimators=15).fit(data.X[train], data.y[train])
            hits.append(model.predict(data.X[test]) == data.y[test])
            losses.append(log_loss(data.y[test], model.predict_proba(data.X[test])))
        wrong = [100 * (1 - part.mean()) for part in hits]
        words = "(mean and deviation of 4 folds)"
        assert done.stdout == (
            f"Cross Validation Accuracy = {100 * np.concatenate(hits).mean():g}%\n"
            f"Cross Validation Error = {np.mean(wrong):.4g}% +- {np.std(wrong, ddof=1):.3g}% {words}\n"
            f"Cross Validation Log Loss = {np.mean(losses):.4g} +- {np.std(losses, ddof=1):.3g} {words}\n"
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("algorithm", ["mart", "multiboost", "hingeboost"])
def test_curves_of_cross_validation(files, tmp_path, algorithm):
    """Every line has the means and deviations of the folds after so many rounds, by models of so many rounds."""
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedKFold

    given = ["-q", "-n", 6, "-v", 3, "-a", algorithm, "--calibrate", "none", files / "train.svm"]
    completed = call("train", "--curve", *given, cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    plain = call("train", *given, cwd=tmp_path)
    head = len(plain.stdout.splitlines())
    assert completed.stdout.splitlines()[:head] == plain.stdout.splitlines()
    first, *lines = completed.stdout.splitlines()[head:]
    losses = algorithm != "hingeboost"
    assert first == "rounds error deviation" + " log_loss deviation" * losses
    assert [line.split()[0] for line in lines] == [*"123456"]
    data = load_svmlight(files / "train.svm")
    for line in (lines[1], lines[5]):
        n, *values = map(float, line.split())
        errors = []
        for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(data.X, data.y):
            model = get_class(algorithm)(n_estimators=int(n), random_state=0, calibrate=None)
            model.fit(data.X[train], data.y[train])
            errors.append([np.mean(model.predict(data.X[test]) != data.y[test])])
            if losses:
                errors[-1].append(log_loss(data.y[test], model.predict_proba(data.X[test])))
        expected = np.column_stack(
            [np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1)]
        ).ravel()
        np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_libsvms_c(files, tmp_path):
    """With two classes and one round the model is LIBSVM's own of that C; -c is that times the rows trained on."""
    svmutil = pytest.importorskip("libsvm.svmutil")
    data = load_svmlight(files / "train.svm")
    two = data.y != 7
    X, y = data.X[two], data.y[two]
    write_svm(tmp_path / "t.svm", X, y)
    options = ["-a", "hingeboost", "-n", 1, "--tol", 1e-6]
    completed = call("train", *options, "--libsvm-c", 0.05, "t.svm", "m.mcb", cwd=tmp_path)
    assert (
        f"mcboost-train: -c {0.05 * len(y):g}, which is 0.05 times {len(y)} rows\n"
        in completed.stderr
    )
    problem = svmutil.svm_problem(np.where(y == 2, 1.0, -1.0).tolist(), X.astype(float).tolist())
    theirs = svmutil.svm_train(problem, "-t 0 -c 0.05 -e 1e-6 -q")
    _, _, values = svmutil.svm_predict([0] * len(X), X.astype(float).tolist(), theirs, "-q")
    expected = np.array(values)[:, 0] * (1 if theirs.get_labels()[0] == 1 else -1)
    np.testing.assert_allclose(
        load_model(tmp_path / "m.mcb").decision_function(X), expected, atol=2e-5
    )
    same = call("train", *options, "-c", repr(0.05 * len(y)), "t.svm", "same.mcb", cwd=tmp_path)
    assert same.returncode == 0
    assert (tmp_path / "m.mcb").read_bytes() == (tmp_path / "same.mcb").read_bytes()
    # 180 rows: every fold trains on 120.
    write_svm(tmp_path / "t.svm", data.X[:, :2], data.y)
    options = ["-a", "hingeboost", "-n", 3, "-v", 3]
    theirs, ours, other = (
        call("train", *options, *c, "t.svm", cwd=tmp_path).stdout
        for c in (["--libsvm-c", 0.01], ["-c", 1.2], ["-c", 1.8])
    )
    assert theirs == ours != other


def test_too_many_folds(files, tmp_path):
    completed = call("train", "-v", 61, files / "train.svm")
    assert completed.returncode == 2
    assert "-v 61: the largest class has only 60 rows" in completed.stderr


def test_small_class_in_cross_validation_is_a_notice(tmp_path, blobs):
    X, y = blobs
    write_svm(tmp_path / "t.svm", X[:62], [*y[:60], 50, 50])
    completed = call("train", "-n", 5, "-v", 5, tmp_path / "t.svm")
    assert completed.returncode == 0, completed.stderr
    assert "warning: -v 5: class 50 has only 2 rows" in completed.stderr
    assert completed.stdout.startswith("Cross Validation Accuracy = ")
