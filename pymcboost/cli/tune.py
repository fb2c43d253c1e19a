"""mcboost-tune: search for options of mcboost-train by cross-validation."""

import importlib.util
import os
import shlex
import sys
import time
import warnings
import zlib
from contextlib import closing

from pymcboost import files
from pymcboost.cli.checks import (
    add_algorithm,
    add_class_weights,
    add_reading,
    check_parameters,
    check_reading,
    check_training,
    lists_wanted,
    parsed,
)
from pymcboost.cli.console import (
    EXIT_CODES,
    Parser,
    UsageError,
    bounded,
    file_name,
    importing,
    noted_warnings,
    notifier,
    refuse_same,
    run,
    thread_count,
    write_bytes,
)
from pymcboost.cli.journal import Journal, Measured, MeasuredLists
from pymcboost.cli.options import (
    DEFAULTS,
    add_algorithm_options,
    get_algorithm,
    option_of,
)
from pymcboost.cli.rows import read_training, set_weights
from pymcboost.cli.space import SINGLE, Choices, Range, draws, grid, several
from pymcboost.registry import get_class
from pymcboost.threads import counted, resolve_n_jobs

PROGRAM = "mcboost-tune"
USAGE = f"{PROGRAM} [options] training_file [journal]"
DESCRIPTION = """\
Cross-validate combinations of mcboost-train's options and print the best. An option takes one value, several (-r
0.05,0.1,0.3), or with --random a range (--max-leaf-nodes 4:64, -r 0.01:0.5:log). Without --random all combinations
are tried. Every model is a line of the journal; the same command goes on where it ends."""
FOLDS, SHOWN = 5, 10
OF_LISTS = ("hamming_loss", "f1_micro", "f1_macro")
PICTURES = (".png", ".svg", ".pdf")


def main(argv=None):
    """Run ``mcboost-tune`` and return its exit status."""
    return run(PROGRAM, tune, argv)


def make_parser(algorithm):
    """The parser with the options of an algorithm."""
    parser = Parser(PROGRAM, USAGE, description=DESCRIPTION, epilog=EXIT_CODES)
    text = "LIBSVM text or CSV, also .gz, .bz2 or .xz, or Parquet; - for standard input"
    parser.add_argument("training_file", type=file_name, help=text)
    text = "CSV file of the models (default: the training file's base name with .tune.csv added, in the current folder)"
    parser.add_argument("journal", type=file_name, nargs="?", help=text)
    add_algorithm(parser)
    add_algorithm_options(parser.add_argument_group(f"options of {algorithm.title}"), algorithm, several, SINGLE)
    group = parser.add_argument_group("search and data")
    count = bounded(int, "an integer >= 1", lambda n: n >= 1)
    text = "try so many combinations, drawn by the seed -S; a larger number goes on (default: all there are)"
    group.add_argument("--random", type=count, metavar="n", help=text)
    group.add_argument(
        "-v",
        "--cross-validation",
        type=bounded(int, "an integer >= 2", lambda n: n >= 2),
        default=FOLDS,
        metavar="n",
        help=f"stratified folds, those of mcboost-train -v (default: {FOLDS})",
    )
    text = "mean over the folds that ranks the combinations; of lists of labels error and hamming_loss are the Hamming "
    text += "loss, log_loss the cross-entropy by label; f1_micro and f1_macro are for them alone (default: error)"
    group.add_argument("--best-by", choices=("error", "log_loss", *OF_LISTS), default="error", help=text)
    text = "models that are trained at the same time, with one thread each unless -j says more (default: -1, all CPUs)"
    group.add_argument("-p", "--parallel", type=thread_count, metavar="n", default=-1, help=text)
    text = "picture of the results against each option: .png, .svg or .pdf; needs matplotlib"
    group.add_argument("--plot", type=file_name, metavar="file", help=text)
    add_class_weights(group)
    add_reading(group)
    parser.add_common()
    return parser


def read_arguments(argv):
    """The arguments, what has one value, what is searched, the combinations, and the class weights."""
    parser, algorithm, arguments, given, weights = parsed(argv, PROGRAM, USAGE, make_parser)
    if getattr(arguments, "libsvm_c", None) is not None:
        given["libsvm_c"] = arguments.libsvm_c
    given = {name: one(value) for name, value in given.items()}
    space = {name: value for name, value in given.items() if isinstance(value, (Choices, Range))}
    fixed = {name: value for name, value in given.items() if name not in space}
    _check(parser, arguments, fixed, space)
    if "loss" in space and "logistic" in space["loss"].values:
        parser.error("--loss logistic is for rows with lists of labels, other losses are not; search them apart")
    seed = fixed.get("random_state", DEFAULTS["random_state"])
    found = draws(space, arguments.random, seed) if arguments.random else grid(space)
    for combination in found:
        together = {**fixed, **combination}
        arguments.libsvm_c, arguments.validation_file = together.pop("libsvm_c", None), None
        check_parameters(parser, arguments, algorithm, together, weights)
    return arguments, fixed, space, found, weights


def one(value):
    """The value itself, where there is no other to choose."""
    return value.values[0] if isinstance(value, Choices) and len(value.values) == 1 else value


def _check(parser, arguments, fixed, space):
    if not space:
        parser.error("nothing to search: give an option several values, as in -r 0.1,0.3, or a range and --random n")
    ranges = [name for name, part in space.items() if isinstance(part, Range)]
    if ranges and not arguments.random:
        shown = option_of(get_algorithm(arguments.algorithm)).get(ranges[0], "--libsvm-c")
        parser.error(f"{shown} has a range, from which --random n draws; give n, or values as in a,b,c")
    if fixed.get("random_state", 0) is None:
        parser.error("argument -S/--random-state: a search needs a seed, so that it can go on; give an integer")
    check_reading(parser, arguments)
    if arguments.training_file == "-" and not arguments.journal:
        parser.error("a training file on standard input needs the name of a journal")
    arguments.checkpoint = None
    arguments.journal = arguments.journal or os.path.basename(arguments.training_file) + ".tune.csv"
    refuse_same(arguments.journal, "journal", {"training file": arguments.training_file})
    if not arguments.plot:
        return
    if not arguments.plot.lower().endswith(PICTURES):
        parser.error(f"--plot {arguments.plot}: the name must end in {', '.join(PICTURES)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: python -m pip install matplotlib, or leave it out")
    refuse_same(arguments.plot, "picture", {"training file": arguments.training_file, "journal": arguments.journal})


def as_text(value):
    """A value as the journal and the command line have it."""
    return "none" if value is None else str(value)


def words_of(values, options):
    """Arguments that give these values."""
    words = []
    for name, value in values.items():
        flag = options.get(name, "--libsvm-c")
        words += [flag if value else "--no-" + flag[2:]] if isinstance(value, bool) else [flag, as_text(value)]
    return words


def _option(flag, value):
    """The words of an option, one where the value would be taken for another option."""
    return [f"{flag}={value}"] if value.startswith("-") else [flag, value]


def asked_of(params):
    """The parameters of an estimator, and LIBSVM's C or None."""
    asked = dict(params)
    libsvm_c = asked.pop("libsvm_c", None)
    if "n_iter_no_change" in asked:
        asked.setdefault("early_stopping", True)
    return asked, libsvm_c


def digest(X, y):
    """The shape of the rows and a checksum, by which a journal knows them."""
    parts = (X.data, X.indices, X.indptr) if hasattr(X, "indptr") else (X,)
    sum32 = zlib.crc32(" ".join(map(str, y.tolist())).encode())
    for part in parts:
        sum32 = zlib.crc32(part.tobytes(), sum32)
    return f"{X.shape[0]} x {X.shape[1]}, {sum32:08x}"


def train_fold(algorithm, params, libsvm_c, X, y, train, held):
    """Train and measure one model: what a journal keeps, and the warnings; in a process of its own."""
    from pymcboost.cli.validate import measure

    estimator = get_class(algorithm)(**params)
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", UserWarning)
        _, found = measure(estimator, X, y, train, held, libsvm_c)
    seconds = round(time.perf_counter() - begin, 3)  # as the journal has it
    kind = Measured if y.ndim == 1 else MeasuredLists
    found["error"] = found.get("hamming_loss", found.get("error"))
    found = kind(*(float(found[name]) for name in kind._fields[:-2]), estimator.n_estimators_, seconds)
    return found, [str(warning.message) for warning in caught]


def tune(argv):
    """Do what ``mcboost-tune``'s arguments ask."""
    arguments, fixed, space, combinations, weights = read_arguments(argv)
    algorithm, note = get_algorithm(arguments.algorithm), notifier(PROGRAM, arguments.quiet)
    options = option_of(algorithm)

    with importing():
        import joblib  # noqa: F401  Ctrl-C is safe here

        from pymcboost.cli.validate import folds_of

        estimator = get_class(arguments.algorithm)()
    lists = lists_wanted(arguments, estimator.booster, fixed.get("loss"), weights)
    if arguments.best_by in OF_LISTS and not lists:
        arguments.refuse(f"--best-by {arguments.best_by} is for rows with lists of labels; use error or log_loss")
    for combination in combinations:
        asked, _ = asked_of({**fixed, **combination})
        check_training(arguments, get_class(algorithm.name)(**asked), lists)
    searched = [options.get(name, "--libsvm-c") for name in space]
    if arguments.plot:
        files.check_target(arguments.plot, "picture")
    journal = Journal(arguments.journal, searched, MeasuredLists if lists else Measured)
    data = read_training(arguments, note, estimator.booster.allows_missing, lists)
    set_weights(estimator, weights, data.y, note)
    params = {**DEFAULTS, "n_jobs": 1, **fixed, "verbose": 0}
    params |= {"class_weight": estimator.class_weight} if weights else {}
    with noted_warnings(note):
        folds = list(folds_of(data.y, arguments.cross_validation, params["random_state"]))
    kept = {name: value for name, value in fixed.items() if name not in ("n_jobs", "verbose", "random_state")}
    words = ["-a", algorithm.name, *["--multilabel"] * arguments.multilabel, *words_of(kept, options)]
    exactly = {label: repr(weight).removesuffix(".0") for label, weight in weights.items()}
    words += [part for label in sorted(exactly, key=int) for part in (f"-w{label}", exactly[label])]
    if data.categories is not None:
        params["categorical_features"] = data.categories
        words += _option("--categorical-features", ",".join(arguments.categorical_features))
    words += [] if params["random_state"] == 0 else ["-S", str(params["random_state"])]
    done = journal.open(f"{shlex.join(words)} -v {len(folds)} ({digest(data.X, data.y)})")
    try:
        search(arguments, data, params, combinations, folds, journal, done, note)
    except KeyboardInterrupt:
        note(f"the same command goes on from {arguments.journal}")
        raise
    except (ValueError, MemoryError) as error:
        error.args = (f"{error}; what is done is in {arguments.journal}", *error.args[1:])
        raise
    finish(arguments, space, combinations, done, len(folds), words, options)


def search(arguments, data, params, combinations, folds, journal, done, note):
    """Train what the journal has not, and add it."""
    from joblib import Parallel, delayed

    tasks, texts = [], {}
    for i, combination in enumerate(combinations):
        texts[i] = tuple(map(as_text, combination.values()))
        tasks += [(i, fold) for fold in range(len(folds)) if (texts[i], fold) not in done]
    total = len(combinations) * len(folds)
    note(f"{counted(len(combinations), 'combination')}, {len(folds)} folds: {len(tasks)} of {total} models to train")

    def job(i, fold):
        asked, libsvm_c = asked_of({**params, **combinations[i]})
        return delayed(train_fold)(arguments.algorithm, asked, libsvm_c, data.X, data.y, *folds[fold])

    def check(found):
        if arguments.best_by == "log_loss" and found.log_loss != found.log_loss:
            raise ValueError("these models have no log loss; --calibrate temperature gives one, or leave out --best-by")

    for (text, _), found in done.items():
        if text in texts.values():
            check(found)
    workers = min(resolve_n_jobs(arguments.parallel), max(1, len(tasks)))
    pool, said = Parallel(workers, return_as="generator"), set()
    with warnings.catch_warnings(), closing(pool(job(*task) for task in tasks)) as trained:
        warnings.filterwarnings("ignore", r"\d+ tasks ", UserWarning)  # joblib's, where a search ends early
        for (i, fold), (found, messages) in zip(tasks, trained, strict=True):
            for message in messages:
                if message not in said:
                    said.add(message)
                    note(f"warning: {message}")
            check(found)
            journal.add(texts[i], fold, found)
            done[texts[i], fold] = found
            if all((texts[i], other) in done for other in range(len(folds))):
                means = [sum(done[texts[i], k][j] for k in range(len(folds))) / len(folds) for j in range(2)]
                note(f"{' '.join(texts[i])}: error {100 * means[0]:.4g}%, log loss {means[1]:.4g}")


def finish(arguments, space, combinations, done, n_folds, words, options):
    """Print the best combinations and the command that trains the first of them; draw the picture."""
    import numpy as np

    texts = [tuple(map(as_text, combination.values())) for combination in combinations]
    table = np.array([[done[text, fold] for fold in range(n_folds)] for text in texts], dtype=float)
    means, spread = table.mean(axis=1), table.std(axis=1, ddof=1)
    names = next(iter(done.values()))._fields[:-2]
    by = names.index("error" if arguments.best_by == "hamming_loss" else arguments.best_by)
    order = np.argsort(-means[:, by] if arguments.best_by.startswith("f1") else means[:, by], kind="stable")
    head = " ".join(f"{name:>9} {'deviation':>9}" for name in names)
    print(f"{head} {'rounds':>8} {'seconds':>8}  options")
    for i in order[:SHOWN]:
        numbers = [value for j in range(len(names)) for value in (means[i, j], spread[i, j])]
        row = " ".join(f"{value:9.4g}" for value in numbers) + f" {means[i, -2]:8.6g} {means[i, -1]:8.3g}"
        print(f"{row}  {shlex.join(words_of(combinations[i], options))}")
    if len(order) > SHOWN:
        print(f"... and {len(order) - SHOWN} more in {arguments.journal}")
    best = combinations[order[0]]
    reading = {"format": "auto", "label": None, "base": "auto", "n_features": None}
    for name, usual in reading.items():
        value = getattr(arguments, name)
        words = words if value == usual else [*words, *_option("--" + name.replace("_", "-"), str(value))]
    path = arguments.training_file
    path = f"./{path}" if path.startswith("-") and path != "-" else path
    named = [path, "model.mcb"] if path == "-" else [path]  # standard input has no name for a model
    print(f"Best: {shlex.join(['mcboost-train', *words, *words_of(best, options), *named])}")
    if arguments.plot:
        from pymcboost.cli.picture import draw

        shown = {options.get(name, "--libsvm-c"): part for name, part in space.items()}
        values = [list(combination.values()) for combination in combinations]
        picture = draw(arguments, shown, values, means[:, by], spread[:, by], int(order[0]))
        write_bytes(arguments.plot, picture, "picture")


if __name__ == "__main__":
    sys.exit(main())
