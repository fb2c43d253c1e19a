"""mcboost-tune: search for options of mcboost-train by cross-validation."""

import csv
import os
import shlex
import sys
import time
import warnings
from contextlib import closing

from pymcboost._text import metrics_of
from pymcboost.cli.checks import (
    add_algorithm,
    add_class_weights,
    add_reading,
    check_parameters,
    check_reading,
    check_training,
    lists_wanted,
    parsed,
    unused,
)
from pymcboost.cli.console import (
    EXIT_CODES,
    Parser,
    bounded,
    check_output,
    file_name,
    importing,
    noted_warnings,
    notifier,
    refuse_same,
    run,
    stream_number,
    thread_count,
    warning_text,
    whole_file,
    write_bytes,
)
from pymcboost.cli.options import DEFAULTS, add_algorithm_options, get_algorithm, option_of
from pymcboost.cli.rows import read_training, set_weights
from pymcboost.cli.train import check_target, model_bytes
from pymcboost.registry import get_plain_class
from pymcboost.threads import counted, resolve_n_jobs

PROGRAM = "mcboost-tune"
USAGE = f"{PROGRAM} [options] training_file [model_file]"
DESCRIPTION = """\
Find good options for mcboost-train by cross-validation (grid search or random search), print the best combination,
and train a model with it on all rows. Give an option several values, separated by commas, as in -r 0.05,0.1,0.3. By
default, decision stumps are tuned; -a vector-tree tunes trees, which usually predict better."""
FOLDS = 5
SHOWN = 10
# Options that cannot be searched: the seed determines the folds, and the others do not change the result.
SINGLE = ("random_state", "n_jobs", "verbose")
OF_ONE_LABEL = ("error", "log_loss")
OF_LISTS = ("hamming_loss", "log_loss", "f1_micro", "f1_macro")


def main(argv=None):
    """Run ``mcboost-tune`` and return its exit status."""
    return run(PROGRAM, tune, argv)


def several(convert):
    """Make an argparse type for ``a,b,c`` from that of one value: a value, or a list if there are several."""

    def parse(text):
        values = list(dict.fromkeys(map(convert, text.split(","))))
        return values if len(values) > 1 else values[0]

    return parse


def make_parser(algorithm):
    """The parser with the options of an algorithm."""
    parser = Parser(PROGRAM, USAGE, description=DESCRIPTION, epilog=EXIT_CODES)
    text = "LIBSVM text or CSV, also .gz, .bz2 or .xz, or Parquet; - for standard input"
    parser.add_argument("training_file", type=file_name, help=text)
    text = (
        "model trained with the best options (default: the name of the training file with .mcb "
        "added, in the current folder)"
    )
    parser.add_argument("model_file", type=file_name, nargs="?", help=text)
    add_algorithm(parser)
    add_algorithm_options(
        parser.add_argument_group(f"options of {algorithm.title}"), algorithm, several, SINGLE
    )
    group = parser.add_argument_group("search and data")
    count = bounded(int, "an integer >= 1", lambda n: n >= 1)
    text = "try n random combinations, drawn with the seed of -S (default: all combinations)"
    group.add_argument("--random", type=count, metavar="n", help=text)
    group.add_argument(
        "-v",
        "--cross-validation",
        type=bounded(int, "an integer >= 2", lambda n: n >= 2),
        default=FOLDS,
        metavar="n",
        help=f"number of stratified folds, the same folds as mcboost-train -v (default: {FOLDS})",
    )
    group.add_argument(
        "--best-by",
        choices=("error", *OF_LISTS),
        help="metric that ranks the combinations, averaged over the folds: error or log_loss; for "
        "multi-label rows any but error (default: error, or hamming_loss for multi-label rows)",
    )
    text = (
        "number of models to train at the same time, with one thread each unless -j is given "
        "(default: -1, all CPUs)"
    )
    group.add_argument("-p", "--parallel", type=thread_count, metavar="n", default=-1, help=text)
    text = (
        "CSV file for the results of all combinations (default: the name of the training file "
        "with .tune.csv added)"
    )
    group.add_argument("--results", type=file_name, metavar="file", help=text)
    add_class_weights(group)
    add_reading(group)
    parser.add_common()
    return parser


def read_arguments(argv):
    """The arguments, fixed parameters, searched parameters, combinations and class weights."""
    parser, algorithm, arguments, parameters, weights = parsed(argv, PROGRAM, USAGE, make_parser)
    if getattr(arguments, "libsvm_c", None) is not None:
        parameters["libsvm_c"] = arguments.libsvm_c
    space = {name: value for name, value in parameters.items() if isinstance(value, list)}
    fixed = {name: value for name, value in parameters.items() if name not in space}
    _check(parser, arguments, fixed, space)
    combinations = combinations_of(
        space, arguments.random, fixed.get("random_state", DEFAULTS["random_state"])
    )
    for combination in combinations:
        together = {**fixed, **combination}
        arguments.libsvm_c = together.pop("libsvm_c", None)
        check_parameters(parser, arguments, algorithm, together, weights)
    notices = [unused(algorithm, {**fixed, **combination}) for combination in combinations]
    arguments.unused = [text for text in notices[0] if all(text in other for other in notices)]
    return arguments, fixed, space, combinations, weights


def _check(parser, arguments, fixed, space):
    """Refuse arguments that do not make a search, and name the output files."""
    if not space:
        parser.error("nothing to search; give at least one option several values, as in -r 0.1,0.3")
    if "logistic" in space.get("loss", ()):
        parser.error(
            "--loss logistic is for multi-label rows, the other losses are not; search them "
            "separately"
        )
    if fixed.get("random_state", 0) is None:
        parser.error(
            "argument -S/--random-state: a search needs a seed for its folds; give an integer"
        )
    check_reading(parser, arguments)
    if arguments.training_file == "-" and not (arguments.model_file and arguments.results):
        parser.error(
            "when the training file is standard input, give the name of a model file, and "
            "--results file"
        )
    if arguments.model_file and stream_number(arguments.model_file) is not None:
        parser.error("standard output is used for the table of results; name a file for the model")
    arguments.checkpoint = None
    arguments.validation_file = None
    stem = os.path.basename(arguments.training_file)
    arguments.model_file = arguments.model_file or f"{stem}.mcb"
    arguments.results = arguments.results or f"{stem}.tune.csv"
    inputs = {"training file": arguments.training_file}
    refuse_same(arguments.model_file, "model file", inputs)
    refuse_same(
        arguments.results, "file of results", {**inputs, "model file": arguments.model_file}
    )


def combinations_of(space, n_random, seed):
    """All combinations of the option values, or a random sample of them, each as a dict."""
    with importing():
        from sklearn.model_selection import ParameterGrid, ParameterSampler
    combinations = ParameterGrid(space)
    if n_random is not None:
        n = min(n_random, len(combinations))
        combinations = ParameterSampler(space, n, random_state=seed)
    return [{name: combination[name] for name in space} for combination in combinations]


def words_of(values, options):
    """The arguments of mcboost-train for these values."""
    words = []
    for name, value in values.items():
        words += [options.get(name, "--libsvm-c"), "none" if value is None else str(value)]
    return words


def new_estimator(algorithm, params, n_rows):
    """An estimator with these parameters, for a given number of rows (for --libsvm-c)."""
    params = dict(params)
    libsvm_c = params.pop("libsvm_c", None)
    if libsvm_c is not None:
        params["C"] = libsvm_c * n_rows
    if "n_iter_no_change" in params:
        params.setdefault("early_stopping", True)
    return get_plain_class(algorithm)(**params)


def train_fold(algorithm, params, X, y, train, held_out, names):
    """Train a model and measure it on the held-out rows: metrics, rounds and seconds, and the warnings.

    It runs in a separate process.
    """
    from pymcboost.cli.validate import measure

    estimator = new_estimator(algorithm, params, len(train))
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", UserWarning)
        _, metrics = measure(estimator, X, y, train, held_out)
    seconds = time.perf_counter() - begin
    measured = [*(float(metrics[name]) for name in names), estimator.n_estimators_, seconds]
    return measured, [str(warning.message) for warning in caught]


def tune(argv):
    """Do what ``mcboost-tune``'s arguments ask."""
    arguments, fixed, space, combinations, weights = read_arguments(argv)
    algorithm = arguments.algorithm
    note = notifier(PROGRAM, arguments.quiet)
    with importing():
        import joblib  # noqa: F401  Ctrl-C is safe here

        from pymcboost.cli.validate import folds_of
        from pymcboost.comm import ALONE

        estimator = get_plain_class(algorithm)()
    lists = lists_wanted(arguments, estimator.booster, fixed.get("loss"), weights)
    names = OF_LISTS if lists else OF_ONE_LABEL
    by = arguments.best_by or names[0]
    if by not in names:
        arguments.refuse(
            f"--best-by {by} does not work with {'multi-label' if lists else 'single-label'} rows; "
            f"use one of {', '.join(names)}"
        )
    for notice in arguments.unused:
        note(notice)
    scoring = fixed.get("scoring")
    if scoring and not arguments.best_by and next(iter(metrics_of(scoring))) != by:
        note(f"--metric does not rank the combinations; {by} does, unless --best-by names another")
    for combination in combinations:
        check_training(arguments, new_estimator(algorithm, {**fixed, **combination}, 1), lists)
    check_target(arguments.model_file)
    check_output(arguments.results, "file of results")

    data = read_training(arguments, note, estimator.booster.allows_missing, lists, ALONE)
    set_weights(estimator, weights, data.y, note)
    params = {**DEFAULTS, "n_jobs": 1, **fixed, "verbose": 0}
    if weights:
        params["class_weight"] = estimator.class_weight
    if data.categories is not None:
        params["categorical_features"] = data.categories
    with noted_warnings(note):
        folds = list(folds_of(data.y, arguments.cross_validation, params["random_state"]))
    trainings = [{**params, **combination} for combination in combinations]
    measured = search(arguments, trainings, data, folds, names, by, note)

    options = option_of(get_algorithm(algorithm))
    best = write_results(arguments, combinations, measured, names, by, options)
    if "n_jobs" not in fixed:
        trainings[best]["n_jobs"] = None
    with noted_warnings(note, data.base):
        estimator = new_estimator(algorithm, trainings[best], len(data.y))
        estimator.fit(data.X, data.y)
    model = model_bytes(estimator, data, "list")
    write_bytes(arguments.model_file, model, "model")
    note(f"{arguments.model_file}: {len(model):,} bytes, trained on all rows with the best options")


def search(arguments, trainings, data, folds, names, by, note):
    """Train a model for trainings combination and fold: metrics, rounds and seconds, (combinations, folds, values)."""
    import numpy as np
    from joblib import Parallel, delayed

    tasks = [(i, k) for i in range(len(trainings)) for k in range(len(folds))]
    note(
        f"{counted(len(trainings), 'combination')}, {len(folds)} folds: {len(tasks)} models to train"
    )
    measured = np.zeros((len(trainings), len(folds), len(names) + 2))
    jobs = (
        delayed(train_fold)(arguments.algorithm, trainings[i], data.X, data.y, *folds[k], names)
        for i, k in tasks
    )
    pool = Parallel(min(resolve_n_jobs(arguments.parallel), len(tasks)), return_as="generator")
    noted = set()
    with warnings.catch_warnings(), closing(pool(jobs)) as trained:
        # A warning of joblib if a search ends early.
        warnings.filterwarnings("ignore", r"\d+ tasks ", UserWarning)
        for (i, k), (values, messages) in zip(tasks, trained, strict=True):
            for message in messages:
                if message not in noted:
                    noted.add(message)
                    note(warning_text(message, data.base))
            measured[i, k] = values
            if np.isnan(measured[i, k, names.index(by)]):
                raise ValueError(
                    f"these models have no {by}; add --calibrate temperature, or leave out "
                    "--best-by"
                )
            if k == len(folds) - 1:
                note(
                    f"{i + 1} of {len(trainings)}: {by} {measured[i, :, names.index(by)].mean():.4g}"
                )
    return measured


def write_results(arguments, combinations, measured, names, by, options):
    """Write all combinations to the CSV file, print the best ones, and return the index of the best."""
    import numpy as np

    mean = measured.mean(axis=1)
    deviation = measured.std(axis=1, ddof=1)
    # Sums of fold errors differ in the last bit even if the same rows are wrong.
    rank = mean[:, names.index(by)].round(9)
    order = np.lexsort((mean[:, names.index("log_loss")], -rank if by.startswith("f1") else rank))
    n = len(names)
    with whole_file(arguments.results, "file of results") as stream:
        table = csv.writer(stream, lineterminator="\n")
        row = [options.get(name, "--libsvm-c") for name in combinations[0]]
        for name in names:
            row += [name, f"{name}_deviation"]
        table.writerow([*row, "rounds", "seconds"])
        for i in order:
            row = ["none" if value is None else value for value in combinations[i].values()]
            for j in range(n):
                row += [f"{mean[i, j]:.6g}", f"{deviation[i, j]:.6g}"]
            table.writerow([*row, f"{mean[i, n]:g}", f"{mean[i, n + 1]:.3g}"])
    head = " ".join(f"{name:>12} {'deviation':>9}" for name in names)
    print(f"{head} {'rounds':>8} {'seconds':>8}  options")
    for i in order[:SHOWN]:
        values = " ".join(f"{mean[i, j]:12.4g} {deviation[i, j]:9.4g}" for j in range(n))
        words = shlex.join(words_of(combinations[i], options))
        print(f"{values} {mean[i, n]:8.6g} {mean[i, n + 1]:8.3g}  {words}")
    print(f"All {counted(len(order), 'combination')}: {arguments.results}")
    print(f"Best: {shlex.join(words_of(combinations[order[0]], options))}")
    return int(order[0])


if __name__ == "__main__":
    sys.exit(main())
