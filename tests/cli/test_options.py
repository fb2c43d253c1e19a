"""Arguments become parameters: no program is started and nothing is trained here."""

import argparse
import inspect
import re
from pathlib import Path

import pytest

from pymcboost.cli.console import UsageError
from pymcboost.cli.option_names import TABLE
from pymcboost.cli.options import (
    NUMBERED,
    add_algorithm_options,
    get_algorithm,
    option_flags,
    table_text,
    take_class_weights,
)
from pymcboost.cli.train import LAYOUTS, main, parse
from pymcboost.cli.workers import DIVIDED
from pymcboost.model import file
from pymcboost.model.kernel import KERNELS
from pymcboost.registry import ALGORITHMS as REGISTRY
from pymcboost.registry import get_plain_class
from pymcboost.training.parameters import parameters, values_of

# Every command-line parameter of MCBoostClassifier: arguments, and what the estimator must then hold.
GIVEN = {
    "loss": [("--loss log", "log"), ("-l exp", "exp")],
    "n_estimators": [("--n-estimators 7", 7), ("-n 8", 8), ("-n9", 9), ("-n auto", "auto")],
    "cv": [("--cv 5", 5), ("", 3)],
    "learning_rate": [("--learning-rate 0.25", 0.25), ("-r 1", 1.0)],
    "nu": [("--nu 1e-3", 1e-3), ("--nu=0", 0.0)],
    "max_step": [("--max-step 0.5", 0.5), ("--max-step none", None)],
    "fixed_step": [("--fixed-step 0.01", 0.01)],
    "weak_learner": [("--weak-learner tree", "tree"), ("--weak-learner stump", "stump")],
    "max_leaf_nodes": [("--max-leaf-nodes 2", 2)],
    "max_depth": [("--max-depth 500", 500), ("--max-depth none", None)],
    "max_bins": [("--max-bins 2", 2)],
    "min_samples_category": [("--min-samples-category 3", 3.0), ("--min-samples-category 0", 0.0)],
    "min_weight_fraction_leaf": [("--min-weight-fraction-leaf 0.1", 0.1)],
    "early_stopping": [
        ("--early-stopping", True),
        ("--no-early-stopping", False),
        ("-E 5", True),
        ("-E 5 --no-early-stopping", False),
    ],
    "scoring": [
        ("", "log_loss"),
        ("--metric error", "error"),
        ("--scoring neg_brier_score", "neg_brier_score"),
        ("--metric error,auc_ovr", ["error", "auc_ovr"]),
    ],
    "min_delta": [("--min-delta 1e-3", 1e-3)],
    "validation_fraction": [("--validation-fraction 0.3", 0.3)],
    "n_iter_no_change": [("--n-iter-no-change 4", 4), ("-E 6", 6)],
    "class_weight": [("--class-weight balanced", "balanced"), ("--class-weight none", None)],
    "random_state": [
        ("", 0),
        ("--random-state 3", 3),
        ("-S 4294967295", 4294967295),
        ("-S none", None),
    ],
    "calibrate": [("--calibrate temperature", "temperature"), ("--calibrate none", None)],
    "restore_priors": [("--restore-priors", True), ("", False)],
    "n_jobs": [("--n-jobs 2", 2), ("-j -1", -1)],
    "verbose": [("--verbose 2", 2), ("", 0), ("-q", 0), ("-v 3", 0)],
}
# What class-wise trees have besides; a base class only those with "abc".
TREES = {
    "min_samples_leaf": [("--min-samples-leaf 2.5", 2.5), ("--min-samples-leaf 0", 0.0)],
    "max_features": [("--max-features 0.1", 0.1)],
    "max_features_tree": [("--max-features-tree 0.1", 0.1)],
    "subsample": [("--subsample 1", 1.0)],
    "l2_regularization": [("--l2-regularization 1e12", 1e12), ("--l2-regularization 0", 0.0)],
    "min_gain": [("--min-gain 0.5", 0.5)],
}
NEWTON = {"min_hessian_leaf": [("--min-hessian-leaf 1e-3", 1e-3)]}
ADAPTIVE = {
    "gap": [("--gap 1", 1)],
    "n_candidates": [("--n-candidates 3", 3), ("--n-candidates none", None)],
    "warmup_rounds": [("--warmup-rounds 0", 0), ("--warmup-rounds 20", 20)],
}
MCBOOST_ONLY = {"loss", "nu", "max_step", "fixed_step", "weak_learner", "min_weight_fraction_leaf"}
# Of the workhorses.
CATEGORIES = {"min_samples_category"}
VECTOR = {
    "loss": [("", "softmax"), ("-l softmax", "softmax"), ("--loss softmax", "softmax")],
    "leaf_step": [("--leaf-step full", "full"), ("--leaf-step diagonal", "diagonal")],
    "min_relative_gain": [("--min-relative-gain 0", 0.0)],
    "split_columns": [("--split-columns 5", 5), ("--split-columns none", None)],
    "max_leaf_entries": [("--max-leaf-entries 5", 5), ("--max-leaf-entries none", None)],
    "leaf_levels": [("--leaf-levels 3", 3), ("--leaf-levels none", None)],
    "feature_penalty": [("--feature-penalty 0.1", 0.1), ("--feature-penalty 0", 0.0)],
    "threshold_penalty": [("--threshold-penalty 0.2", 0.2)],
    "decision_threshold": [
        ("--loss logistic --decision-threshold 0.3", 0.3),
        ("--loss logistic --decision-threshold f1", "f1"),
    ],
    **TREES,
}
COLUMN_GENERATION = {
    **{
        name: rows
        for name, rows in GIVEN.items()
        if name not in {*MCBOOST_ONLY, *CATEGORIES, "learning_rate"}
    },
    "C": [("-c 10", 10.0), ("--C 1e6", 1e6)],
    "max_passes": [("--max-passes 1", 1)],
    "tol": [("--tol 0", 0.0)],
    **{name: GIVEN[name] for name in ("weak_learner", "min_weight_fraction_leaf")},
}
HINGE = {
    **{
        name: GIVEN[name]
        for name in (
            "n_estimators",
            "early_stopping",
            "validation_fraction",
            "n_iter_no_change",
            "random_state",
        )
    },
    **{name: GIVEN[name] for name in ("calibrate", "cv", "min_delta")},
    "scoring": [("", "error"), ("--metric auc_ovr", "auc_ovr")],
    **{name: GIVEN[name] for name in ("n_jobs", "verbose")},
    "C": [("-c 10", 10.0), ("--C 0.5", 0.5)],
    "kernel": [
        ("", "linear"),
        ("-t 0", "linear"),
        ("-t 1", "poly"),
        ("-t 2", "rbf"),
        ("-t 5", "perceptron"),
        ("--kernel rbf", "rbf"),
    ],
    "gamma": [("-g 0.5", 0.5), ("--gamma none", None)],
    "coef0": [("-r 1", 1.0), ("-r -2", -2.0)],
    "degree": [("-d 2", 2)],
    "init": [("--init max-cut", "max-cut"), ("--init pairs", "pairs")],
    "n_colourings": [("--n-colourings 5", 5)],
    "max_alternations": [("--max-alternations 1", 1)],
    "allow_zero": [("--allow-zero", True), ("--no-allow-zero", False)],
    "scale": [("--scale", True)],
    "solver": [("--solver libsvm", "libsvm"), ("--solver coordinate", "coordinate"), ("", "auto")],
    "tol": [("--tol 0.01", 0.01)],
}
COMMON = {name: rows for name, rows in GIVEN.items() if name not in MCBOOST_ONLY}
CLASSIC = {
    **{name: rows for name, rows in COMMON.items() if name not in {*CATEGORIES, "learning_rate"}},
    **{name: GIVEN[name] for name in ("weak_learner", "min_weight_fraction_leaf")},
    "min_weight_fraction_split": [("--min-weight-fraction-split 0.25", 0.25)],
    "subsample": [("--subsample 1", 1.0), ("--subsample 0.1", 0.1)],
}
ALL_ROWS = {name: rows for name, rows in CLASSIC.items() if name != "subsample"}
CODE = {
    "decoder": [("", "exp"), ("--decoder hamming", "hamming"), ("--decoder linear", "linear")],
    "code": [("", "auto"), ("--code dense", "dense"), ("--code one-vs-all", "one-vs-all")],
}
PIBOOST = {
    "separators": [("", "singles"), ("--separators pairs", "pairs")],
    "cost_sensitive": [("", True), ("--no-cost-sensitive", False), ("--cost-sensitive", True)],
}
OF_LABELS = CLASSIC | {
    "decision_threshold": [
        ("--multilabel --decision-threshold 0.3", 0.3),
        ("--multilabel --decision-threshold f1", "f1"),
    ],
}

TABLES = {
    "mcboost": GIVEN,
    "logitboost": {**COMMON, **TREES, **NEWTON},
    "mart": {**COMMON, **TREES},
    "abc-logitboost": {**COMMON, **TREES, **NEWTON, **ADAPTIVE},
    "abc-mart": {**COMMON, **TREES, **ADAPTIVE},
    "multiboost": {
        **COLUMN_GENERATION,
        "loss": [("", "exp"), ("-l log", "log")],
        "solver": [
            ("--solver fcd", "fcd"),
            ("--solver lbfgs", "lbfgs"),
            ("--solver lbfgs-cold", "lbfgs-cold"),
        ],
    },
    "multiboost-cw": COLUMN_GENERATION,
    "hingeboost": HINGE,
    "vector-tree": {**COMMON, **VECTOR},
    "adaboost-ecc": ALL_ROWS,
    "adaboost-erp": {**ALL_ROWS, "n_repartitions": [("--n-repartitions 0", 0), ("", 1)]},
    "adaboost-m1": CLASSIC,
    "adaboost-m2": CLASSIC,
    "adaboost-mh": OF_LABELS,
    "adaboost-ml": ALL_ROWS,
    "adaboost-mo": {**ALL_ROWS, **CODE},
    "adaboost-oc": ALL_ROWS,
    "gentleboost": CLASSIC,
    "gradboost": {
        **ALL_ROWS,
        "l1": [("--l1 0", 0.0), ("--l1 1e-3", 1e-3)],
    },
    "jointboost": {
        name: rows
        for name, rows in CLASSIC.items()
        if name
        not in (
            "weak_learner",
            "max_leaf_nodes",
            "max_depth",
            "min_weight_fraction_split",
            "subsample",
        )
    },
    "piboost": {**CLASSIC, **PIBOOST},
    "samme": CLASSIC,
}


def on_command_line(cls):
    return [name for name, row in parameters(cls).items() if not row.python_only]


@pytest.mark.parametrize("algorithm", sorted(REGISTRY))
def test_every_parameter_has_help_and_a_valid_default(algorithm):
    cls = get_plain_class(algorithm)
    for name in on_command_line(cls):
        assert parameters(cls)[name].help, f"{cls.__name__} does not document {name}"
    for name, parameter in inspect.signature(cls).parameters.items():
        assert parameters(cls)[name].allows(parameter.default), f"default of {name}"


def test_what_is_read_is_what_the_classes_say():
    assert table_text() == Path(TABLE).read_text(), (
        "the top of test_docs.py says how to write the table again"
    )
    assert {int(number): name for number, name in NUMBERED["kernel"].items()} == {
        n: k for k, n in KERNELS.items()
    }
    assert LAYOUTS == file.LAYOUTS
    for name in REGISTRY:
        rows = {
            own: row
            for own, row in parameters(get_plain_class(name)).items()
            if not row.python_only
        }
        read = get_algorithm(name).rows
        first = {own: row._replace(help=row.help.partition("\n\n")[0]) for own, row in rows.items()}
        assert list(read.items()) == list(first.items())


@pytest.mark.parametrize("algorithm", sorted(REGISTRY))
def test_table_is_complete(algorithm):
    assert sorted(TABLES[algorithm]) == sorted(on_command_line(get_plain_class(algorithm)))


@pytest.mark.parametrize("algorithm", TABLES)
def test_options_set_parameters(algorithm):
    for name, text, value in [
        (name, *row) for name, rows in TABLES[algorithm].items() for row in rows
    ]:
        _, estimator, _ = parse(["-a", algorithm, *text.split(), "train.svm"])
        assert type(estimator) is get_plain_class(algorithm)
        found = values_of(estimator)[name]
        assert (type(found), found) == (type(value), value), (name, text)


def test_help_names_the_algorithms_of_workers_and_chunks():
    named = {name for name in REGISTRY if re.search(rf"(?<![-\w]){name}(?![-\w])", DIVIDED)}
    assert named == {name for name in REGISTRY if get_algorithm(name).workers}


@pytest.mark.parametrize("algorithm", sorted(REGISTRY))
def test_options_not_given_keep_the_signature_default_but_for_seed_and_progress(algorithm):
    cls = get_plain_class(algorithm)
    _, estimator, _ = parse(["train.svm", "-a", algorithm])
    defaults = {name: p.default for name, p in inspect.signature(cls).parameters.items()}
    assert values_of(estimator) == {**defaults, "random_state": 0, "verbose": 0}


@pytest.mark.parametrize(
    ("options", "verbose"), [("", 1), ("-q", 0), ("-v 3", 0), ("--verbose 0", 0)]
)
def test_progress_is_shown_on_a_terminal(options, verbose, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert parse(["train.svm", *options.split()])[1].verbose == verbose


def test_libsvms_c_goes_with_a_validation_file():
    for more in ("-E 5", "--calibrate temperature", "--early-stopping"):
        assert parse(f"-a hingeboost --libsvm-c 3 {more} -P v t".split())[0].libsvm_c == 3


def test_algorithm_is_mcboost_where_none_is_named():
    assert type(parse(["train.svm"])[1]) is get_plain_class("mcboost")


def help_of(capsys, algorithm):
    assert main(["-a", algorithm, "--help"]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_help_is_that_of_the_algorithm(capsys):
    text = help_of(capsys, "abc-logitboost")
    assert "options of ABCLogitBoostClassifier: " in text
    assert (
        "--gap n Number of rounds between two searches for the base class. 1 searches in every round (an integer >= 1"
        in text
    )
    assert (
        "--max-depth n Maximum depth of a tree: the number of splits from the root to the deepest leaf. none means no "
        "limit (an integer from 1" in text
    )
    assert "--nu" not in text
    text = help_of(capsys, "mart")
    assert "options of MartClassifier: " in text
    assert "--gap" not in text
    assert "-l, --loss {exp,log} Loss of the pairwise margins" in help_of(capsys, "mcboost")
    assert "-l, --loss {softmax,logistic" in help_of(capsys, "vector-tree")


def test_interval_tables_are_for_stumps():
    assert parse(["--layout", "interval", "t"])[0].layout == "interval"
    for arguments in (["-a", "mart"], ["--weak-learner", "tree"]):
        with pytest.raises(
            UsageError, match="--layout interval works only with stumps .*leave it out"
        ):
            parse([*arguments, "--layout", "interval", "t"])


def test_checkpoint():
    arguments = parse(["--checkpoint", "a/b", "--checkpoint-every", "0", "t"])[0]
    assert (arguments.checkpoint, arguments.checkpoint_every) == ("a/b", 0.0)
    assert parse(["t"])[0].checkpoint is None


@pytest.mark.parametrize(
    ("training", "model"), [("train.svm", "train.svm.mcb"), ("/data/a.svm.gz", "a.svm.gz.mcb")]
)
def test_default_model_file_is_the_base_name_here(training, model):
    assert parse([training])[0].model_file == model


def test_class_weights_are_taken_out():
    rest, weights = take_class_weights(
        "-n 5 -w3 2.5 -w-1 0.5 -w+2 1e2 -w-03 1 train -w3 4 -- -w7 x".split()
    )
    assert rest == "-n 5 train -- -w7 x".split()
    assert list(weights.items()) == [("-1", 0.5), ("+2", 100.0), ("-03", 1.0), ("3", 4.0)]


@pytest.mark.parametrize(
    "text", ["-w 3", "-w3", "-wa 2", "-w1.5 2", "-w3 -2", "-w3 0", "-w3 x", "-w3 inf", "-w3 nan"]
)
def test_bad_class_weights(text):
    with pytest.raises(UsageError, match="argument -w"):
        take_class_weights(text.split())


# Arguments, and what the message must say.
BAD_TRAIN = [
    ("", "the following arguments are required: training_file"),
    ("a b c", "unrecognized arguments: c"),
    ("--nonsense t", "unrecognized arguments: --nonsense"),
    ("--n-est 5 t", "unrecognized arguments: --n-est"),
    (
        "-a vectortree t m",
        "argument -a/--algorithm: invalid choice: 'vectortree' (did you mean 'vector-tree'? choose ",
    ),
    (
        "-a xyzzy t m",
        "argument -a/--algorithm: invalid choice: 'xyzzy' (choose from 'abc-logitboost', ",
    ),
    (
        "--lerning-rate 0.1 t m",
        "unrecognized arguments: --lerning-rate (did you mean --learning-rate?)\n",
    ),
    (
        "--lerning-rate=0.1 t m",
        "unrecognized arguments: --lerning-rate=0.1 (did you mean --learning-rate?)\n",
    ),
    (
        "--num-leaves 3 t m",
        "unrecognized arguments: --num-leaves (did you mean --max-leaf-nodes?)\n",
    ),
    (
        "-b 1 t m",
        "-b is an option of mcboost-predict, for probabilities; leave it out, and give --calibrate "
        "temperature, because mcboost is not calibrated by default\n",
    ),
    (
        "-a vector-tree -b 1 t m",
        "-b is an option of mcboost-predict, for probabilities; leave it out\n",
    ),
    (
        "-m 100 --eta 3 t m",
        "-m is svm-train's cache size; leave it out; unrecognized arguments: --eta (did you mean --learning-rate?)\n",
    ),
    ("-m 100 t m", "-m is svm-train's cache size; leave it out\n"),
    ("-p0.1 t m", "-p is svm-train's epsilon for regression; leave it out\n"),
    (
        "-s 0 -m 100 t m",
        "-s is svm-train's type of SVM; leave it out, because pymcboost only classifies; -m is ",
    ),
    ("-h 0 t m", "-h 0 is svm-train's shrinking; leave it out\n"),
    ("-e 0.1 t m", "-e is svm-train's tolerance; leave it out\n"),
    ("-a hingeboost -e 0.1 t m", "-e is svm-train's tolerance; here it is --tol\n"),
    (
        "-g 0.5 -b 1 t m",
        "-g is not an option of mcboost, only of hingeboost; if you come from svm-train, give -a "
        "hingeboost; its -c is LIBSVM's C times the number of rows: --libsvm-c takes LIBSVM's C; "
        "-b is an option of mcboost-predict",
    ),
    ("--zero-as-missing t m", "unrecognized arguments: --zero-as-missing\n"),
    ("-n t", "argument -n/--n-estimators: 't' is not an integer >= 1"),
    ("-n 0 t", "argument -n/--n-estimators: '0' is not an integer >= 1"),
    ("-n 2.5 t", "argument -n/--n-estimators: '2.5' is not an integer >= 1"),
    ("-n", "argument -n/--n-estimators: expected one argument"),
    ("-l hinge t", "argument -l/--loss: 'hinge' is not one of 'exp', 'log'"),
    ("-r 0 t", "argument -r/--learning-rate: '0' is not a number > 0 and <= 1"),
    ("-r 1.5 t", "argument -r/--learning-rate: '1.5' is not a number > 0 and <= 1"),
    ("-r nan t", "argument -r/--learning-rate: 'nan' is not a number > 0 and <= 1"),
    ("--nu -1 t", "argument --nu: '-1' is not a number >= 0"),
    ("--nu inf t", "argument --nu: 'inf' is not a number >= 0"),
    ("--max-bins 257 t", "argument --max-bins: '257' is not an integer from 2 to 256"),
    (
        "--validation-fraction 1 t",
        "argument --validation-fraction: '1' is not a number > 0 and <= 0.9",
    ),
    ("--class-weight balanced -w2 3 t", "-w<label> and --class-weight cannot be used together"),
    (
        "-S 4294967296 t",
        "argument -S/--random-state: '4294967296' is not an integer from 0 to 4294967295 or none",
    ),
    ("-j 0 t", "argument -j/--n-jobs: 0 threads are not possible"),
    ("-v 1 t", "argument -v/--cross-validation: '1' is not an integer >= 2"),
    ("-v 5 -P v t", "-v writes no model and holds out folds of its own; leave out -P"),
    ("-v 5 t m", "-v writes no model and holds out folds of its own; leave out a model file"),
    ("-a forest t", "argument -a/--algorithm: invalid choice: 'forest'"),
    ("--base 2 t", "argument --base: invalid choice: '2'"),
    ("--n-features 0 t", "argument --n-features: '0' is not an integer >= 1"),
    ("--layout tree t", "argument --layout: invalid choice: 'tree'"),
    ("--gap 3 t", "--gap is not an option of mcboost, only of abc-logitboost, abc-mart\n"),
    (
        "--nonsense --gap 3 --eta 1 t",
        "--gap is not an option of mcboost, only of abc-logitboost, abc-mart; "
        "unrecognized arguments: --nonsense --eta (did you mean --learning-rate?)\n",
    ),
    (
        "-t 2 -c10 t m",
        "-t is not an option of mcboost, only of hingeboost; -c is not an option of mcboost, only of hinge",
    ),
    (
        "-a jointboost --subsample=0.5 t",
        "--subsample is not an option of jointboost, only of abc-logitboost, abc-mart, ",
    ),
    ("-a mart --no-allow-zero t", "--no-allow-zero is not an option of mart, only of hingeboost\n"),
    (
        "-a hingeboost -l log t",
        "-l is not an option of hingeboost, only of mcboost, multiboost, vector-tree\n",
    ),
    (
        "-a piboost --separators [[0]] t",
        "argument --separators: '[[0]]' is not one of 'singles', 'pairs'\n",
    ),
    (
        "-a hingeboost -t 3 t",
        "argument -t/--kernel: '3' is not one of 'linear', 'poly', 'rbf', 'perceptron'\n",
    ),
    (
        "--class-weight heavy t",
        "argument --class-weight: 'heavy' is not one of 'balanced' or none\n",
    ),
    ("-a hingeboost -d 0 t", "argument -d/--degree: '0' is not an integer from 1 to 1000"),
    ("-a hingeboost -w3 2 t", "-w<label>: hingeboost does not support class weights"),
    ("-a hingeboost --checkpoint c t", "hingeboost cannot write checkpoints"),
    (
        "-a hingeboost --layout interval t",
        "--layout interval works only with stumps whose scores are summed; leave it out",
    ),
    ("-a mart --gap 3 t", "--gap is not an option of mart, only of abc-logitboost, abc-mart\n"),
    ("-a mart -l log t", "-l is not an option of mart, only of mcboost, multiboost, vector-tree\n"),
    ("-a abc-mart --gap 0 t", "argument --gap: '0' is not an integer >= 1"),
    ("-l softmax t", "argument -l/--loss: 'softmax' is not one of 'exp', 'log'"),
    (
        "--label y t.svm",
        "--label names a column of a CSV or Parquet file; in LIBSVM text, every line begins with its label",
    ),
    (
        "--base 1 t.csv",
        "--base and --n-features are for LIBSVM text; CSV and Parquet files have named columns",
    ),
    (
        "--format csv --n-features 3 t",
        "--base and --n-features are for LIBSVM text; CSV and Parquet files have named columns",
    ),
    (
        "-P v.svm t.csv.gz",
        "the training file and the validation file must be of the same kind",
    ),
    ("--curve t", "--curve needs -v n, the number of folds"),
    ("-a hingeboost -c 1 --libsvm-c 1 t", "-c and --libsvm-c cannot be used together"),
    ("-a hingeboost --libsvm-c 0 t", "argument --libsvm-c: '0' is not a finite number > 0"),
    (
        "-a hingeboost --libsvm-c 1 -E 5 t",
        "--libsvm-c depends on the number of training rows",
    ),
    (
        "-a hingeboost --libsvm-c 1 -n auto -P v t",
        "--libsvm-c depends on the number of training rows",
    ),
    (
        "-a hingeboost --libsvm-c 1 --calibrate temperature -v 5 t",
        "--libsvm-c depends on the number of training rows",
    ),
    (
        "-a multiboost --libsvm-c 1 t",
        "--libsvm-c is not an option of multiboost, only of hingeboost\n",
    ),
    ("--checkpoint", "argument --checkpoint: expected one argument"),
    (
        "--checkpoint c -v 5 t",
        "-v trains one model per fold and keeps none of them; leave out --checkpoint",
    ),
    ("--checkpoint-every 5 t", "--checkpoint-every needs --checkpoint file"),
    (
        "--checkpoint c --checkpoint-every -1 t",
        "argument --checkpoint-every: '-1' is not a number of seconds >= 0",
    ),
    (
        "--checkpoint c --checkpoint-every inf t",
        "argument --checkpoint-every: 'inf' is not a number of seconds >= 0",
    ),
    (
        "--checkpoint ./m t m",
        "--checkpoint names the model file, but the checkpoint is removed after training",
    ),
    ("-w3 t", "argument -w3: 't' is not a finite number > 0"),
    ("-", "when training on standard input, give the name of a model file"),
    ("-P - - m", "only one of the training and the validation file can be standard input"),
]


@pytest.mark.parametrize(("text", "message"), BAD_TRAIN)
def test_bad_usage_of_train_exits_1(capsys, text, message):
    assert main(text.split()) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"mcboost-train: error: {message}")


# Arguments, and the notices about those without an effect.
WITHOUT_EFFECT = [
    ("-a hingeboost -g 1", ["-g has no effect with the linear kernel; give -t 2"]),
    (
        "-a hingeboost -t 2 -g 1 -d 2 -r 0",
        [
            "-d has no effect with the rbf kernel; give -t 1",
            "-r has no effect with the rbf kernel; give -t 1",
        ],
    ),
    ("-a hingeboost -t 1 -g 1 -d 2 -r 0", []),
    ("--max-depth 3", ["--max-depth has no effect on stumps; give --weak-learner tree"]),
    (
        "-a samme --weak-learner stump --max-leaf-nodes 3",
        ["--max-leaf-nodes has no effect on stumps; give --weak-learner tree"],
    ),
    ("-a adaboost-m1 --max-leaf-nodes 3", []),
    ("-a vector-tree --max-depth 3", []),
]


@pytest.mark.parametrize(("text", "notices"), WITHOUT_EFFECT)
def test_options_without_effect_are_noticed(capsys, tmp_path, text, notices):
    (tmp_path / "rows").write_text("1 1:2 2:3\n2 1:3\n1 1:1\n" * 9)
    assert main([str(tmp_path / "rows"), "-n", "3", *text.split(), str(tmp_path / "model")]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "no effect" in line] == [
        f"mcboost-train: {notice}" for notice in notices
    ]


def test_calibration_with_the_c_of_libsvm_names_the_value_to_use(capsys, tmp_path):
    (tmp_path / "rows").write_text("1 1:2\n2 1:3\n" * 150)
    options = "-a hingeboost --libsvm-c 5 --calibrate temperature".split()
    assert main([*options, str(tmp_path / "rows"), str(tmp_path / "model")]) == 1
    assert "use -c 1500 instead, which is for 300 rows\n" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_help_of_the_algorithm_given_is_named(capsys):
    for algorithm in REGISTRY:
        given = "" if algorithm == "mcboost" else f" -a {algorithm}"
        assert main(["-a", algorithm, "--nonsense", "t"]) == 1
        assert capsys.readouterr().err.endswith(f"Try 'mcboost-train{given} --help'.\n")


def test_options_may_lie_between_the_files(capsys, tmp_path):
    (tmp_path / "rows").write_text("1 1:2\n2 1:3\n")
    assert main([str(tmp_path / "rows"), "-n", "3", "-q", str(tmp_path / "model")]) == 0
    assert (tmp_path / "model").exists()


def test_names_of_files_are_not_empty(capsys):
    for arguments in (["", "m"], ["t", ""], ["-P", "", "t", "m"], ["--checkpoint", "", "t", "m"]):
        assert main(arguments) == 1
        assert "'' is not a file name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-t 2 -c 10 t", "hingeboost"),
        ("-c 10 --max-passes 3 t", "multiboost"),
        ("-t 2 --gap 3 t", "hingeboost"),
    ],
)
def test_help_of_an_algorithm_that_has_all_the_options_is_named(capsys, text, shown):
    assert main(text.split()) == 1
    assert capsys.readouterr().err.endswith(f"Try 'mcboost-train -a {shown} --help'.\n")


@pytest.mark.parametrize("algorithm", sorted(REGISTRY))
def test_options_of_other_algorithms_are_all_known(algorithm):
    """The message about options of other algorithms looks them up where the parser takes them from."""
    parser = argparse.ArgumentParser(add_help=False)
    add_algorithm_options(parser, get_algorithm(algorithm))
    assert sorted(option_flags(get_algorithm(algorithm))) == sorted(parser._option_string_actions)
