"""``mcboost-predict --stream``: predict each row as soon as it is read."""

from pymcboost.cli.answers import accuracy_line, answers, label_text, new_missing, words
from pymcboost.cli.console import importing, whole_file

# Largest number of unknown labels that a message names.
NAMED = 6


def answer_stream(model, arguments, base, note):
    """Predict rows until the stream ends, and return the line about the accuracy or None."""
    with importing():
        from pymcboost.data.svmlines import Lines

    first_index = 0 if base == 0 else 1
    lines = Lines(arguments.test_file, model.n_features_in_, first_index)
    names = words(model)
    tally = Tally(model)
    beyond = False
    refuses_missing = arguments.missing == "error" and not model.is_machine
    with whole_file(arguments.output_file, "output file") as out:
        if arguments.probability or arguments.decision_values:
            print("labels", *names, file=out, flush=True)
        for row, label in lines:
            if lines.beyond and not beyond:
                beyond = True
                note(
                    f"{lines.name}: ignoring features beyond the {model.n_features_in_} of the "
                    f"model (line {lines.number})"
                )
            missing_value = new_missing(model, row, first_index) if refuses_missing else None
            if missing_value is not None:
                _, problem = missing_value
                raise ValueError(f"{lines.name}:{lines.number}: {problem}")
            try:
                best, values = answers(model, row, arguments)
            except ValueError as error:
                raise ValueError(
                    str(error).replace("row 0 of X", f"{lines.name}:{lines.number}: the row")
                ) from None
            code = int(best[0])
            out.write(names[code])
            if values is not None:
                out.writelines(f" {value:.17g}" for value in values[0].tolist())
            out.write("\n")
            out.flush()
            tally.add(code, label)
    return tally.line(note)


class Tally:
    """Counts of rows for the accuracy."""

    def __init__(self, model):
        labels = model.classes_.tolist()
        self._codes = {label: code for code, label in enumerate(labels)}
        self._text = isinstance(labels[0], str)
        self._hits = 0
        self._total = 0
        self._unlabelled = 0
        self._unknown = 0
        self._names = set()

    def add(self, code, label):
        """Count a row."""
        if label is None:
            self._unlabelled += 1
            return
        self._total += 1
        true_code = self._codes.get(label_text(label) if self._text else label)
        self._hits += true_code == code
        if true_code is None:
            self._unknown += 1
            if len(self._names) < NAMED:
                self._names.add(label)

    def line(self, note):
        """Return the line about the accuracy, or None without labels."""
        return accuracy_line(
            self._hits,
            self._total,
            self._unlabelled,
            unknown=self._unknown,
            names=list(map(label_text, sorted(self._names))),
            note=note,
        )
