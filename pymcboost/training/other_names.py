"""Names of parameters in other libraries, for the messages that refuse them.

Names of LightGBM, XGBoost, CatBoost and HistGradientBoosting are not accepted as aliases: the error gives the name to
use.
"""

_TREES = "VectorTreeBoostClassifier and class-wise trees such as LogitBoostClassifier have it"

# Names elsewhere; names here, where the first that the estimator has applies; a remark.
TABLE = (
    ("num_leaves max_leaves max_leaf n_leaves", "max_leaf_nodes", ""),
    (
        "num_iterations num_iteration num_boost_round num_round num_rounds num_trees iterations max_iter n_iter",
        "n_estimators",
        "",
    ),
    ("eta shrinkage_rate shrinkage", "learning_rate", ""),
    ("depth", "max_depth", ""),
    ("reg_lambda lambda_l2 lambda l2_leaf_reg l2", "l2_regularization", ""),
    ("reg_alpha lambda_l1 alpha l1_regularization", "", "there is no L1 penalty on leaves; leave it out"),
    ("min_child_samples min_data_in_leaf min_data", "min_samples_leaf", ""),
    ("min_samples_split", "min_samples_leaf", "it applies to both sides of a split"),
    (
        "min_child_weight min_sum_hessian_in_leaf min_sum_hessian",
        "min_hessian_leaf min_samples_leaf",
        "min_hessian_leaf is a sum of second derivatives, min_samples_leaf one of sample weights",
    ),
    ("min_split_gain min_gain_to_split min_split_loss gamma min_impurity_decrease", "min_gain", ""),
    ("bagging_fraction bagging sample_rate", "subsample", ""),
    (
        "bagging_freq subsample_freq bootstrap_type sampling_method",
        "subsample",
        "if it is below 1, rows are drawn anew for every weak learner",
    ),
    ("colsample_bytree feature_fraction", "max_features_tree", ""),
    ("colsample_bynode feature_fraction_bynode colsample_bylevel rsm", "max_features", ""),
    ("max_bin border_count n_bins", "max_bins", "it is at most 256"),
    ("max_delta_step", "max_step", ""),
    (
        "boosting_type boosting booster algorithm",
        "",
        "every algorithm is a class of its own, with its loss; the guide lists them",
    ),
    ("grow_policy tree_method tree_learner", "", "trees always grow best-first, on histograms; leave it out"),
    ("objective loss_function application", "loss", "every algorithm is a class of its own, with its loss"),
    ("num_class num_classes classes_count", "", "the classes are taken from y; leave it out"),
    ("estimator base_estimator", "weak_learner", ""),
    ("metric metrics eval_metric custom_metric", "scoring", ""),
    (
        "early_stopping_rounds early_stopping_round od_wait",
        "n_iter_no_change",
        "it takes effect with early_stopping=True",
    ),
    ("use_best_model od_type od_pval", "early_stopping", "the model then keeps the rounds up to the best one"),
    ("early_stopping_min_delta tol", "min_delta", ""),
    ("random_seed seed bagging_seed feature_fraction_seed", "random_state", ""),
    ("num_threads num_thread nthread thread_count n_threads", "n_jobs", ""),
    ("silent verbosity verbose_eval logging_level metric_period", "verbose", ""),
    ("categorical_feature cat_features cat_feature categorical_column", "categorical_features", ""),
    (
        "enable_categorical",
        "categorical_features",
        'categorical_features="from_dtype" takes the categorical columns of a data frame',
    ),
    ("min_data_per_group", "min_samples_category", ""),
    (
        "cat_smooth cat_l2 max_cat_threshold max_cat_to_onehot one_hot_max_size",
        "",
        "splits on categories have no such setting; leave it out",
    ),
    (
        "extra_trees path_smooth linear_tree linear_lambda data_sample_strategy top_rate other_rate",
        "",
        "there is no counterpart; leave it out",
    ),
    ("drop_rate max_drop skip_drop uniform_drop", "", "there is no DART; leave it out"),
    (
        "deterministic force_col_wise force_row_wise",
        "",
        "training is reproducible for any number of threads; leave it out",
    ),
    ("first_metric_only", "", "the first metric of scoring always decides; leave it out"),
    ("monotone_constraints monotone_constraint", "monotonic_cst", "it also names the class"),
    ("interaction_constraints", "interaction_cst", ""),
    (
        "is_unbalance unbalance auto_class_weights scale_pos_weight",
        "class_weight",
        'class_weight="balanced" gives all classes the same total weight',
    ),
    ("class_weights", "class_weight", ""),
    ("missing use_missing nan_mode missing_values", "", "NaN means missing; leave it out"),
    ("device device_type task_type devices gpu_id", "", "training runs on CPUs; leave it out"),
    ("importance_type", "", "use pymcboost.inspection.importance(model, kind)"),
    (
        "save_snapshot snapshot_file snapshot_interval",
        "",
        "use Checkpoint, which keeps the state of a training in a file",
    ),
    # Arguments of fit.
    (
        "eval_set valid_sets evals validation_data",
        "",
        "give fit a validation set as X_val and y_val, with early_stopping=True if it is to end the "
        "training, and others as validation_sets={name: (X, y)}",
    ),
    ("eval_names valid_names", "validation_sets", "its keys are the names"),
    ("eval_sample_weight sample_weight_eval_set", "sample_weight_val", ""),
    ("eval_class_weight", "class_weight", "it applies to validation sets, too"),
    ("base_margin baseline", "init_score", ""),
    ("base_margin_eval_set eval_init_score", "init_score_val", ""),
    ("xgb_model", "init_model", ""),
    ("feature_name feature_names", "", "names come from the columns of a data frame"),
    ("group", "groups", "rows of one group are held out together; there is no ranking"),
    ("monitor", "callbacks", ""),
    ("plot", "callbacks", "pymcboost.callbacks.LivePlot draws the curves"),
    # Names of ours that some estimators do not have.
    (
        "max_features max_features_tree min_samples_leaf l2_regularization min_gain subsample max_leaf_nodes max_depth",
        "",
        _TREES,
    ),
    ("monotonic_cst interaction_cst", "", "VectorTreeBoostClassifier has it"),
    ("min_hessian_leaf", "", "LogitBoostClassifier and ABCLogitBoostClassifier have it"),
    ("learning_rate", "", f"MCBoostClassifier, {_TREES}"),
    ("class_weight", "", "kernel and linear machines do not support class weights; all other estimators do"),
    (
        "categorical_features",
        "",
        "encode the categories as numbers (OneHotEncoder, TargetEncoder of scikit-learn), or use "
        "VectorTreeBoostClassifier, MCBoostClassifier or class-wise trees such as LogitBoostClassifier",
    ),
    ("sample_weight", "", "the algorithm does not support sample weights"),
    ("init_score init_score_val", "", "VectorTreeBoostClassifier, MCBoostClassifier and class-wise trees have it"),
    (
        "comm",
        "",
        "VectorTreeBoostClassifier, MCBoostClassifier and the class-wise trees (LogitBoost, Mart, ABC) can train on "
        "several workers",
    ),
    (
        "init_model",
        "",
        "its rounds are merged into one machine; use warm_start, which adds rounds to the estimator's own model",
    ),
)  # fmt: skip
# Parameter values of other libraries, and ours.
VALUES = {
    "scoring": {
        "multi_logloss multiclass mlogloss logloss cross_entropy binary_logloss MultiClass": "log_loss",
        "multi_error merror binary_error": "error",
        "auc auc_mu AUC": "auc_ovr",
        "accuracy_score Accuracy": "accuracy",
    },
    "loss": {
        "multiclass multi:softmax multi:softprob MultiClass log_loss cross_entropy": "softmax"
    },
    "class_weight": {"Balanced balance auto": "balanced"},
}
# Numbers that mean something else in other libraries, and what to write here.
NUMBERS = {
    ("max_depth", -1): "max_depth=None means no limit",
    ("verbose", -1): "verbose=0 is silent",
}
# Arguments of predict and predict_proba in other libraries, and what to write.
OF_PREDICT = (
    (
        "num_iteration start_iteration iteration_range ntree_limit ntree_start ntree_end best_iteration",
        "model_.truncate(rounds).{method}(X) uses only the first rounds",
    ),
    ("base_margin", "use init_score"),
    ("raw_score output_margin", "use decision_function(X)"),
    ("pred_leaf", "use apply(X)"),
    (
        "pred_contrib pred_contribs pred_interactions",
        "use pymcboost.inspection.contributions or interactions",
    ),
    (
        "early_stop pred_early_stop",
        "use model_.with_early_exit and model_.predict(X, early=way); see the guide",
    ),
    ("n_jobs num_threads thread_count nthread", "n_jobs is a parameter of the constructor"),
    ("predict_disable_shape_check validate_features verbose", "leave it out"),
)
# Attributes of fitted estimators in other libraries, and what to write.
OF_FITTED = (
    (
        "best_iteration_ best_iteration best_ntree_limit n_iter_ tree_count_ current_iteration",
        "use n_estimators_",
    ),
    (
        "best_score_ best_score evals_result_ evals_result evals_result_dict validation_score_ train_score_",
        "use history_, which contains the metrics of every round",
    ),
    ("booster_ get_booster", "use model_"),
    ("feature_name_ feature_names_ feature_name feature_names", "use feature_names_in_"),
    ("n_features_ num_feature", "use n_features_in_"),
    ("n_classes_ num_class", "use len(classes_)"),
    (
        "feature_importance get_feature_importance get_score get_fscore",
        "use feature_importances_, or pymcboost.inspection.importance",
    ),
    ("save_model", "use save(path)"),
    ("load_model", "use pymcboost.load_model(path)"),
    (
        "dump_model get_dump trees_to_dataframe",
        "use pymcboost.inspection.to_json, to_text or to_frame",
    ),
    ("staged_predict_log_proba", "use staged_predict_proba"),
)
NAMES = {
    name: (tuple(names_here.split()), remark)
    for names, names_here, remark in TABLE
    for name in names.split()
}


def hint_of_value(parameter, value, allows):
    """What to write instead of a refused parameter value, from "; " on; empty if nothing is known about it.

    ``allows``: whether the parameter may have a value.
    """
    if isinstance(value, str):
        for names, value_here in VALUES.get(parameter, {}).items():
            if value in names.split() and allows(value_here):
                return f"; {value!r} in other libraries is {value_here!r} here"
        return ""
    if parameter == "early_stopping" and isinstance(value, int):
        return f"; n_iter_no_change={value} sets the patience, with early_stopping=True"
    if isinstance(value, int) and (parameter, value) in NUMBERS:
        return f"; {NUMBERS[parameter, value]}"
    return ""


def hint_of_predict(name, method):
    """What to write instead of an argument of ``predict`` or ``predict_proba``, as in `hint`."""
    return _remedy(OF_PREDICT, name).format(method=method)


def hint_of_fitted(name):
    """What to write instead of an attribute of a fitted estimator, as in `hint`."""
    return _remedy(OF_FITTED, name)


def _remedy(table, name):
    return next((f"; {remedy}" for names, remedy in table if name in names.split()), "")


def unexpected(function, hints):
    """The message that refuses names as keyword arguments of a function, all of them at once.

    ``hints``: what to write instead of each name, as in `hint`.
    """
    first, *others = hints
    if not others:
        return f"{function}() got an unexpected keyword argument {first!r}{hints[first]}"
    return f"{function}() got unexpected keyword arguments:{listed(hints)}"


def listed(hints):
    """Refused names with what to write instead of each, one a line."""
    return "".join(
        f"\n  {name!r}" + (f": {remedy.removeprefix('; ')}" if remedy else "")
        for name, remedy in hints.items()
    )


def hint(name, place, places, estimator):
    """What to write instead of a refused name, starting with "; "; an empty string if nothing is known about it.

    Parameters
    ----------
    name : str
    place : {"fit", "constructor"}
        Where the name was given.
    places : dict of str to {"fit", "constructor"}
        The names that the estimator has, and the place for each.
    estimator : str
        Name of its class.
    """
    names_here, remark = NAMES.get(name, ((), ""))
    if name in places:
        names_here = (name,)
    equivalent = next((candidate for candidate in names_here if candidate in places), None)
    words = [remark]
    if equivalent is not None:
        where = ""
        if places[equivalent] != place:
            where = " of fit" if place == "constructor" else " of the constructor"
        words.insert(0, f"use {equivalent}{where}")
    elif names_here:
        _, remark_here = NAMES.get(names_here[0], ((), remark))
        words = [
            f"it is called {names_here[0]} here, but {estimator} does not have it",
            remark_here,
        ]
    elif not remark:
        from difflib import get_close_matches

        words = [f"did you mean {near}?" for near in get_close_matches(name, places, n=1)]
    return "".join(f"; {word}" for word in words if word)
