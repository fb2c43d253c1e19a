"""The parts of tools/ that compare trees: splits, units and tables of the experiments, processes of the benchmarks."""

import json
import subprocess
import time
from types import SimpleNamespace

import bench.run
import numpy as np
import pytest
import reproduce.run
from bench import early, process, trees
from bench.report import Options, Report
from reproduce import abcboost, journal
from reproduce.journal import frame_of
from shared import datasets, peers


def test_28_sets():
    assert len(datasets.DATA) == 28
    assert [name for name in datasets.DATA if datasets.fixed_split(name)] == [
        "svmguide4",
        "vowel",
        "dna",
        "optdigits",
        "satimage",
        "usps",
        "sector",
        "pendigits",
        "news20-bydate",
        "letter",
        "shuttle",
        "mnist",
        "poker",
        "covtype",
    ]


@pytest.mark.needs_data
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if datasets.DATA[name].cost > 10**7 else ())
        for name in datasets.DATA
    ],
)
def test_sizes_of_the_sets(monkeypatch, data_folder, name):
    monkeypatch.setenv("PYMCBOOST_DATA", str(data_folder))
    datasets.load.cache_clear()
    X, y, X_test, y_test = datasets.load_for_trees(name)
    entry = datasets.DATA[name]
    assert X.shape == (len(y), entry.n_features) and X_test.shape == (len(y_test), entry.n_features)
    assert X.dtype == X_test.dtype == np.float32
    assert len(y) + len(y_test) == entry.rows
    assert len(np.unique(np.concatenate([y, y_test]))) == entry.n_classes
    if name == "covtype":
        assert len(y) == len(y_test) == 290506
    if name == "letter":
        assert len(y) == 15000
    if name == "poker":
        assert len(y) == 25010


def test_stratified_split():
    y = np.repeat([7, 3, 5, 1], [1, 2, 40, 101])[np.random.default_rng(0).permutation(144)]
    train, test = datasets.stratified_rows(y, 0)
    assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(144))
    assert {label: int(np.sum(y[test] == label)) for label in (7, 3, 5, 1)} == {
        7: 0,
        3: 1,
        5: 10,
        1: 25,
    }
    assert np.array_equal(test, datasets.stratified_rows(y, 0)[1])
    assert not np.array_equal(test, datasets.stratified_rows(y, 1)[1])


def test_folds():
    y = np.repeat([0, 1, 2], [7, 3, 43])
    parts = [datasets.fold_rows(y, fold, 5) for fold in range(5)]
    assert np.array_equal(np.sort(np.concatenate([test for _, test in parts])), np.arange(53))
    for train, test in parts:
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(53))
        assert len(test) in (10, 11) and np.sum(y[test] == 2) in (8, 9)


def test_codes_of_classes_without_training_rows():
    _, codes, _, truth = datasets.coded(
        (None, np.array([5, 2, 9]), None, np.array([1, 2, 3, 5, 9, 12]))
    )
    assert codes.tolist() == [1, 0, 2] and truth.tolist() == [-1, 0, -1, 1, 2, -1]


def test_cheap_sets_come_first():
    assert datasets.sets_by_cost(["mnist", "letter", "iris"]) == ["iris", "letter", "mnist"]
    with pytest.raises(SystemExit, match="unknown set 'irsi'"):
        datasets.sets_by_cost(["irsi"])


def test_a_budget_of_nothing(tmp_path, capsys):
    """No fit is begun when the time is over; what is missing is done by the next run."""
    kept = journal.Journal(tmp_path / "one.csv", ["unit"], ["value"])
    units = [{"unit": unit} for unit in range(4)]
    journal.run_units(kept, work_on, units, jobs=1, title="made up", budget=0)
    assert kept.rows == [] and "4 of 4 not begun" in capsys.readouterr().err
    journal.run_units(kept, work_on, units[:2], jobs=1, title="made up")
    journal.run_units(kept, work_on, units, jobs=1, title="made up")
    assert "2 of 4 are there already" in capsys.readouterr().err
    assert [
        row["value"]
        for row in journal.Journal(tmp_path / "one.csv", ["unit"], ["value"], keep=True).rows
    ] == [
        "0",
        "1",
        "4",
        "9",
    ]


def work_on(unit):
    return {**unit, "value": unit["unit"] ** 2, "seconds": 0}


# --------------------------------------------------------------------------------------------------------------------
# Benchmarks


@pytest.fixture
def small(tmp_path):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 5)).astype(np.float32)
    y = 3 + (X[:, 0] > 0) + (X[:, 1] > 0)
    process.save_arrays(tmp_path, X[:200], y[:200], X[200:], y[200:])
    return tmp_path


def test_fit_in_a_process(small):
    """Errors, memory and seconds come back, and a failure is told in its own words."""
    spec = peers.Spec("sklearn", rounds=4, leaves=5)
    failed = {}
    outcomes = process.race_processes(
        small, {"sklearn": spec, "broken": peers.Spec("sklearn", rounds=-1)}, 2, failed=failed
    )
    assert list(failed) == ["broken"] and "max_iter" in failed["broken"]
    one = outcomes["sklearn"]
    assert len(one.timing.seconds) == 2 and min(one.timing.seconds) > 0
    assert (
        one.rounds == 4
        and one.trees == 12
        and len(one.errors) == 4
        and one.error == one.errors[-1] < 50
    )
    row = one.row("sklearn")
    assert row["test_error_percent"] == round(one.error, 3)
    if not np.isnan(one.memory["peak_MB"]):
        assert row["peak_MB"] > row["grown_MB"] >= 0


def test_the_slower_variant_goes_no_further(small, monkeypatch):
    seconds = {"row": iter([3.0]), "col": iter([2.0, 2.5, 2.2]), "other": iter([9.0, 9.0, 9.0])}

    def run(task):
        taken = next(seconds[task["spec"]["more"]["name"]])
        return {
            "seconds": taken,
            "cpu": taken,
            "peak_MB": 1.0,
            "grown_MB": 1.0,
            "rounds": 1,
            "trees": 1,
        }

    monkeypatch.setattr(process, "run_process", run)
    specs = {
        name: peers.Spec("lightgbm", more={"name": name.split()[-1]})
        for name in ("L | row", "L | col", "other")
    }
    outcomes = process.race_processes(small, specs, 3, errors=False)
    assert {name: len(one.timing.seconds) for name, one in outcomes.items()} == {
        "L | row": 1,
        "L | col": 3,
        "other": 3,
    }
    name, one = process.best_variant(outcomes, "L")
    assert name == "L | col" and one.timing.best == 2.0
    assert process.best_variant(outcomes, "M") == (None, None)


def test_processes_that_take_too_long(monkeypatch):
    monkeypatch.setattr(
        process, "start", lambda *_: subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE)
    )
    begin = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        process.run_process({}, seconds=0.1)
    assert time.monotonic() - begin < 30


def test_files_of_the_models(small):
    """Bytes of both kinds of leaves, the error of the smaller one, and none where they are not asked for."""
    specs = {"vector": peers.Spec("vector", rounds=4, leaves=None, learning_rate=None)}
    one = process.race_processes(small, specs, 1, sizes=True)["vector"]
    assert 0 < one.sizes["file_bytes_16"] < one.sizes["file_bytes"] < 20_000
    assert abs(one.sizes["error_16"] - one.error) < 5
    assert one.row("vector")["file_bytes"] == one.sizes["file_bytes"]
    assert process.race_processes(small, specs, 1)["vector"].sizes == {}


def outcome(seconds, memory=1.0, **sizes):
    one = process.Outcome(sizes=sizes)
    one.add(
        {
            "seconds": seconds,
            "cpu": seconds,
            "peak_MB": memory,
            "grown_MB": 0,
            "rounds": 1,
            "trees": 1,
        }
    )
    return one


@pytest.mark.parametrize("good", [True, False])
def test_targets(good):
    """What is asked of the figures is judged, on the right side of each bound."""
    report = Report()
    found = {
        "vector": outcome(1.0, file_bytes=330 if good else 340, file_bytes_16=199 if good else 201),
        "LightGBM plain, 100 rounds": outcome(4.01 if good else 3.99),
        "LightGBM plain, 200 rounds": outcome(9.0, file_bytes=1000),
    }
    trees.vector_targets(report, "set", found, rounds=200)
    found = {
        "logitboost": outcome(1.0, memory=99 if good else 102),
        "abc-logitboost gap=100": outcome(1.14 if good else 1.16),
        "LightGBM | row-wise": outcome(2.0, memory=100),
        "LightGBM | col-wise": outcome(3.0, memory=105 if good else 50),
    }
    trees.add_memory(report, "set", found, algorithms=("logitboost",))
    trees.add_ratios(report, "set", found, algorithms=("logitboost",))
    trees.add_ratios(report, "set", found, algorithms=("logitboost",), suffix=", to 1%")
    assert [target["ok"] for target in report.targets] == [good] * 5
    assert [target["target"] for target in report.targets] == [
        ">= 4 x",
        "<= 0.333333 x",
        "<= 0.2 x",
        "<= 1 x",
        "<= 1.15 x",
    ]
    trees.vector_targets(report, "set", {"vector": outcome(1.0)}, rounds=200)
    trees.add_memory(report, "set", {"logitboost": outcome(1.0)}, algorithms=("logitboost",))
    assert len(report.targets) == 5


@pytest.mark.parametrize("method", ["mart", "abc-logitboost", "lightgbm"])
def test_errors_of_a_long_training(method):
    """They are those of predictions after as many rounds, and of all; the first methods differ in their leaves."""
    pytest.importorskip(method) if method in peers.PEERS else None
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5)).astype(np.float32)
    y = (X[:, 0] > 0) + (X[:, 1] * X[:, 2] > 0).astype(int)
    unit = {
        "method": method,
        "gap": 3 if method.startswith("abc") else 0,
        "min_leaf": 10,
        "rounds": 12,
    }
    row = abcboost.fit_long(lambda: (X[:300], y[:300], X[300:], y[300:]), unit)
    model = peers.fit(abcboost.specification(unit), X[:300], y[:300], n_classes=3)
    expected = {
        rounds: int(np.sum(model.predict(X[300:], rounds) != y[300:])) for rounds in (10, 12)
    }
    assert abcboost.curve_of(row) == expected and row["rounds_fitted"] == 12


def test_table_of_long_trainings():
    run = next(run for run in abcboost.RUNS if run.name == "mnist10k")
    options = SimpleNamespace(methods=None, gaps=None, rounds=None)
    [(_, units, _)] = run.units(options, None)
    settings = [(unit["method"], unit["gap"], unit["min_leaf"]) for unit in units]
    assert settings[:2] == [("mart", 0, 10), ("abc-mart", 1, 10)]
    counts = {"mart": 3000, "abc-mart": 2500, "logitboost": 2400, "abc-logitboost": 2200}
    curves = {method: f"50:{2 * count} 90:{count}" for method, count in counts.items()}
    rows = [
        {**unit, "n_test": 60000, "curve": curves[unit["method"]], "seconds": 36} for unit in units
    ]
    text = run.text(frame_of(rows, as_text=("curve",)))
    assert "| mart | - | 2815 | 6000 | 3000 | 3000 (90 rounds) | 0.01 | NO (+6.6%) |" in text
    assert (
        "Order at 90 rounds, fewest errors first: abc-logitboost < logitboost < abc-mart < mart (as pub"
        in text
    )
    shorter = run.text(frame_of([{**rows[0], "rounds": 90}, *rows[1:]], as_text=("curve",)))
    assert "| mart | - | 2815 | 6000 | 3000 | 3000 (90 rounds) | 0.01 | - |" in shorter
    said = run.values(frame_of(rows, as_text=("curve",)))
    assert said["abc-mart-gap-1"] == said["abc-mart-gap-1-at-90"] == "2,500"
    assert said["abc-mart-gap-1-at-50"] == "5,000" and said["mart-at-50"] == "6,000"


def test_gaps_are_compared_after_as_many_rounds():
    """Longer trainings have their count at those rounds; a set without published errors names no order."""
    run = next(run for run in abcboost.RUNS if run.name == "poker25k-abc")
    [(_, units, _)] = run.units(SimpleNamespace(methods=None, gaps=[1, 100], rounds=None), None)
    assert [unit["gap"] for unit in units] == [0, 1, 100, 0, 1, 100] and run.published == {}
    counts = (900, 400, 500, 800, 300, 297)
    rows = [
        {**unit, "n_test": 9999, "seconds": 36, "curve": f"1000:{counts[at]} 1200:7"}
        for at, unit in enumerate(units)
    ]
    frame = frame_of([*rows[:5], {**rows[5], "curve": "600:1"}], as_text=("curve",))
    assert run.gaps_page(frame).splitlines()[2:] == [
        "| 1 | 400 | 300 |",
        "| 100 | 500 (+25.0%) | - |",
        "| without ABC | 900 | 800 |",
    ]
    said = run.values(frame_of(rows, as_text=("curve",)))
    assert said["abc-mart-gap-100-over-1"] == "+25.0%"
    assert said["abc-logitboost-gap-100-over-1"] == "-1.0%"
    assert "Order" not in run.text(frame)


def test_poker_hands_of_uci(data_folder):
    """25 features of the ten columns, and the labels as they are."""
    X, y, X_test, y_test = abcboost.poker25k()
    assert X.shape == (25010, 25) and X_test.shape == (99999, 25)
    assert X[0].tolist() == [1, 0, 0, 0] * 5 + [10, 11, 13, 12, 1] and y[0] == 10
    assert len(y_test) == 99999


@pytest.mark.parametrize(
    ("ours", "words"),
    [(2102, "yes (+0.0%)"), (2165, "yes (+3.0%)"), (2166, "NO (+3.0%)"), (2000, "better (-4.9%)")],
)
def test_within(ours, words):
    assert abcboost.within_words(ours, 2102, 0.03) == words


def test_absent_ones_are_named_and_counted(monkeypatch):
    def require(method):
        if method == "xgboost":
            raise peers.Absent("xgboost")

    monkeypatch.setattr(peers, "require", require)
    entrants = process.Field()
    report = Report()
    kept = entrants.keep({"XGBoost": peers.Spec("xgboost"), "scikit-learn": peers.Spec("sklearn")})
    assert list(kept) == ["scikit-learn"]
    entrants.tell(report)
    assert report.notes == ["1 absent and skipped: xgboost: xgboost"] and report.parameters[
        "absent"
    ] == ["xgboost"]


def test_equal_error(monkeypatch):
    """Everyone is fitted anew with the first round at the level, and who never reaches it is named."""
    asked = {}

    def run(folder, competitors, repeat, errors=True, failed=None):
        asked.update({name: spec.rounds for name, spec in competitors.items()})
        return {name: outcome([], spec.rounds) for name, spec in competitors.items()}

    def outcome(errors, seconds):
        one = process.Outcome(errors=errors, error=errors[-1] if errors else 0.0)
        one.add(
            {
                "seconds": seconds,
                "cpu": seconds,
                "peak_MB": 1,
                "grown_MB": 1,
                "rounds": 1,
                "trees": 1,
            }
        )
        return one

    monkeypatch.setattr(trees, "race_processes", run)
    found = {
        "logitboost": outcome([9, 6, 5, 4], 1.0),
        "LightGBM | row-wise": outcome([9, 8, 6, 5], 2.0),
        "LightGBM | col-wise": outcome([9, 8, 6, 5], 3.0),
        "CatBoost": outcome([9, 8, 7, 7], 1.0),
    }
    report = Report()
    specs = dict.fromkeys(found, peers.Spec("sklearn"))
    trees.equal_error(
        report,
        "set",
        None,
        timings=found,
        competitors=specs,
        algorithms=["logitboost"],
        repeat=1,
        entrants=process.Field(),
    )
    assert asked == {"logitboost": 3, "LightGBM | row-wise": 4}
    assert report.notes == ["set: CatBoost does not reach 5.000%"]
    ratio = next(row for row in report.rows if "LightGBM's time / logitboost's" in row["what"])
    assert ratio["best"] == pytest.approx(4 / 3)


@pytest.mark.parametrize("method", peers.PEERS)
def test_every_peer_scores_its_rounds(method):
    """The last of the staged labels are those of the whole model, for whatever is installed."""
    pytest.importorskip(method)
    generator = np.random.default_rng(1)
    X = generator.standard_normal((400, 6)).astype(np.float32)
    codes = (X[:, 0] > 0) + (X[:, 1] * X[:, 2] > 0).astype(int)
    model = peers.fit(peers.Spec(method, rounds=8, leaves=6), X, codes, n_classes=3)
    staged = list(model.staged(X))
    assert len(staged) == model.rounds == 8
    np.testing.assert_array_equal(staged[-1], model.predict(X))
    assert np.mean(staged[-1] != codes) < np.mean(staged[0] != codes) < 0.6
    assert set(np.unique(staged[-1])) <= {0, 1, 2}


@pytest.mark.parametrize(("data", "algorithms"), [(["irsi"], []), ([], ["abc"])])
def test_unknown_names(data, algorithms):
    with pytest.raises(ValueError, match="unknown '(irsi|abc)'; there are "):
        trees.check(data, algorithms)


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (bench.run, ["trees", "--data", "irsi"]),
        (bench.run, ["trees", "--data", "generated-355"]),
        (bench.run, ["trees", "--rounds", "0"]),
        (bench.run, ["trees", "--leaves", "1"]),
        (bench.run, ["trees", "--threads", "0"]),
        (reproduce.run, ["mnist10k", "--rounds", "0"]),
        (reproduce.run, ["mnist10k", "--verify", "0"]),
        (reproduce.run, ["poker-abc", "--gaps", "0"]),
        (reproduce.run, ["figure1", "--verify"]),
    ],
)
def test_wrong_options(monkeypatch, capsys, tool, words):
    """Refused before anything is measured or trained."""
    monkeypatch.delenv("PYMCBOOST_DATA", raising=False)
    with pytest.raises(SystemExit) as left:
        tool.main(words)
    assert left.value.code == 2 and "usage:" in capsys.readouterr().err


def test_quick_uses_the_first_rows(monkeypatch):
    monkeypatch.setattr(datasets, "load_for_trees", lambda name: (np.zeros(5000), np.zeros(10)))
    assert [len(part) for part in trees.tree_data("letter", Options(quick=True))] == [3000, 10]


@pytest.fixture
def made_up(monkeypatch):
    """Put a function in the place of a benchmark, without the limits of the machine."""
    monkeypatch.setattr(bench.run.limits, "Limits", lambda: SimpleNamespace(all=lambda repeat: {}))

    def put(function):
        function.__doc__ = "Made up."
        monkeypatch.setitem(bench.run.BENCHMARKS, "made-up", function)

    return put


def test_counts_of_numpy_are_written(made_up, tmp_path):
    """What NumPy counts and compares is no number of Python; the early exits judge such counts."""
    row = {"best": np.float64(0.5), "fewer": np.float64(9), "changed": np.int64(2), "of_rows": 1000}

    def judged(options):
        report = Report(rows=[{"what": "letter", "unit": "x", **row}])
        early.judge(report, {"certified": {"letter": row}, "calibrated": {"letter": row}})
        return report

    made_up(judged)
    path = tmp_path / "bench.json"
    assert bench.run.main(["made-up", "--quick", "--json", str(path)]) == 0
    entry = json.loads(path.read_text())["made-up"]
    assert [target["reached"] for target in entry["targets"]] == [2, 0.5, 1, 1, 0.2]
    assert entry["rows"][0]["changed"] == 2


def test_what_json_cannot_hold_is_told_without_a_file(made_up):
    """A quick run without --json would not tell otherwise."""
    made_up(lambda options: Report(notes=[object()]))
    with pytest.raises(AttributeError, match="'object' object has no attribute 'item'"):
        bench.run.main(["made-up", "--quick"])


def test_journal_resumes(tmp_path):
    """A half-written last line is dropped and its unit is done again; finished units are not."""
    path = tmp_path / "units.csv"
    first = journal.Journal(path, ["unit"], ["error"])
    for unit in range(3):
        first.add({"unit": unit, "error": 0.5, "seconds": 1.0})
    text = path.read_text()
    path.write_text(text[: text.rindex(",")])
    second = journal.Journal(path, ["unit"], ["error"])
    assert second.missing([{"unit": unit} for unit in range(4)]) == [{"unit": 2}, {"unit": 3}]
    second.add({"unit": 2, "error": 0.5, "seconds": 1.0})
    third = journal.Journal(path, ["unit"], ["error"])
    assert third.missing([{"unit": 2}]) == []
    assert len(path.read_text().splitlines()) == 4
