"""Arguments that mcboost-train and mcboost-tune share, and their checks."""

import re

from pymcboost.cli.console import (
    Parser,
    UsageError,
    add_format,
    bounded,
    check_table,
    importing,
    table_kind,
)
from pymcboost.cli.options import SHORT_OF, get_algorithm, option_flags, take_class_weights
from pymcboost.registry import ALGORITHMS

# What to do about svm-train's options that mean nothing here; -h, which shows the help, only with a number.
SVM_TRAIN = {
    "-s": "-s is svm-train's type of SVM; leave it out, because pymcboost only classifies",
    "-m": "-m is svm-train's cache size; leave it out",
    "-p": "-p is svm-train's epsilon for regression; leave it out",
    "-h": "-h 0 is svm-train's shrinking; leave it out",
}
# Options of svm-train that only hingeboost has with the same meaning.
OF_KERNELS = {"-t", "-c", "-g", "-d"}
# Parameters that a kernel does not use.
UNUSED_BY = {
    "linear": ("gamma", "degree", "coef0"),
    "rbf": ("degree", "coef0"),
    "perceptron": ("gamma", "degree", "coef0"),
}
DEFAULT = "mcboost"
OF_TREES = ("max_depth", "max_leaf_nodes")


def add_algorithm(parser):
    """Add the option -a."""
    parser.add_argument(
        "-a",
        "--algorithm",
        choices=sorted(ALGORITHMS),
        default=DEFAULT,
        help="boosting algorithm; -a name --help lists its options. vector-tree usually predicts best "
        f"(default: {DEFAULT}: small models of decision stumps)",
    )


def parsed(argv, program, usage, make_parser):
    """Parse the arguments: the algorithm's parser, the algorithm, arguments, given parameters and class weights."""
    first = Parser(program, usage, add_help=False)
    try:
        argv, weights = take_class_weights(argv)
    except UsageError as error:
        first.error(str(error))
    add_algorithm(first)
    first.add_common()
    if re.search(r"(^|\0)-h\0?[01](\0|$)", "\0".join(argv)):
        first.error(SVM_TRAIN["-h"])
    first.set_defaults(algorithm=None)
    algorithm_name = first.parse_known_args(argv)[0].algorithm
    algorithm = get_algorithm(algorithm_name or DEFAULT)
    parser = make_parser(algorithm)
    if algorithm.name != DEFAULT:
        parser.help_command = f"{program} -a {algorithm.name} --help"
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:  # perhaps the second file, after options that follow the first
        arguments, unknown = parser.parse_known_intermixed_args(argv)
    if unknown:
        refuse_unknown(parser, unknown, algorithm)
    parameters = {
        name: getattr(arguments, name) for name in algorithm.rows if hasattr(arguments, name)
    }
    arguments.refuse = parser.error
    arguments.algorithm_by_default = algorithm_name is None
    return parser, algorithm, arguments, parameters, weights


def add_reading(group):
    """Add the options that say how to read the training file."""
    group.add_argument(
        "--multilabel",
        action="store_true",
        help="multi-label rows: each line of LIBSVM text begins with a list of labels (3,17,201 "
        "1:0.5 ...). Needed for adaboost-mh; vector-tree with --loss logistic always reads "
        "such files",
    )
    add_format(group)
    group.add_argument(
        "--categorical-features",
        metavar="a,b",
        default=[],
        type=lambda text: [name.strip() for name in text.split(",") if name.strip()],
        help="categorical columns of a CSV or Parquet file; their values may be numbers or text "
        "(algorithms with --min-samples-category)",
    )
    group.add_argument(
        "--base",
        choices=("auto", "0", "1"),
        default="auto",
        help="index of the first feature in the files (default: auto, which is 0 if an index 0 "
        "occurs, else 1)",
    )
    group.add_argument(
        "--n-features",
        type=bounded(int, "an integer >= 1", lambda n: n >= 1),
        metavar="n",
        help="number of features (default: the largest index in the training file)",
    )


def add_class_weights(group):
    """Add LIBSVM's -w<label> to the help text only: `take_class_weights` removes it from the arguments."""
    group.add_argument(
        "-w<label>",
        dest="weight",
        metavar="x",
        help="weight of the class with this label, for example -w3 2.5 (default: 1)",
    )


def check_reading(parser, arguments):
    """Refuse options that do not fit the format of the training file, and a validation file of another format."""
    path = arguments.training_file
    form = arguments.format
    validation_file = getattr(arguments, "validation_file", None)
    has_text_options = arguments.base != "auto" or arguments.n_features is not None
    check_table(parser, path, arguments, has_text_options, "--base and --n-features are for")
    if validation_file and bool(table_kind(validation_file, form)) != bool(table_kind(path, form)):
        parser.error(
            "the training file and the validation file must be of the same kind: both with "
            "named columns, or both LIBSVM text"
        )


def check_parameters(parser, arguments, algorithm, parameters, weights):
    """Refuse parameters that the algorithm does not support, or that cannot be combined."""
    if parameters.get("n_jobs", 1) == 0:
        parser.error(
            "argument -j/--n-jobs: 0 threads are not possible; use 1 or more, -1 for all "
            "CPUs, or leave the option out"
        )
    check_categories(parser, arguments, algorithm)
    if weights and "class_weight" not in algorithm.rows:
        parser.error(f"-w<label>: {arguments.algorithm} does not support class weights")
    if arguments.checkpoint and not algorithm.resumable:
        parser.error(
            f"{arguments.algorithm} cannot write checkpoints, because it merges its rounds; "
            "leave out --checkpoint"
        )
    check_libsvm_c(parser, arguments, parameters)
    if weights and parameters.get("class_weight"):
        parser.error("-w<label> and --class-weight cannot be used together")


def check_categories(parser, arguments, algorithm):
    """Refuse categorical columns in files without column names, and for algorithms without categories."""
    if not arguments.categorical_features:
        return
    if not table_kind(arguments.training_file, arguments.format):
        parser.error(
            "--categorical-features names columns of a CSV or Parquet file; LIBSVM text has "
            "no column names"
        )
    if "min_samples_category" not in algorithm.rows:
        parser.error(
            "--categorical-features works with algorithms that have --min-samples-category; "
            f"{algorithm.name} does not support categories: use -a vector-tree, or encode the "
            "values as numbers"
        )


def check_libsvm_c(parser, arguments, parameters):
    """Refuse --libsvm-c together with -c, or if some models are trained on fewer rows."""
    arguments.libsvm_c = getattr(arguments, "libsvm_c", None)
    if arguments.libsvm_c is None:
        return
    if "C" in parameters:
        parser.error("-c and --libsvm-c cannot be used together")
    stops_early = parameters.get("early_stopping", "n_iter_no_change" in parameters)
    has_folds = parameters.get("n_estimators") == "auto"
    holds_out = has_folds or (stops_early and not arguments.validation_file)
    calibrates = parameters.get("calibrate") and not arguments.validation_file
    # A single training can say which -c to use, once it has the rows.
    arguments.needs_c = bool(calibrates and not holds_out and not arguments.cross_validation)
    if holds_out or (calibrates and not arguments.needs_c):
        parser.error(
            "--libsvm-c depends on the number of training rows, and -n auto, --early-stopping "
            "and --calibrate also train models on fewer rows; give -P file with the last two, "
            "or use -c"
        )


def unused(algorithm, user_parameters):
    """Notices about parameters of the user that have no effect with the kernel or the weak learner."""
    parameters = algorithm.defaults | user_parameters
    kernel = parameters.get("kernel")
    learner = parameters.get("weak_learner")
    flags = SHORT_OF.get(algorithm.name, {})
    notices = []
    if kernel in UNUSED_BY:
        needed = {"gamma": "-t 2", "degree": "-t 1", "coef0": "-t 1"}
        notices += [
            f"{flags[name]} has no effect with the {kernel} kernel; give {needed[name]}"
            for name in UNUSED_BY[kernel]
            if name in user_parameters
        ]
    if learner == "stump":
        notices += [
            f"--{name.replace('_', '-')} has no effect on stumps; give --weak-learner tree"
            for name in OF_TREES
            if name in user_parameters
        ]
    return notices


def check_training(arguments, estimator, lists):
    """Refuse what a training would refuse of its parameters once the rows are read.

    ``lists``: whether the rows have lists of labels.
    """
    has_validation = bool(getattr(arguments, "validation_file", None))
    with importing():
        import numpy as np

        from pymcboost.training.folds import refuse_mixed
        from pymcboost.training.metrics import metrics_by
    booster = estimator._booster()
    params = booster.params
    try:
        with importing():  # names of scorers are scikit-learn's
            booster.check()
            refuse_mixed(params, None, has_validation)
            booster.takes_labels(np.eye(2) if lists else np.arange(2))
            has_held_out_rows = has_validation or getattr(arguments, "curve", False)
            if has_held_out_rows or params.early_stopping or params.n_estimators == "auto":
                metrics_by(params.scoring, None, booster.link, booster.loss_value)
    except ValueError as error:
        arguments.refuse(str(error))


def check_layout(arguments, estimator):
    """Refuse a file layout that models with these parameters cannot have."""
    if arguments.layout != "list" and arguments.categorical_features:
        arguments.refuse(
            f"--layout {arguments.layout} cannot store categories; leave out --layout or "
            "--categorical-features"
        )
    if arguments.layout in estimator.layouts():
        return
    remedy = "works only with stumps whose scores are summed; leave it out"
    if arguments.layout == "packed":
        remedy = (
            "needs vector-tree with --leaf-levels and no categories; mcboost-convert packs other "
            "trees, too"
        )
    arguments.refuse(f"--layout {arguments.layout} {remedy}")


def lists_wanted(arguments, booster, loss, weights):
    """Whether the rows are multi-label; if so, options for single-label rows are refused."""
    is_logistic = loss == "logistic"
    if arguments.multilabel and not (is_logistic or booster.labels_by_form):
        arguments.refuse(
            "--multilabel works with -a adaboost-mh and -a vector-tree --loss logistic"
        )
    if not (is_logistic or arguments.multilabel):
        return False
    for is_used, flag in (
        (table_kind(arguments.training_file, arguments.format), "a CSV or Parquet file"),
        (weights, "-w<label>"),
    ):
        if is_used:
            arguments.refuse(
                "multi-label rows are read from LIBSVM text without class weights; they do "
                f"not work with {flag}"
            )
    return True


def flag_in(argument):
    """The option in an argument to which its value may be joined: --subsample=0.5, -c10."""
    return argument.partition("=")[0] if argument.startswith("--") else argument[:2]


def refuse_unknown(parser, unknown, algorithm):
    """Refuse unknown arguments, all of them at once; name the algorithms that have an option if there are any."""
    owners = {}
    for name in sorted(ALGORITHMS):
        for flag in option_flags(get_algorithm(name)):
            owners.setdefault(flag, []).append(name)
    owners = {flag: owners[flag] for flag in map(flag_in, unknown) if flag in owners}
    hints = svm_train_hints(unknown, algorithm)
    problems = [
        f"{flag} is not an option of {algorithm.name}, only of {', '.join(names)}"
        for flag, names in owners.items()
    ]
    shown = owner_of_all(owners) if owners else None
    if shown == "hingeboost" and owners.keys() & OF_KERNELS:
        problems.append(
            "if you come from svm-train, give -a hingeboost; its -c is LIBSVM's C times the "
            "number of rows: --libsvm-c takes LIBSVM's C"
        )
    problems += hints.values()
    others = [text for text in unknown if not (flag_in(text) in owners or flag_in(text) in hints)]
    if not problems or any(text.startswith("--") for text in others):
        problems.append(parser.unrecognized(others))
    problem = "; ".join(problems)
    if shown is None:
        parser.error(problem)
    raise UsageError(f"{problem}\n{parser.format_usage()}Try '{parser.prog} -a {shown} --help'.")


def owner_of_all(owners):
    """An algorithm that has all options of ``owners``, or else the first one: vector-tree, if it is among them."""
    first = next(iter(owners.values()))
    of_all = [name for name in first if all(name in names for names in owners.values())]
    candidates = of_all or first
    return "vector-tree" if "vector-tree" in candidates else candidates[0]


def svm_train_hints(unknown, algorithm):
    """What to do about options of svm-train that the programs do not have, by option."""
    flags = dict.fromkeys(text[:2] for text in unknown if text[:1] == "-" and text[:2] != "--")
    hints = dict(SVM_TRAIN)
    tolerance = "here it is --tol" if "tol" in algorithm.rows else "leave it out"
    hints["-e"] = f"-e is svm-train's tolerance; {tolerance}"
    hints["-b"] = "-b is an option of mcboost-predict, for probabilities; leave it out"
    if algorithm.defaults.get("calibrate") is None:
        hints["-b"] += (
            f", and give --calibrate temperature, because {algorithm.name} is not calibrated by "
            "default"
        )
    return {flag: hints[flag] for flag in flags if flag in hints}
