"""Files whose values merge in float32: the programs find the offsets that a training in Python finds."""

import numpy as np
import pytest
from cli.programs import call, run

from pymcboost import VectorTreeBoostClassifier, load_model
from pymcboost.cli import rows
from pymcboost.data.svmlines import SAMPLED_BYTES, LineSample

OFFSET = "is subtracted, as its values merge in float32"


def seconds(m, seed):
    """Time stamps of two days, as whole seconds, a column of noise, and whether the hour is one of a working day."""
    rng = np.random.default_rng(seed)
    X = np.stack([1_700_000_000 + rng.integers(0, 2 * 86400, m), np.round(rng.normal(size=m), 3)], axis=1)
    return X, 1 + (X[:, 0] // 3600 % 24 // 8 == 1)


def write(path, X, y):
    """As LIBSVM text, or CSV with a header."""
    if path.suffix == ".csv":
        lines = ["kind,time,noise", *(f"{k:g},{a:.0f},{b}" for k, (a, b) in zip(y, X.tolist(), strict=True))]
    else:
        lines = [f"{k:g} 1:{a:.0f} 2:{b}" for k, (a, b) in zip(y, X.tolist(), strict=True)]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def parts(tmp_path):
    """Training and test rows, also in files."""
    found = []
    for name, m, seed in (("train", 300, 0), ("test", 100, 1)):
        X, y = seconds(m, seed)
        for form in ("svm", "csv"):
            write(tmp_path / f"{name}.{form}", X, y)
        found.append((X, y.astype(int)))
    return found


@pytest.mark.parametrize("form", ["svm", "csv"])
def test_the_model_is_that_of_python(tmp_path, parts, form):
    train, test = parts
    command = ["train", "-a", "vector-tree", "-n", 20, "-S", 0, "-P", f"test.{form}", f"train.{form}", "m.mcb"]
    done = call(*command, cwd=tmp_path)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    named = "'time'" if form == "csv" else "1"
    assert f"feature {named}: 17" in done.stderr and OFFSET in done.stderr
    own = VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(*train, X_val=test[0], y_val=test[1]).model_
    model = load_model(tmp_path / "m.mcb")
    assert model.offsets == own.offsets != {}
    assert model.with_meta({}).to_bytes() == own.with_meta({}).to_bytes()
    done = call("predict", f"test.{form}", "m.mcb", "out", cwd=tmp_path)
    right = (own.predict(test[0]) == test[1]).mean()
    assert f"Accuracy = {100 * right:g}%" in done.stdout


def test_rows_that_cannot_be_read_again_are_warned_of(tmp_path, parts):
    text = (tmp_path / "train.svm").read_text()
    done = run("train", "-a", "vector-tree", "-n", 3, "-", "m.mcb", cwd=tmp_path, stdin=text)
    assert done.returncode == 0 and "they seem to be rounded" in done.stderr
    assert load_model(tmp_path / "m.mcb").offsets == {}


def test_small_differences_at_the_head_of_a_file_are_noticed(tmp_path):
    """Below 2 ** 24 rounded values do not show that they are: the first rows, read exactly, do."""
    X, y = seconds(300, 2)
    X[:, 0] = 4000 + (X[:, 0] - 1_700_000_000) / 1e9
    lines = [f"{k} 1:{a:.9f} 2:{b}" for k, (a, b) in zip(y, X.tolist(), strict=True)]
    (tmp_path / "t.svm").write_text("\n".join(lines) + "\n")
    done = call("train", "-a", "mart", "-n", 3, "t.svm", "m.mcb", cwd=tmp_path)
    assert OFFSET in done.stderr
    assert list(load_model(tmp_path / "m.mcb").offsets) == [0]


def test_values_that_all_become_one_are_noticed(tmp_path):
    """Nothing of them is left in float32: a sample of the lines shows them, wherever they are."""
    late = [f"{i % 2} 1:{1_700_000_000 + (i >= 600) * (i % 2) * 20}\n" for i in range(1200)]
    said = "warning: column 0 (from 0): 2 different values of a sample become 1 when they are rounded to float32"
    for lines in (late[-60:], late):
        (tmp_path / "t.svm").write_text("".join(lines))
        done = call("train", "-n", 3, "t.svm", "m.mcb", cwd=tmp_path)
        assert OFFSET in done.stderr and load_model(tmp_path / "m.mcb").offsets != {}
        done = run("train", "-n", 3, "-", "m.mcb", cwd=tmp_path, stdin="".join(lines))
        assert done.returncode == 0 and said in done.stderr
        (tmp_path / "l.svm").write_text("".join(lines).replace(" 1:", ",7 1:"))
        done = call("train", "-a", "vector-tree", "-l", "logistic", "-n", 3, "l.svm", "m.mcb", cwd=tmp_path)
        assert done.returncode == 0 and said in done.stderr


@pytest.mark.parametrize("n", [1, 300, 511, 512, 5000])
def test_lines_of_a_sample_are_spread_over_the_text(n):
    sample, text = LineSample(), "".join(f"1 1:{i + 1} 2:{'9' * (i % 7 + 1)} # x\n" for i in range(n)).encode()
    cuts = [0, *(text.index(b"\n", at) + 1 for at in (0, len(text) // 3, len(text) // 2)), len(text)]
    for begin, end in zip(cuts, cuts[1:], strict=False):
        sample.take(bytearray(text[begin:end] + b"rest"), end - begin)
    found = sample.rows(2, 1)[:, 0]
    assert (np.diff(found) > 0).all()
    assert len(found) == n if n < 512 else 256 <= len(found) < 512 and np.diff([0, *found, n]).max() < 12 * n / 256


def test_long_lines_of_a_sample_are_few():
    sample, n, size = LineSample(), 1500, SAMPLED_BYTES // 100
    for i in range(n):
        line = f"1 1:{i + 1} # ".encode().ljust(size, b"x") + b"\n"
        sample.take(line, len(line))
        assert sum(map(len, sample._lines)) <= SAMPLED_BYTES
    found = sample.rows(1, 1)[:, 0]
    assert 40 <= len(found) < 100 and np.diff([0, *found, n]).max() < n / 10
    for i in range(40):  # a few are kept, however long they are
        line = f"1 1:{i + 1} # ".encode().ljust(SAMPLED_BYTES // 3, b"x") + b"\n"
        sample.take(line, len(line))
    assert 16 <= len(sample._lines) < 32
    one = LineSample()
    one.take(line, len(line))
    assert one.rows(1, 1).tolist() == [[40.0]]


def test_lines_are_kept_only_where_they_are_looked_at(parts, tmp_path, monkeypatch):
    monkeypatch.setattr(LineSample, "take", None)
    for wide in (False, True):
        assert rows.read(str(tmp_path / "test.svm"), lambda text: None, False, wide).X.shape == (100, 2)
    (tmp_path / "l.svm").write_text("1,2 1:3\n2 1:4\n")
    like = rows.Rows(None, None, labels=np.array([1, 2]))
    assert rows.read_lists(str(tmp_path / "l.svm"), lambda text: None, False, like).y.tolist() == [[1, 1], [0, 1]]
