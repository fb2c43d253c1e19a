"""The detector beside other libraries, on the same scenes and one thread: all classes, or faces alone; its memory.

    python examples/detector/compare.py classes --out FOLDER [--into FILE]
    python examples/detector/compare.py faces --out FOLDER --pico PICO [--into FILE]
    python examples/detector/compare.py memory --out FOLDER [--frames 10000] [--into FILE]

FOLDER was written by train.py: with --keep-windows for `classes`, with --only face for `faces`. `classes` trains
LightGBM on the windows of the last round, and scores all windows through its C API. `faces` runs OpenCV's cascades
(opencv-python-headless 4) and pico (a copy of github.com/nenadmarkus/pico) with the models that they come with.
Times are seconds of CPU. `memory` gives the live mode a stream of frames, and fails where its memory grows; Linux.
"""

import argparse
import ctypes
import json
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import train
from train import BACKGROUND, N_FEATURES, STEP

# Trees of LightGBM: leaves, and rounds that are looked at.
LEAVES, ROUNDS = (6,), (25, 50, 100)
SHRINKAGE = 0.2
# Frames that are timed, and how often: the best counts.
TIMED, REPEAT = 10, 7
# Least square that is searched for, in pixels: objects have 48 and more.
SMALLEST, ROOM = 48, 4096
# Of haar's features in OpenCV's wheel, and of local binary patterns in scikit-image's.
CASCADES = (
    "haarcascade_frontalface_default",
    "haarcascade_frontalface_alt2",
    "lbpcascade_frontalface_opencv",
)
FALSE_POSITIVES = (0.1, 1)
# The stream: scenes in turn, frames after which memory is read but for the last one, and the largest growth.
STREAM, LOOKS, GROWTH = 20, (100, 1000), 0.01


def seconds_of(function, repeat=REPEAT):
    """Least CPU time of a call."""
    times = []
    for _ in range(repeat):
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return min(times)


def drawn(test, n, seed):
    """Frames and objects of the report: those of `train.measure`."""
    rng = np.random.default_rng([seed, 1])
    return [test.draw(rng, 8 if number % 4 else 0) for number in range(n)]


# -- all classes -----------------------------------------------------------------------------------------------------


class Trees:
    """LightGBM's model, through its C API.

    Parameters
    ----------
    booster : lightgbm.Booster
    rounds : int
    early : bool
        Whether it stops where the margin is large.
    """

    def __init__(self, booster, rounds, early):
        from lightgbm import basic

        self.library, self.handle, self.rounds = basic._LIB, booster._handle, rounds
        self.n_classes = booster.num_model_per_iteration()
        more = (
            " pred_early_stop=true pred_early_stop_freq=5 pred_early_stop_margin=5" if early else ""
        )
        self.how = f"num_threads=1{more}".encode()

    def scores(self, X):
        """Raw scores of rows."""
        out, n = np.empty((len(X), self.n_classes)), ctypes.c_int64()
        status = self.library.LGBM_BoosterPredictForMat(
            self.handle,
            X.ctypes.data_as(ctypes.c_void_p),
            0,
            len(X),
            X.shape[1],
            1,
            1,
            0,
            self.rounds,
            self.how,
            ctypes.byref(n),
            out.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
        )
        if status or n.value != out.size:
            raise ValueError("LightGBM refuses the rows")
        return out


def boosters(X, y, n_classes, leaves, threads):
    """LightGBM's booster of the windows, with the weights and the shares of rows and features of our training."""
    import lightgbm

    params = {
        "objective": "multiclass", "num_class": n_classes, "num_leaves": leaves, "learning_rate": SHRINKAGE,
        "feature_fraction_bynode": 256 / N_FEATURES, "bagging_fraction": 0.5, "bagging_freq": 1, "min_data_in_leaf": 5,
        "lambda_l2": 1.0, "num_threads": threads, "verbosity": -1, "seed": 0,
    }  # fmt: skip
    weight = np.where(y == n_classes - 1, 0.5, 1.0)
    return lightgbm.train(params, lightgbm.Dataset(X, y, weight=weight), max(ROUNDS))


def all_places(shape):
    """Every window (level, x, y) of a frame."""
    each = [
        np.stack(
            np.meshgrid([number], STEP * np.arange(rows), STEP * np.arange(columns), indexing="ij"),
            axis=-1,
        )
        for number, (_, columns, rows) in enumerate(train.levels(shape))
    ]
    return np.concatenate([one.reshape(-1, 3) for one in each])[:, [0, 2, 1]].astype(np.int32)


def suppressed(found, most=0.6, near=0.6, support=0.5):
    """Rows (x, y, size, score, class), the best of every object with its support: the rule of detect.h."""
    kept = np.empty((0, 5))
    for one in in_order(found):
        both = np.minimum(one[:2] + one[2], kept[:, :2] + kept[:, 2:3]) - np.maximum(
            one[:2], kept[:, :2]
        )
        both = np.clip(both, 0, None).prod(axis=1)
        beside = (both > near * (one[2] ** 2 + kept[:, 2] ** 2 - both)) & (kept[:, 4] == one[4])
        kept[beside, 3] += support * max(0, one[3])
        if not (both > most * np.minimum(one[2], kept[:, 2]) ** 2).any():
            kept = np.vstack((kept, one))
    return in_order(kept)


def in_order(rows):
    """Rows from the highest score on."""
    return rows[np.lexsort((rows[:, 0], rows[:, 1], -rows[:, 3]))]


def hits(scores, places, shape, threshold=-3.0):
    """What is found in windows with these scores; the last class is the background."""
    lead = scores[:, :-1].max(axis=1) - scores[:, -1]
    good = lead >= threshold
    return suppressed(
        np.column_stack(
            (train.squares(places[good], shape), lead[good], scores[good, :-1].argmax(axis=1))
        )
    )


def windows_of(library, frame):
    """Features and places of all windows of a frame that are not flat."""
    places = all_places(frame.shape)
    values, filled = train.features(library, frame, places)
    return values[filled], places[filled]


def precision_of(rows, test, n_objects):
    """Average precision over all classes."""
    score, _, right = (np.array(column) for column in zip(*rows, strict=True))
    return train.average_precision(score, right, n_objects)[0]


def lightgbm_lines(library, test, frames, options, log):
    """A line for each size of LightGBM's model."""
    with np.load(options.out / "windows.npz") as kept:
        X, y = kept["X"], kept["y"]
    numbers, lines = np.arange(len(test.names)), []
    n_objects = sum(len(boxes) for _, boxes in frames)
    ways = []
    for leaves in LEAVES:
        booster = boosters(X, y, len(test.names) + 1, leaves, options.threads)
        ways += [
            (leaves, rounds, early, Trees(booster, rounds, early))
            for rounds in ROUNDS
            for early in (False, True)
        ]
        ways[-1][-1].kept = booster  # the handle is the booster's
        log(f"LightGBM with {leaves} leaves is trained")
    del X
    rows = [[] for _ in ways]
    for frame, boxes in frames:
        values, places = windows_of(library, frame)
        for own, (*_, trees) in zip(rows, ways, strict=True):
            own += train.matched(hits(trees.scores(values), places, frame.shape), boxes, numbers)
    timed = [windows_of(library, frame)[0] for frame, _ in frames[1 : TIMED + 1]]
    n_windows = sum(map(len, timed))
    for own, (leaves, rounds, early, trees) in zip(rows, ways, strict=True):
        seconds = seconds_of(lambda trees=trees: [trees.scores(values) for values in timed], 3)
        lines.append(
            {
                "leaves": leaves,
                "rounds": rounds,
                "early": early,
                "average_precision": precision_of(own, test, n_objects),
                "windows_per_second": n_windows / seconds,
            }
        )
        log(lines[-1])
    return lines


def our_lines(library, code, labels, test, frames):
    """The same of our detector: with the early exit and without, channels and features included."""
    classes = np.array([test.names.index(label) if label != BACKGROUND else -1 for label in labels])
    n_objects, lines = sum(len(boxes) for _, boxes in frames), []
    for early in (True, False):
        rows, counts = [], np.zeros(2)
        for frame, boxes in frames:
            rows += train.matched(
                train.hits(library, code, frame, early, True, -3.0), boxes, classes
            )

        def every(early=early, counts=counts):
            counts[:] = 0
            for frame, _ in frames[1 : TIMED + 1]:
                train.hits(library, code, frame, early, True, 0.0, counts)

        seconds = seconds_of(every)
        lines.append(
            {
                "early": early,
                "average_precision": precision_of(rows, test, n_objects),
                "windows_per_second": counts[0] / seconds,
                "ms_of_a_frame": 1e3 * seconds / len(frames[1 : TIMED + 1]),
            }
        )
    return lines


def compare_classes(library, code, test, options, log):
    """Windows a second and average precision, ours and LightGBM's."""
    frames = drawn(test, options.scenes, options.seed)
    labels = train.load_model(options.out / "detector.mcb").classes_.tolist()
    ours = our_lines(library, code, labels, test, frames)
    log(ours)
    return {
        "bytes": len(code),
        "ours": ours,
        "LightGBM": lightgbm_lines(library, test, frames, options, log),
    }


# -- faces alone -----------------------------------------------------------------------------------------------------


def found_by_ours(library, code):
    """Rows (x, y, size, score) of our detector."""
    return lambda frame, threshold=-3.0: train.hits(library, code, frame, True, True, threshold)[
        :, :4
    ]


def found_by_opencv(cascade, factor):
    """The same of a cascade of OpenCV; the score of a face is the number of windows that have it."""
    import cv2
    import skimage.data

    cv2.setNumThreads(1)
    folder = (
        cv2.data.haarcascades if cascade.startswith("haar") else Path(skimage.data.__file__).parent
    )
    text = Path(folder, f"{cascade}.xml").read_text()
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # scikit-image's copy has a name that OpenCV does not know
        path = Path(folder, "cascade.xml")
        path.write_text(text.replace("featuhreParams", "featureParams"))
        one = cv2.CascadeClassifier(str(path))

    def found(frame):
        boxes, counts = one.detectMultiScale2(
            frame, scaleFactor=factor, minNeighbors=1, minSize=(SMALLEST * 5 // 6,) * 2
        )
        return np.column_stack((boxes, counts)).reshape(-1, 5)[:, [0, 1, 2, 4]].astype(float)

    return found


def pico_library(options):
    """Pico's scorer and its model of faces."""
    made, runtime = options.out / "pico.so", options.pico / "rnt"
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run(
        [*compiler, "-O3", "-shared", "-fPIC", runtime / "picornt.c", "-o", made, "-lm"], check=True
    )
    library, real, number = ctypes.CDLL(str(made.resolve())), ctypes.c_float, ctypes.c_int
    pointer = ctypes.c_void_p
    library.find_objects.argtypes = [
        pointer,
        number,
        pointer,
        real,
        pointer,
        *[number] * 3,
        *[real] * 4,
    ]
    library.cluster_detections.argtypes = [pointer, number]
    return library, (runtime / "cascades" / "facefinder").read_bytes()


def found_by_pico(library, cascade, factor, stride):
    """The same of pico; windows that overlap are joined."""
    room = np.empty((ROOM, 4), dtype=np.float32)

    def found(frame):
        height, width = frame.shape
        n = library.find_objects(
            room.ctypes.data,
            ROOM,
            cascade,
            0.0,
            frame.ctypes.data,
            height,
            width,
            width,
            factor,
            stride,
            SMALLEST * 5 / 6,
            1000.0,
        )
        n = library.cluster_detections(room.ctypes.data, n)
        y, x, size, score = room[:n].T.astype(float)
        return np.column_stack((x - size / 2, y - size / 2, size, score))

    return found


def same_face(found, box):
    """Whether the centre of what is found lies in the middle of a face, and the sizes differ by less than 2."""
    apart = abs(found[:2] + found[2] / 2 - box[:2] - box[2] / 2).max()
    return apart < 0.25 * box[2] and 0.5 < found[2] / box[2] < 2


def recall_of(found, frames):
    """Share of faces that are found, by false positives an image: each face counts once."""
    rows, n_faces = [], 0
    for frame, boxes in frames:
        taken, n_faces = np.zeros(len(boxes), dtype=bool), n_faces + len(boxes)
        for one in sorted(found(frame), key=lambda row: -row[3]):
            free = [at for at, box in enumerate(boxes) if not taken[at] and same_face(one, box)]
            again = any(same_face(one, box) for box in boxes)
            taken[free[:1]] = True
            if free or not again:  # a face that is found twice is no false positive
                rows.append((one[3], bool(free)))
    score, right = (
        np.array([row[0] for row in rows]),
        np.array([row[1] for row in rows], dtype=bool),
    )
    order = np.argsort(-score, kind="stable")
    wrong, recall = np.cumsum(~right[order]) / len(frames), np.cumsum(right[order]) / n_faces
    return {
        f"recall_at_{limit:g}": float(recall[wrong <= limit].max(initial=0))
        for limit in FALSE_POSITIVES
    }


def compare_faces(library, code, test, options, log):
    """Recall and milliseconds of a frame: ours, pico's and OpenCV's over their settings."""
    frames = drawn(test, options.scenes, options.seed)
    ways = [("ours", "", found_by_ours(library, code))]
    if options.pico:
        pico = pico_library(options)
        settings = [(factor, stride) for factor in (1.1, 1.2, 1.4) for stride in (0.05, 0.1, 0.2)]
        ways += [
            ("pico", f"scale {f:g}, stride {s:g}", found_by_pico(*pico, f, s)) for f, s in settings
        ]
    ways += [
        (f"OpenCV {name}", f"scale {factor:g}", found_by_opencv(name, factor))
        for name in CASCADES
        for factor in (1.1, 1.2, 1.4)
    ]
    timed, least = [frame for frame, _ in frames[1 : TIMED + 1]], [np.inf] * len(ways)
    for _ in range(REPEAT):  # in turn, so that a busy moment meets all
        for at, (*_, found) in enumerate(ways):
            least[at] = min(
                least[at], seconds_of(lambda found=found: [found(frame) for frame in timed], 1)
            )
    lines = []
    for (name, setting, found), seconds in zip(ways, least, strict=True):
        own = {
            "name": name,
            "setting": setting,
            **recall_of(found, frames),
            "ms_of_a_frame": 1e3 * seconds / len(timed),
        }
        lines.append(own)
        log(own)
    return {"bytes": len(code), "faces": lines}


# -- memory ----------------------------------------------------------------------------------------------------------


def resident_kb(pid):
    """Resident memory of a process, whole pages as the kernel counts them now."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.partition("\nRss:")[2].split()[0])


def memory_of(folder, frames, n, log, look=resident_kb):
    """Resident memory of the live mode after some of n frames: it has answered all that were sent, and waits."""
    height, width = frames[0].shape
    command = [
        folder / "detector",
        "--every",
        "--live",
        f"{width}x{height}",
        folder / "detector.mcb",
    ]
    looks = {count: 0 for count in (*LOOKS, n) if count <= n}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pipesize=1 << 20
    ) as process:

        def send(numbers):
            for number in numbers:
                process.stdin.write(frames[number % len(frames)])
            process.stdin.flush()

        done = 0
        for count in looks:
            sender = threading.Thread(target=send, args=(range(done + 1, count + 1),))
            sender.start()
            for number in range(done + 1, count + 1):
                if json.loads(process.stdout.readline())["frame"] != number:
                    raise ValueError(f"frame {number} has no answer")
            sender.join()
            looks[count], done = look(process.pid), count
            log(f"{count} frames: {looks[count]} kB")
        process.stdin.close()
        last = json.loads(process.stdout.readline())
    if process.returncode or last["done"] != n:
        raise ValueError(
            f"the detector ended with {process.returncode} after {last['done']} frames of {n}"
        )
    first, *_, end = looks.values()
    growth = end / first - 1
    if growth > GROWTH:
        raise SystemExit(f"memory grew by {growth:.1%}, more than {GROWTH:.0%}: {looks}")
    return {"frames": n, "width": width, "height": height, "resident_kB": looks, "growth": growth}


def watch_memory(test, options, log):
    """The memory of a stream of scenes in turn."""
    frames = [np.ascontiguousarray(frame) for frame, _ in drawn(test, STREAM, options.seed)]
    return memory_of(options.out, frames, options.frames, log)


def measured(test, options, log):
    """What the comparison with others finds."""
    library, code = train.loaded(options.out), (options.out / "detector.mcb").read_bytes()
    compare = compare_faces if options.what == "faces" else compare_classes
    return compare(library, code, test, options, log)


def main(arguments=None):
    """Compare, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("classes", "faces", "memory"))
    parser.add_argument("--out", type=Path, required=True, help="folder that train.py has written")
    parser.add_argument(
        "--pico", type=Path, help="folder of pico's sources; without it pico is left out"
    )
    parser.add_argument("--into", type=Path, help="file of results: what else is in it stays")
    for name, default, text in (
        ("scenes", 100, "scenes that are measured"),
        ("frames", 10_000, "of the stream of memory, 101 or more"),
        ("height", 480, "of a scene"),
        ("width", 640, "of a scene"),
        ("threads", 1, "of LightGBM's training"),
        ("seed", 0, "start of the random numbers"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{text} (default: {default})"
        )
    options = parser.parse_args(arguments)
    if options.frames <= 100:
        parser.error("--frames must be 101 or more: memory is looked at after 100")
    needed = {
        "detector.mcb": f"train.py --out {options.out}",
        "windows.npz": f"train.py --out {options.out} --keep-windows",
    }
    for name, remedy in needed.items():
        if (name == "detector.mcb" or options.what == "classes") and not (
            options.out / name
        ).exists():
            parser.error(f"--out {options.out}: no {name} there, which {remedy} writes")
    only = ["face"] if options.what == "faces" else None
    _, test = train.scenes_of((options.height, options.width), only)

    def log(line):
        print(line, flush=True)

    if options.what == "memory":
        result = watch_memory(test, options, log)
    else:
        result = measured(test, options, log)
    if options.into:
        kept = json.loads(options.into.read_text()) if options.into.exists() else {}
        options.into.write_text(json.dumps(kept | {options.what: result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
