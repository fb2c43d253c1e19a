"""Rough use: forged files, odd arguments, signals, other processes; by public names alone, so on any version."""

import base64
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import sysconfig
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from cli.programs import call, environment, run_python
from contract.variants import as_published
from format import tampering
from sklearn.exceptions import NotFittedError

import pymcboost
from pymcboost import (
    ABCMartClassifier,
    Checkpoint,
    HingeBoostOCClassifier,
    MartClassifier,
    MCBoostClassifier,
    ModelFormatError,
    MultiBoostClassifier,
    VectorTreeBoostClassifier,
    load_model,
)
from pymcboost.data import binning
from pymcboost.hinge import coordinate

ABCMartClassifier, MartClassifier = as_published(ABCMartClassifier, MartClassifier)

WIDEST = 2**31 - 1
PACKAGE = str(Path(pymcboost.__file__).parent)


def some_data(K=3, m=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(m) % K
    return rng.normal(size=(m, d)) + y[:, None] * rng.normal(size=d), y


@pytest.fixture
def model(tmp_path):
    """Path of a model of four rounds with three classes and four features."""
    X, y = some_data()
    MartClassifier(n_estimators=4, random_state=0).fit(X, y).save(tmp_path / "model.mcb")
    return tmp_path / "model.mcb"


def numbers(tag, code, *values):
    """A section of a file."""
    dtype = {"B": 1, "H": 2, "I": 3, "q": 4, "f": 5}[code]
    return [tag.encode(), dtype, struct.pack(f"<{len(values)}{code}", *values)]


# -- Forged and odd model files ----------------------------------------------------------------------------------------


def test_a_code_without_columns_is_refused(tmp_path):
    """The decoders divide by the number of columns, which would end the process."""
    empty = [
        numbers(tag, "f" if tag in ("THRS", "LEAF", "CODE") else "B")
        for tag in ("TSIZ", "FEAT", "THRS", "RGHT", "LEAF", "TCLS", "CODE", "RNDS")
    ]
    rest = [numbers("BIAS", "f", 0, 0), numbers("LABI", "q", 0, 1)]
    for decoder in (1, 2):
        (tmp_path / f"{decoder}.mcb").write_bytes(
            tampering.File(2, 1, kind=3, link=0, decoder=decoder, sections=empty + rest).to_bytes()
        )
    (tmp_path / "t.svm").write_text("1 1:1\n")
    code = """
import pymcboost
from pymcboost.cli import info, predict
for name in ("1.mcb", "2.mcb"):
    try:
        pymcboost.load_model(name).predict([[0]])
    except pymcboost.ModelFormatError as error:
        assert "section CODE" in str(error)
        print("refused")
    print(predict.main(["t.svm", name, "out"]), info.main([name]), flush=True)
"""
    completed = run_python(code, cwd=tmp_path)
    assert completed.stdout.split() == ["refused", "3", "3"] * 2, completed
    assert completed.stderr.count("section CODE") == 4


def test_sparse_rows_of_as_many_features_as_there_can_be(tmp_path):
    stump = [numbers("FEAT", "I", WIDEST - 1), numbers("THRS", "f", 0.5), numbers("COEF", "f", 0, 1),
             numbers("BIAS", "f", 0.5, 0), numbers("LABI", "q", 3, 7)]  # fmt: skip
    (tmp_path / "m.mcb").write_bytes(
        tampering.File(2, WIDEST, kind=1, link=0, sections=stump).to_bytes()
    )
    code = f"""
import pymcboost, scipy.sparse
X = scipy.sparse.csr_matrix(([2.0, 1.0], [0, {WIDEST - 1}], [0, 1, 2, 2]), (3, {WIDEST}))
print(pymcboost.load_model("m.mcb").predict(X).tolist())
"""
    completed = run_python(code, cwd=tmp_path)
    assert completed.stdout == "[3, 7, 3]\n", completed.stderr


def test_information_on_a_long_chain_takes_no_call_for_every_level(tmp_path):
    s = 20_000
    chain = [numbers("TSIZ", "H", s), numbers("FEAT", "B", *[0] * s), numbers("THRS", "f", *range(s)),
             numbers("RGHT", "H", *range(s, 0, -1)), numbers("LEAF", "f", *[1.0] * (s + 1)), numbers("TCLS", "B", 0),
             numbers("RNDS", "B", 1), numbers("BIAS", "f", 0, 0), numbers("LABI", "q", 0, 1)]  # fmt: skip
    (tmp_path / "m.mcb").write_bytes(
        tampering.File(2, 1, kind=3, link=0, sections=chain).to_bytes()
    )
    call("info", "m.mcb", cwd=tmp_path)  # what is loaded once is loaded
    calls = []
    sys.setprofile(lambda frame, event, argument: calls.append(event))
    try:
        completed = call("info", "m.mcb", cwd=tmp_path)
    finally:
        sys.setprofile(None)
    assert str(s) in completed.stdout.replace(",", "")
    assert len(calls) < s


@pytest.mark.parametrize("bad", [b"{", b"[" * 100_000, b"null garbage"])
def test_meta_that_is_not_json(model, bad):
    """No score needs it, not that of the first rounds either."""
    X, _ = some_data()
    (model.parent / "t.svm").write_text("".join(f"0 {i % 4 + 1}:{i}\n" for i in range(-9, 10)))
    file = tampering.parse(model.read_bytes())
    file.find(b"meta")[2] = bad
    (model.parent / "odd.mcb").write_bytes(file.to_bytes())
    for more in (
        "-d 1",
        "-d 1 --rounds 2",
        "-d 1 --rounds 0",
        "-b 1",
        "-b 1 --rounds 4",
        "--base 0 -d 1",
        "-j 2",
    ):
        expected = call("predict", *more.split(), "t.svm", "model.mcb", "-", cwd=model.parent)
        completed = call("predict", *more.split(), "t.svm", "odd.mcb", "-", cwd=model.parent)
        assert (expected.returncode, completed.returncode, completed.stdout) == (
            0,
            0,
            expected.stdout,
        ), completed.stderr
        assert "odd.mcb: the section meta is not valid JSON" in completed.stderr
    completed = call("predict", "--rounds", 5, "t.svm", "odd.mcb", "-", cwd=model.parent)
    assert (
        completed.returncode,
        "--rounds must be from 0 to 4, the number of rounds in odd.mcb" in completed.stderr,
    ) == (1, True)
    odd, plain = load_model(model.parent / "odd.mcb"), load_model(model)
    np.testing.assert_array_equal(odd.truncate(2).raw_scores(X), plain.truncate(2).raw_scores(X))
    np.testing.assert_array_equal(
        list(odd.staged_decision_function(X)), list(plain.staged_decision_function(X))
    )


@pytest.mark.parametrize("base", [True, False, 1.0, 0.0, 2, -1, "0", None, [0], {}])
def test_odd_index_bases_are_left_aside(model, base):
    (model.parent / "t.svm").write_text("".join(f"0 {i % 4 + 1}:{i}\n" for i in range(-9, 10)))
    expected = call("predict", "-d", 1, "t.svm", "model.mcb", "-", cwd=model.parent).stdout
    file = tampering.parse(model.read_bytes())
    meta = file.find(b"meta")
    meta[2] = json.dumps({**json.loads(meta[2]), "index_base": base}).encode()
    (model.parent / "odd.mcb").write_bytes(file.to_bytes())
    completed = call("predict", "-d", 1, "t.svm", "odd.mcb", "-", cwd=model.parent)
    assert (completed.returncode, completed.stdout) == (0, expected), completed.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_an_endless_pipe_is_read_no_further_than_its_header_says(model):
    pipe, data, written = model.parent / "pipe", model.read_bytes(), []
    os.mkfifo(pipe)

    def write():
        try:
            with open(pipe, "wb", buffering=0) as out:
                written.append(out.write(data))
                for _ in range(1000):
                    written.append(out.write(bytes(1 << 16)))
        except BrokenPipeError:
            pass

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(ModelFormatError):
        load_model(pipe)
    writer.join(60)
    assert not writer.is_alive()
    assert sum(written) < len(data) + (3 << 20)


# -- Saving ------------------------------------------------------------------------------------------------------------


def test_only_leftovers_of_our_own_are_removed(model):
    """Not a backup that looks a little like one, nor anything but a regular file with one name."""
    folder, saved = model.parent, load_model(model)
    kept = [
        "model.mcb.tmp-my-backup-01",
        "model.mcb.tmp-0123456789AB",
        "model.mcb.tmp-0123456789abc",
        "model.mcb.tmp-0123456789a",
        "xmodel.mcb.tmp-0123456789ab",
        "modelxmcb.tmp-0123456789ab",
        "model.mcb.tmp-0123456789ab.bz2",
        "victim",
    ]
    for name in kept:
        (folder / name).write_text("keep")
    (folder / "model.mcb.tmp-00000000000a").symlink_to("victim")
    (folder / "model.mcb.tmp-00000000000b").mkdir()
    os.mkfifo(folder / "model.mcb.tmp-00000000000c")
    (folder / "model.mcb.tmp-00000000000d").hardlink_to(folder / "victim")
    before = sorted(folder.iterdir())
    (folder / "model.mcb.tmp-0123456789ab").write_text("left by a killed process")
    saved.save(model)
    assert sorted(folder.iterdir()) == before
    assert {(folder / name).read_text() for name in kept} == {"keep"}


@pytest.mark.parametrize("moment", ["lock", "unlock"])
def test_a_save_outlives_another_that_takes_its_file_for_a_leftover(
    tmp_path, model, monkeypatch, moment
):
    """The other finds the new file before it is locked, and removes it while or before this one asks for the lock."""
    fcntl = pytest.importorskip("fcntl")
    saved, folder = load_model(model), tmp_path / "folder"
    folder.mkdir()
    path, real, seen = folder / "m.mcb", fcntl.flock, []

    def flock(file, operation):
        names = os.listdir(folder)
        if seen or not names:
            return real(file, operation)
        seen.extend(names)
        other = os.open(folder / names[0], os.O_RDWR)
        try:
            real(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if moment == "unlock":
                os.unlink(folder / names[0])
                real(other, fcntl.LOCK_UN)
                return real(file, operation)
            try:
                return real(file, operation)
            finally:
                os.unlink(folder / names[0])
        finally:
            os.close(other)

    monkeypatch.setattr(fcntl, "flock", flock)
    saved.save(path)
    assert seen
    assert os.listdir(folder) == ["m.mcb"]
    assert load_model(path).to_bytes() == saved.to_bytes()


# -- Odd arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [MartClassifier, MCBoostClassifier, HingeBoostOCClassifier])
@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b\0c", "d"],
        ["a", "b" * 5000, "d"],
        ["a", "b\ud800", "d"],
        np.array([1, 2, 2**63], dtype=np.uint64),
    ],
    ids=["NUL", "long", "surrogate", "2^63"],
)
def test_labels_that_no_file_can_hold_are_refused_before_the_first_round(cls, labels):
    X, y = some_data()
    generator = np.random.RandomState(0)  # from which a training draws before its first round
    with pytest.raises(ValueError, match="label"):
        cls(n_estimators=2, random_state=generator).fit(X, np.array(labels)[y])
    assert generator.randint(2**31) == np.random.RandomState(0).randint(2**31)


def test_rows_without_a_label_are_named():
    pandas = pytest.importorskip("pandas")
    (X, y), fit = some_data(), MartClassifier(n_estimators=2).fit
    names = np.array(["a", "b", "c"], dtype=object)[y]
    for missing in (pandas.NA, np.nan):
        gone = names.copy()
        gone[7] = missing
        for given in (gone, pandas.Series(gone, dtype="string"), pandas.Series(gone)):
            with pytest.raises(
                ValueError, match="^y has no label in row 7; leave out rows without a label"
            ):
                fit(X, given)
            with pytest.raises(ValueError, match="^validation set 'val': .*row 7; leave out"):
                fit(X, names, X_val=X, y_val=given)
    gone[7] = None
    with pytest.raises(
        ValueError, match="^validation set 'val': y has labels of the types NoneType, str"
    ):
        fit(X, names, X_val=X, y_val=gone)
    with pytest.raises(ValueError, match="y cannot be None|requires y"):
        fit(X, None)


@pytest.mark.parametrize("wrong", ["abc", 5, np.array(5.0), dict.fromkeys("abc").values()])
def test_what_is_no_column_of_labels_is_refused(wrong):
    (X, y), model = some_data(), MartClassifier(n_estimators=2)
    first = MartClassifier(n_estimators=2).fit(X, y)
    message = r"y should be a 1d array, got an array of shape \(\) instead"
    for labels, given in (
        (wrong, {}),
        (y, {"X_val": X, "y_val": wrong}),
        (wrong, {"init_model": first}),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, labels, **given)
    with pytest.raises(ValueError, match=message):
        HingeBoostOCClassifier(n_estimators=2).fit(X, wrong)


@pytest.mark.parametrize("second", ["b\ud800", "b" * (17 << 20)], ids=["surrogate", "17 MiB"])
def test_feature_names_that_no_file_can_hold_are_refused_before_the_first_round(second):
    pandas = pytest.importorskip("pandas")
    X, y = some_data()
    generator = np.random.RandomState(0)
    columns = pandas.Index(["a", second, "c", "d"], dtype=object)
    with pytest.raises(ValueError, match="feature names|meta"):
        MartClassifier(random_state=generator).fit(pandas.DataFrame(X, columns=columns), y)
    assert generator.randint(2**31) == np.random.RandomState(0).randint(2**31)


@pytest.mark.parametrize(
    ("cls", "plain"),
    [
        (HingeBoostOCClassifier, {"scale": True, "C": 0.5}),
        (MCBoostClassifier, {"early_stopping": True, "validation_fraction": 0.5}),
        (MartClassifier, {"learning_rate": 0.25, "max_features": 0.5, "n_iter_no_change": 3}),
    ],
)
def test_numpy_scalars_are_parameters_like_any_other(cls, plain):
    X, y = some_data()
    kinds = {bool: np.bool_, int: np.int64, float: np.float32}
    plain = {"n_estimators": 5, "random_state": 0, **plain}
    scalars = {name: kinds[type(value)](value) for name, value in plain.items()}
    assert cls(**plain).fit(X, y).model_.to_bytes() == cls(**scalars).fit(X, y).model_.to_bytes()


def test_unfitted_estimators_say_so():
    X, _ = some_data()
    for method in ("predict", "decision_function", "staged_predict", "staged_decision_function"):
        with pytest.raises(NotFittedError):
            getattr(MartClassifier(), method)(X)


def test_validation_features_beyond_float32_are_refused():
    X, y = some_data()
    X_val = X.copy()
    X_val[3, 1] = 1e39
    with pytest.raises(ValueError, match="X_val contains a value beyond the float32 range"):
        MartClassifier(n_estimators=2).fit(X, y, X_val=X_val, y_val=y)


def test_pickles_name_their_version():
    X, y = some_data()
    fitted = MartClassifier(n_estimators=2).fit(X, y)
    version, data = pymcboost.__version__.encode(), fitted.model_.to_bytes()
    parts = pickle.dumps(fitted).split(data)
    assert pickle.loads(data.join(parts)).model_.to_bytes() == data
    with pytest.warns(UserWarning, match="was pickled by pymcboost 999"):
        restored = pickle.loads(
            data.join(part.replace(version, b"9" * len(version)) for part in parts)
        )
    np.testing.assert_array_equal(restored.predict(X), fitted.predict(X))
    assert version in pickle.dumps(fitted.model_).replace(data, b"")


def test_pickled_models_that_cannot_be_read_name_both_versions():
    state = MartClassifier(n_estimators=2).fit(*some_data()).model_.__getstate__()
    assert state["version"] == pymcboost.__version__
    words = (
        f"pickled by pymcboost 0.0.1, but this is pymcboost {pymcboost.__version__}: .* Use save"
    )
    with pytest.raises(ModelFormatError, match=words):
        object.__new__(pymcboost.Model).__setstate__(
            {"file": state["file"][:-8], "version": "0.0.1"}
        )


def at_odd_address(array):
    """The same numbers one byte further on."""
    return np.frombuffer(bytes(1) + array.tobytes(), dtype=array.dtype, offset=1).reshape(
        array.shape
    )


def unaligned_matrices():
    """Pairs of a matrix whose parts lie at odd addresses and the same matrix as usual."""
    for dtype in "fd":
        X = some_data()[0].astype(dtype)
        records = np.zeros(len(X), dtype=[("skipped", "u1"), ("row", dtype, X.shape[1])])
        records["row"] = X
        yield from ((at_odd_address(X), X), (at_odd_address(X)[::2], X[::2]), (records["row"], X))
        S = scipy.sparse.csr_matrix(X)
        yield (
            scipy.sparse.csr_matrix(
                tuple(map(at_odd_address, (S.data, S.indices, S.indptr))), S.shape
            ),
            S,
        )


def test_arrays_at_odd_addresses(model):
    score_odd_arrays(load_model(model))
    y = some_data()[1]
    for odd, X in unaligned_matrices():
        fitted = [
            MartClassifier(n_estimators=2).fit(form, y[: X.shape[0]]).model_.to_bytes()
            for form in (X, odd)
        ]
        assert fitted[0] == fitted[1]


def score_odd_arrays(model):
    for odd, X in unaligned_matrices():
        assert model.raw_scores(odd).tobytes() == model.raw_scores(X).tobytes()
        stages = list(model.staged_decision_function(odd))
        assert stages[2].tobytes() == model.truncate(3).decision_function(X).tobytes()
    model.decode(at_odd_address(np.zeros((2, 3))))


@pytest.mark.slow
def test_nothing_is_read_from_an_odd_address(model):
    """The scorer, compiled so that such a read ends the process."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    package, source, library = Path(PACKAGE), model.parent / "score.c", model.parent / "score.so"
    directives = ["boundscheck", "wraparound", "initializedcheck"]
    options = [option for name in directives for option in ("-X", f"{name}=False")]
    command = [
        sys.executable,
        "-m",
        "cython",
        "-3",
        *options,
        package / "_kernels" / "score.pyx",
        "-o",
        source,
    ]
    subprocess.run(command, check=True)
    trap = ["-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"]
    folders = [sysconfig.get_path("include"), package / "_kernels", package / "include"]
    subprocess.run(
        [
            "gcc",
            "-O1",
            "-w",
            "-shared",
            "-fPIC",
            *trap,
            *(f"-I{folder}" for folder in folders),
            source,
            "-o",
            library,
        ],
        check=True,
    )
    code = f"""
import importlib.util, sys
import pymcboost._kernels
spec = importlib.util.spec_from_file_location("pymcboost._kernels.score", {str(library)!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.modules["pymcboost._kernels.score"] = pymcboost._kernels.score = module
sys.path[:0] = [{str(Path(__file__).parents[1])!r}, {str(Path(__file__).parent)!r}]
import test_rough_use
test_rough_use.score_odd_arrays(pymcboost.load_model({str(model)!r}))
users = [other for name, other in sys.modules.items() if name.startswith("pymcboost.") and name.count(".") < 3]
assert [other.score is module for other in users if hasattr(other, "score")].count(True) > 1
"""
    completed = run_python(code)
    assert completed.returncode == 0, (completed.returncode, completed.stderr)


FORGED = """
import sys
import numpy as np, scipy.sparse
from pymcboost import dump_svmlight
from pymcboost.algorithms.abcboost import MartClassifier  # without scikit-learn, which takes a second
X, y = np.arange(12.0).reshape(6, 2) % 5, np.arange(6) % 2
fitted = MartClassifier(n_estimators=3, subsample=1.0, max_features=1.0, random_state=0).fit(X, y)
for form in (scipy.sparse.csr_matrix, scipy.sparse.csc_matrix):
    for place, value, dtype in (
        ("indices", 10**9, "i4"), ("indices", -(10**9), "i4"), ("indptr", -(10**9), "i4"), ("indptr", 4 * 10**9, "u4"),
    ):
        def forged():
            S = form(X)
            array = getattr(S, place).astype(dtype)
            array[1] = value
            setattr(S, place, array)
            return S
        for call in (
            lambda S: list(fitted.model_.staged_decision_function(S)), fitted.model_.raw_scores, fitted.predict,
            lambda S: MartClassifier(n_estimators=2).fit(S, y),
            lambda S: MartClassifier(n_estimators=2).fit(X, y, X_val=S, y_val=y),
            lambda S: dump_svmlight(sys.argv[1], S, y),
        ):
            try:
                call(forged())
            except ValueError as error:
                assert "is not a valid CS" in str(error), error
            else:
                raise SystemExit(f"{form.__name__} {place} {value} was accepted")
"""


def test_sparse_matrices_whose_indices_lie_outside_are_refused(tmp_path):
    completed = subprocess.run(
        [sys.executable, "-c", FORGED, tmp_path / "out"],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_number_of_rounds(model):
    for t in (1.5, "2", None):
        with pytest.raises(TypeError):
            load_model(model).truncate(t)
    assert (
        load_model(model).truncate(np.int8(2)).n_rounds
        == load_model(model).truncate(2).n_rounds
        == 2
    )


# -- Checkpoints -------------------------------------------------------------------------------------------------------


def test_a_generator_is_no_seed_of_a_checkpoint(tmp_path):
    X, y = some_data()
    for seed in (np.random.RandomState(0), np.random.RandomState(1)):
        with pytest.raises(
            ValueError, match="RandomState instance, whose state a checkpoint cannot store"
        ):
            Checkpoint(tmp_path / "m").fit(MartClassifier(n_estimators=2, random_state=seed), X, y)
    assert not (tmp_path / "m").exists()


def test_odd_arguments_of_a_checkpoint_are_refused_at_once(tmp_path):
    for path in (3, None, 1.5):
        with pytest.raises(TypeError):
            Checkpoint(path)
    for every in (-1, float("nan")):
        with pytest.raises(ValueError, match=f"every={every}.* must be a number of seconds >= 0"):
            Checkpoint(tmp_path / "m", every)


def array_of(values):
    """An array as a checkpoint holds it."""
    array = np.asarray(values)
    data = base64.b64encode(array.tobytes()).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": data}


FORGERIES = {
    "arrays are not supported": lambda meta: meta.pop("arrays"),
    "no seed": lambda meta: meta.pop("seed"),
    "no data": lambda meta: meta.pop("data"),
    "data of another type": lambda meta: meta.update(data=3),
    "arrays of another type": lambda meta: meta.update(arrays=[1]),
    "array that is no text": lambda meta: meta["arrays"].update(
        {"gain.value": {"dtype": "<f8", "shape": [1], "data": "\u00e9"}}
    ),
    "seed of another type": lambda meta: meta.update(seed="7"),
    "seed too large": lambda meta: meta.update(seed=2**40),
    "rounds of another type": lambda meta: meta.update(rounds=None),
    "format of another type": lambda meta: meta.update(format={}),
    "best that is no model": lambda meta: meta.update(best=base64.b64encode(b"no").decode()),
    "short history": lambda meta: meta["arrays"].update({"history.base": array_of(np.zeros(1))}),
    "short gain": lambda meta: meta["arrays"].update({"gain.value": array_of(np.zeros(1))}),
    "gain of another type": lambda meta: meta["arrays"].update({"gain.value": array_of(["a"] * 4)}),
    "no gain": lambda meta: meta["arrays"].pop("best_gain.value"),
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
def test_forged_checkpoints_are_refused(forgery, tmp_path):
    X, y = some_data()
    path = tmp_path / "m"
    Checkpoint(path, 0).fit(MartClassifier(n_estimators=4), X, y)
    file = tampering.parse(path.read_bytes())
    meta = json.loads(file.find(b"meta")[2])
    forgery(meta["checkpoint"])
    file.find(b"meta")[2] = json.dumps(meta).encode()
    path.write_bytes(file.to_bytes())
    with pytest.raises(
        ValueError, match="is not a checkpoint that pymcboost|is not a .mcb|not a model"
    ):
        Checkpoint(path, 0).fit(MartClassifier(n_estimators=6), X, y)


@pytest.mark.parametrize("options", [{}, {"early_stopping": True}])
def test_a_checkpoint_with_the_rounds_of_something_else_is_refused(tmp_path, options):
    X, y = some_data()
    path, words = tmp_path / "m", {"random_state": 0, **options}
    for cls, others in (
        (MartClassifier, [MCBoostClassifier, VectorTreeBoostClassifier, HingeBoostOCClassifier]),
        (MultiBoostClassifier, [MartClassifier, HingeBoostOCClassifier]),
    ):
        Checkpoint(path, 0).fit(cls(n_estimators=3, **words), X, y)
        file = tampering.parse(path.read_bytes())
        meta = json.loads(file.find(b"meta")[2])
        for other in others:
            fitted = other(n_estimators=3).fit(X, y).model_.to_bytes()
            model = tampering.parse(fitted)
            model.find(b"meta")[2] = file.find(b"meta")[2]
            path.write_bytes(model.to_bytes())
            with pytest.raises(
                ValueError, match="the rounds in the checkpoint|is not a checkpoint"
            ):
                Checkpoint(path).fit(cls(n_estimators=6, **words), X, y)
            if "best" in meta["checkpoint"]:
                meta["checkpoint"]["best"] = base64.b64encode(fitted).decode()
                best = tampering.parse(file.to_bytes())
                best.find(b"meta")[2] = json.dumps(meta).encode()
                path.write_bytes(best.to_bytes())
                with pytest.raises(
                    ValueError, match="the rounds in the checkpoint do not belong to a"
                ):
                    Checkpoint(path).fit(cls(n_estimators=6, **words), X, y)
        path.unlink()


# -- Signals -----------------------------------------------------------------------------------------------------------


def test_ctrl_c_is_never_lost_in_libsvm():
    """Signals at random moments of a training that would not end. One that is lost is followed by another."""
    code = """
import os, random, signal, threading
import numpy as np
from pymcboost.algorithms.papers.hingeboost import HingeBoostOCClassifier  # without scikit-learn, which takes a second
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4)); y = rng.integers(0, 4, 300)
words = dict(n_estimators=1_000_000, kernel="rbf", C=1e4, n_jobs=1)
HingeBoostOCClassifier(**words | {"n_estimators": 1}).fit(X, y)
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
draw = random.Random(0)
for attempt in range(10):
    sent, ended = [], threading.Event()
    def interrupt():
        pause = 0.02 + 0.06 * draw.random()
        while not ended.wait(pause):
            sent.append(1)
            os.kill(os.getpid(), signal.SIGINT)
            pause = 20
    other = threading.Thread(target=interrupt)
    try:
        other.start()
        HingeBoostOCClassifier(**words).fit(X, y)
    except KeyboardInterrupt:
        ended.set()
    other.join()
    print(len(sent), flush=True)
    if len(sent) > 1:
        break
"""
    completed = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=500
    )
    assert (completed.stdout.split(), completed.stderr) == (["1"] * 10, "")


# -- Work and memory ---------------------------------------------------------------------------------------------------


def time_stamps():
    """Rows with a feature that is far from 0 for its spread."""
    rng = np.random.default_rng(0)
    X = np.column_stack((1.7e9 + rng.uniform(0, 3e7, 600), rng.normal(size=(600, 300))))
    return X, rng.integers(0, 5, 600)


def test_features_that_are_not_scaled_are_named_before_they_cost_time():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            UserWarning, match=r"the SVM converges slowly .*\(feature 0\)\. Use scale=True"
        ):
            HingeBoostOCClassifier(n_estimators=1, random_state=0).fit(*time_stamps())
        HingeBoostOCClassifier(n_estimators=2, scale=True, random_state=0).fit(*time_stamps())


@pytest.mark.parametrize("size", [1e9, 3e37])
@pytest.mark.parametrize("params", [{}, {"solver": "libsvm"}, {"kernel": "perceptron"}])
def test_huge_values_end_and_name_the_remedy(params, size, monkeypatch):
    monkeypatch.setattr(coordinate, "MAX_VISITS", 200_000_000)
    X, y = some_data(m=60)
    model = HingeBoostOCClassifier(n_estimators=1, random_state=0, **params)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(np.sign(X) * (np.abs(X) + 0.1) * size / 10, y)
    assert model.history_["n_iter"].sum() < 1e7
    ended = model.history_["violation"].max() <= 1e-3 * (
        1 + np.abs(model.decision_function(X * size / 10)).max()
    )
    assert ended or any("scale=True" in str(one.message) for one in caught)


def test_kernels_that_are_one_number_in_float32_end_at_once_and_are_named():
    X, y = some_data(m=60)
    for solver in ("libsvm", "coordinate"):
        model = HingeBoostOCClassifier(
            n_estimators=2, kernel="poly", coef0=2.0**31, solver=solver, random_state=0
        )
        with pytest.warns(
            UserWarning, match="the kernel values lie between .* a smaller coef0"
        ) as caught:
            model.fit(X, y)
        assert caught[0].filename == __file__
        assert model.history_["n_iter"].sum() < 10_000


def test_the_cost_of_sparse_columns_follows_their_entries(monkeypatch):
    """A million columns, of which 40 have entries: those alone are sorted, and looked at in Python."""
    rng, d, m = np.random.default_rng(0), 1 << 20, 200
    rows, columns = np.repeat(np.arange(m), 8), rng.integers(0, 40, 8 * m)
    X = scipy.sparse.coo_array(
        (rng.normal(size=8 * m), (rows, columns * (d // 40))), shape=(m, d)
    ).tocsr()
    y, looked_up, widths = np.arange(m) % 3, [], []
    seen = binning.Cuts.__getitem__
    monkeypatch.setattr(
        binning.Cuts, "__getitem__", lambda self, f: looked_up.append(f) or seen(self, f)
    )
    sort = binning._bins.sort_sparse_columns

    def sort_and_note(indptr, *rest):
        widths.append(len(indptr) - 1)
        sort(indptr, *rest)

    monkeypatch.setattr(binning, "_bins", SimpleNamespace(sort_sparse_columns=sort_and_note))
    for cls in (ABCMartClassifier, VectorTreeBoostClassifier, MCBoostClassifier):
        looked_up.clear()
        model = cls(n_estimators=2, random_state=0).fit(X, y).model_
        assert len(looked_up) < 1000 and widths and max(widths) <= 40
        used = np.unique(X.indices)
        few = cls(n_estimators=2, random_state=0).fit(X[:, used], y).model_
        np.testing.assert_array_equal(model.used_features()[0], used[few.used_features()[0]])


@pytest.mark.parametrize("scale", [False, True])
def test_hyperplanes_of_columns_without_entries(scale):
    """Columns without entries have the coefficient 0, and do not change those of the other columns."""
    rng = np.random.default_rng(0)
    d = 3000
    m = 60
    places = (rng.integers(0, m, 240), 71 * rng.integers(0, 40, 240))
    X = scipy.sparse.coo_array((rng.normal(size=240), places), shape=(m, d)).tocsr()
    y = np.arange(m) % 3
    used_columns = np.unique(X.indices)
    params = {"scale": scale, "random_state": 0, "warm_start": True}
    of_all_columns = HingeBoostOCClassifier(**params)
    of_used_columns = HingeBoostOCClassifier(**params)
    for n in (5, 9):
        machine = of_all_columns.set_params(n_estimators=n).fit(X, y).model_.ensemble
        smaller = (
            of_used_columns.set_params(n_estimators=n).fit(X[:, used_columns], y).model_.ensemble
        )
        expected = np.zeros((3, d), dtype=np.float32)
        expected[:, used_columns] = smaller.coef
        np.testing.assert_array_equal(machine.coef, expected)
        np.testing.assert_array_equal(machine.intercept, smaller.intercept)
    assert (expected != 0).any()


def test_work_on_features_that_are_not_scaled_is_bounded(monkeypatch):
    monkeypatch.setattr(coordinate, "MAX_VISITS", 200_000_000)
    with pytest.warns(UserWarning):
        fitted = HingeBoostOCClassifier(n_estimators=2, random_state=0).fit(*time_stamps())
    assert fitted.history_["n_iter"].sum() < 1_500_000


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on the memory of a process")
def test_hyperplanes_that_do_not_fit_are_refused_before_any_is_taken():
    code = f"""
import numpy as np, resource, scipy.sparse
from pymcboost.algorithms.papers.hingeboost import HingeBoostOCClassifier  # without scikit-learn, which takes a second
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
X = scipy.sparse.csr_matrix((np.ones(4, "f"), [0, 5, {WIDEST - 1}, 7], [0, 1, 2, 3, 4]), shape=(4, {WIDEST}))
try:
    HingeBoostOCClassifier(n_estimators=2).fit(X, np.arange(4) % 3)
except MemoryError as error:
    print(error)
"""
    completed = run_python(code)
    assert f"3 hyperplanes over {WIDEST} features need about " in completed.stdout, completed.stderr


# -- One result on every CPU -------------------------------------------------------------------------------------------

# What NumPy chooses by the CPU, and the BLAS of NumPy and SciPy.
OLD_CPU = {
    "NPY_DISABLE_CPU_FEATURES": " ".join(np._core._multiarray_umath.__cpu_dispatch__),
    "OPENBLAS_CORETYPE": "Nehalem",
}
TRAININGS = """
import hashlib, sys, warnings
import numpy as np
from pymcboost import load_svmlight
from pymcboost.algorithms.papers.hingeboost import HingeBoostOCClassifier  # without scikit-learn, which takes a second
from pymcboost.algorithms.papers.jointboost import JointBoostClassifier
from pymcboost.data.stump_data import TrainingData
from pymcboost.losses import PAIRWISE, pairwise
warnings.simplefilter("ignore")
sets = [load_svmlight(path, layout="dense")[:2] for path in sys.argv[1:]]
models = [JointBoostClassifier(n_estimators=40), *(
    HingeBoostOCClassifier(n_estimators=3, C=1e3, kernel=kernel, solver=solver, coef0=1.0, init=init, random_state=0)
    for kernel in ("linear", "poly", "rbf", "perceptron")
    for solver, init in (("libsvm", "max-cut"), ("coordinate", "random"))
), HingeBoostOCClassifier(n_estimators=8, C=1e4, scale=True, random_state=0)]
for model in models:
    for X, y in sets:
        data = model.fit(X, y).model_.to_bytes()
        print(type(model).__name__, getattr(model, "kernel", ""), hashlib.sha256(data).hexdigest())
rng, pairwise.MANY_COLUMNS = np.random.default_rng(0), 1
loss = PAIRWISE["log"].blocks(TrainingData(np.zeros((8, 1)), np.arange(8), 8, np.ones(8)))
loss.start(rng.normal(size=(8, 8)))
found = [loss.value_and_slopes(np.ones(8, dtype=np.int8), w) for w in 9 * rng.random((50, 8))]
print("passes", [value.hex() for value, _ in found], hashlib.sha256(np.array([its for _, its in found])).hexdigest())
"""


def test_models_do_not_depend_on_what_numpy_and_blas_know_of_the_cpu(project_root):
    sets = [project_root / "data" / "wine.libsvm"]
    found = [
        subprocess.run(
            [sys.executable, "-c", TRAININGS, *sets],
            env=environment(OPENBLAS_NUM_THREADS="1", **cpu),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for cpu in ({}, OLD_CPU)
    ]
    assert len(found[0]) == 11
    assert found[0] == found[1]
