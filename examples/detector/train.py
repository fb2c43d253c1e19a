"""Trains a detector of digits and faces, gives it an early exit, and measures it on scenes it has not seen.

    python examples/detector/train.py --out FOLDER

Digits are those of MNIST and usps where PYMCBOOST_DATA names a folder with one or both, else those of data/. Faces and
photographs come from scikit-image where it is installed; without it there are digits on generated textures alone.
"""

import argparse
import ctypes
import json
import os
import subprocess
from pathlib import Path

import numpy as np

import pymcboost
from pymcboost import VectorTreeBoostClassifier, load_model, load_svmlight

HERE = Path(__file__).resolve().parent
N_FEATURES, WINDOW, STEP, RATIO = 2048, 24, 4, 1.25
BACKGROUND = "background"
PHOTOS = {
    "train": ("brick", "coffee", "chelsea", "clock"),
    "test": ("grass", "gravel", "moon", "rocket"),
}
# Windows that share more than NEAR of their union with an object show it; those with less than FAR do not.
NEAR, FAR, MATCH = 0.58, 0.48, 0.5
# Sets of digits: name, pixels of a side, and what is put around an image so that its glyph takes 5/7.
DIGITS = ("mnist", 28, 0), ("usps", 16, 3)


def build(folder):
    """Compile the program, and the same as a library for the training."""
    flags = [
        "-std=c99",
        "-D_POSIX_C_SOURCE=200809L",
        f"-I{pymcboost.get_include()}",
        HERE / "detector.c",
    ]
    compiler = os.environ.get("CC", "cc").split() + os.environ.get("CFLAGS", "-O3").split()
    for more in (["-o", folder / "detector"], ["-shared", "-fPIC", "-o", folder / "detector.so"]):
        subprocess.run([*compiler, *flags, *more, "-lpthread", "-lm"], check=True)
    return loaded(folder)


def loaded(folder):
    """The library, which `build` has compiled."""
    library = ctypes.CDLL(str((folder / "detector.so").resolve()))
    pointer, number = ctypes.c_void_p, ctypes.c_int
    library.frame_features.argtypes = [pointer, number, number, number, pointer, pointer, pointer]
    library.frame_hits.argtypes = [
        ctypes.c_char_p,
        ctypes.c_size_t,
        pointer,
        number,
        number,
        number,
        number,
        ctypes.c_double,
        pointer,
        number,
        pointer,
    ]
    return library


def features(library, frame, places):
    """Features of windows (level, x, y) of a frame; flat windows are left out."""
    places = np.ascontiguousarray(places, dtype=np.int32)
    out, filled = (
        np.empty((len(places), N_FEATURES), dtype=np.float32),
        np.empty(len(places), dtype=np.uint8),
    )
    height, width = frame.shape
    made = library.frame_features(
        frame.ctypes.data,
        width,
        height,
        len(places),
        places.ctypes.data,
        out.ctypes.data,
        filled.ctypes.data,
    )
    if made != 1:
        raise ValueError(f"a frame of {width} x {height} pixels is smaller than a window")
    return out, filled.astype(bool)


def hits(library, model, frame, early, single, threshold, counts=None, room=200_000):
    """Rows (x, y, size, score, class, level, column, row) of what the detector finds."""
    out, counts = np.empty((room, 8), dtype=np.float32), np.zeros(2) if counts is None else counts
    height, width = frame.shape
    n = library.frame_hits(
        model,
        len(model),
        frame.ctypes.data,
        width,
        height,
        early,
        single,
        threshold,
        out.ctypes.data,
        room,
        counts.ctypes.data,
    )
    if n < 0:
        raise ValueError("the detector refuses the model or the frame")
    return out[: min(n, room)]


# -- what scenes are made of -----------------------------------------------------------------------------------------


def resized(image, height, width):
    """Bilinear."""
    h, w = image.shape
    y = np.clip((np.arange(height) + 0.5) * h / height - 0.5, 0, h - 1.001)
    x = np.clip((np.arange(width) + 0.5) * w / width - 0.5, 0, w - 1.001)
    i, j, v, u = y.astype(int), x.astype(int), (y % 1)[:, None], x % 1
    rows = image[i] * (1 - v) + image[i + 1] * v
    return rows[:, j] * (1 - u) + rows[:, j + 1] * u


def load_digits():
    """Images of each digit, for training and test; a glyph takes 5/7 of its image."""
    folder, parts = os.environ.get("PYMCBOOST_DATA", ""), []
    for part in ("train", "test"):
        found = [
            (Path(folder) / f"{name}.{part}.libsvm.gz", *more) for name, *more in DIGITS if folder
        ]
        found = [one for one in found if one[0].exists()]
        digits = [[] for _ in range(10)]
        for path, size, border in found or [
            (HERE.parents[1] / "data" / f"digits.{part}.libsvm", 8, 2)
        ]:
            rows = load_svmlight(path, n_features=size * size)
            X, y = (
                np.asarray(rows.X, dtype=np.float32).reshape(-1, size, size),
                np.asarray(rows.y, dtype=int),
            )
            X = np.pad(
                (X - X.min()) * (255 / np.ptp(X)), ((0, 0), (border, border), (border, border))
            )
            for digit, images in enumerate(digits):
                images += list(X[y - y.min() == digit])
        parts.append(digits)
    return parts


def load_photos():
    """Faces (100, 25, 25) and photographs of training and test, from scikit-image; nothing without it."""
    try:
        import skimage.data
    except ImportError:
        return None, {"train": [], "test": []}
    faces = skimage.data.lfw_subset()[:100] * 255.0
    grey = lambda image: image.mean(axis=2) if image.ndim == 3 else image.astype(float)  # noqa: E731
    return faces, {
        part: [grey(getattr(skimage.data, name)()) for name in names]
        for part, names in PHOTOS.items()
    }


def texture(rng, height, width):
    """Clouds, gratings, and shapes of one grey."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    out = np.full((height, width), rng.uniform(40, 215), dtype=np.float32)
    for size in rng.choice([3, 6, 12, 24, 48, 96], rng.integers(1, 4), replace=False):
        cells = rng.normal(size=(max(2, height * size // 640 + 1), max(2, width * size // 640 + 1)))
        out += rng.uniform(5, 35) * resized(cells, height, width)
    if rng.random() < 0.3:
        angle, period = rng.uniform(0, np.pi), rng.uniform(8, 80)
        out += rng.uniform(10, 50) * np.sign(
            np.sin((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / period)
        )
    for _ in range(rng.integers(0, 25)):
        cx, cy, a, b = rng.uniform(0, width), rng.uniform(0, height), *rng.uniform(8, 70, 2)
        angle = rng.uniform(0, np.pi)
        u, v = (
            np.cos(angle) * (x - cx) + np.sin(angle) * (y - cy),
            np.cos(angle) * (y - cy) - np.sin(angle) * (x - cx),
        )
        inside = (
            np.maximum(abs(u) / a, abs(v) / b) < 1
            if rng.random() < 0.5
            else (u / a) ** 2 + (v / b) ** 2 < 1
        )
        out[inside] = rng.uniform(0, 255)
    return out + rng.normal(size=out.shape).astype(np.float32) * rng.uniform(0, 6)


def ground(rng, photos, height, width):
    """A background: a texture, or a part of a photograph."""
    if not photos or rng.random() < 0.5:
        return texture(rng, height, width)
    photo = photos[rng.integers(len(photos))]
    h = int(min(photo.shape[0], photo.shape[1] * height / width) * rng.uniform(0.4, 1))
    w = min(photo.shape[1], h * width // height)
    top, left = rng.integers(photo.shape[0] - h + 1), rng.integers(photo.shape[1] - w + 1)
    part = photo[top : top + h, left : left + w]
    return resized(part[:, :: rng.choice([-1, 1])], height, width) * rng.uniform(
        0.6, 1.1
    ) + rng.uniform(-20, 20)


class Scenes:
    """Frames with objects.

    Parameters
    ----------
    digits : list of list of ndarray
        Images of each digit.
    faces : ndarray or None
    photos : list of ndarray
    shape : (int, int)
        Height and width.
    only : list of str, optional
        Names of the objects that are drawn; without it all.
    """

    def __init__(self, digits, faces, photos, shape, only=None):
        self.digits, self.faces, self.photos, self.shape = digits, faces, photos, shape
        self.names = [str(digit) for digit in range(10)] + ["face"] * (faces is not None)
        if unknown := set(only or ()) - set(self.names):
            raise SystemExit(
                f"--only {' '.join(sorted(unknown))}: the objects are {', '.join(self.names)}"
            )
        self.drawn = [self.names.index(name) for name in only or self.names]

    def draw(self, rng, n_objects, smallest=48, largest=200):
        """A frame (uint8) and its objects: rows (x, y, size, class)."""
        height, width = self.shape
        frame, boxes = ground(rng, self.photos, height, width), np.empty((0, 4))
        for _ in range(8 * n_objects):
            if len(boxes) == n_objects:
                break
            size = int(np.exp(rng.uniform(np.log(smallest), np.log(min(largest, height, width)))))
            x, y = rng.integers(width - size + 1), rng.integers(height - size + 1)
            apart = (
                abs(boxes[:, :2] + boxes[:, 2:3] / 2 - [x + size / 2, y + size / 2]).max(axis=1)
            ) * 2
            if (apart < boxes[:, 2] + size).any():
                continue
            number = self.drawn[rng.integers(len(self.drawn))]
            part = frame[y : y + size, x : x + size]
            part[...] = self.face(rng, part) if number == 10 else self.digit(rng, number, part)
            boxes = np.vstack((boxes, [x, y, size, number]))
        return np.clip(frame + rng.normal(size=frame.shape) * rng.uniform(0, 4), 0, 255).astype(
            np.uint8
        ), boxes

    def digit(self, rng, number, part):
        """A digit over a part of the frame, in a grey that differs from it."""
        images = self.digits[number]
        ink = np.clip(
            resized(images[rng.integers(len(images))], *part.shape) / 255 * rng.uniform(1, 1.6),
            0,
            1,
        )
        low, high = np.quantile(part, (0.1, 0.9))
        greys = [g for g in np.arange(0, 256, 5) if g < low - 50 or g > high + 50]
        if not greys:  # no grey differs from all of it: make it flatter
            mean = part.mean()
            part = mean + (part - mean) * 0.3
            greys = [0 if mean > 127 else 255]
        return part * (1 - ink) + rng.choice(greys) * ink

    def face(self, rng, part):
        """A face with soft edges."""
        face = self.faces[rng.integers(len(self.faces))][:, :: rng.choice([-1, 1])]
        size = len(part)
        face = (
            (resized(face, size, size) - 128) * rng.uniform(0.7, 1.2) + 128 + rng.uniform(-30, 30)
        )
        v = np.linspace(-1, 1, size) ** 2
        alpha = np.clip((1.25 - (v[:, None] + v)) / 0.35, 0, 1)
        return part * (1 - alpha) + face * alpha


# -- windows ---------------------------------------------------------------------------------------------------------


def overlaps(a, b):
    """Shared part of the union of squares (x, y, size), all of a with all of b."""
    a, b = np.asarray(a, dtype=float)[:, None, :3], np.asarray(b, dtype=float)[None, :, :3]
    both = np.minimum(a[..., :2] + a[..., 2:], b[..., :2] + b[..., 2:]) - np.maximum(
        a[..., :2], b[..., :2]
    )
    both = np.clip(both, 0, None).prod(axis=-1)
    return both / (a[..., 2] ** 2 + b[..., 2] ** 2 - both)


def levels(shape):
    """(scale, columns, rows) of windows of each level."""
    out, scale = [], 2.0
    while min(shape) / scale >= WINDOW:
        width, height = int(shape[1] / scale), int(shape[0] / scale)
        out.append((scale, (width - WINDOW) // STEP + 1, (height - WINDOW) // STEP + 1))
        scale *= RATIO
    return out


def squares(places, shape):
    """(x, y, size) in the frame of windows (level, x, y)."""
    scale = np.array([one[0] for one in levels(shape)])[places[:, 0]]
    return np.column_stack((places[:, 1] * scale, places[:, 2] * scale, WINDOW * scale))


def candidates(rng, boxes, shape, n_random):
    """Windows around the objects, and random ones."""
    places = []
    for number, (scale, columns, rows) in enumerate(levels(shape)):
        for x, y, size, _ in boxes:
            ratio = size / (WINDOW * scale)
            if not 0.45 < ratio < 2.2:
                continue
            shift = (size - WINDOW * scale) / 2
            i, j = (x + shift) / scale / STEP, (y + shift) / scale / STEP
            close = [(0, 0), *rng.integers(-1, 2, (2, 2))] if 0.72 < ratio < 1.4 else []
            for di, dj in (*close, *rng.integers(-4, 5, (1, 2))):
                at = round(i) + di, round(j) + dj
                if 0 <= at[0] < columns and 0 <= at[1] < rows:
                    places.append((number, STEP * at[0], STEP * at[1]))
    share = np.array([columns * rows for _, columns, rows in levels(shape)], dtype=float) ** 0.6
    for number in rng.choice(len(share), n_random, p=share / share.sum()):
        _, columns, rows = levels(shape)[number]
        places.append((number, STEP * rng.integers(columns), STEP * rng.integers(rows)))
    return np.unique(np.array(places, dtype=np.int32).reshape(-1, 3), axis=0)


def labelled(places, boxes, shape, background, near=NEAR):
    """Class of each window; -1 where it shows a part of an object."""
    if not len(boxes) or not len(places):
        return np.full(len(places), background)
    shared = overlaps(squares(places, shape), boxes)
    best = shared.argmax(axis=1)
    most = shared[np.arange(len(places)), best]
    return np.where(most > near, boxes[best, 3].astype(int), np.where(most < FAR, background, -1))


def windows(library, rng, scenes, n_scenes, n_random, near=NEAR):
    """Features and classes of windows of new scenes."""
    found = [[], []]
    for _ in range(n_scenes):
        frame, boxes = scenes.draw(rng, 12)
        places = candidates(rng, boxes, scenes.shape, n_random)
        add_windows(
            library,
            found,
            frame,
            places,
            labelled(places, boxes, scenes.shape, len(scenes.names), near),
        )
    return np.concatenate(found[0]), np.concatenate(found[1])


def add_windows(library, found, frame, places, label):
    """Append the features and classes of windows that have one."""
    values, filled = features(library, frame, places[label >= 0])
    found[0].append(values[filled])
    found[1].append(label[label >= 0][filled])


# -- training --------------------------------------------------------------------------------------------------------


def fit(X, y, names, options):
    """A model of small vector trees."""
    model = VectorTreeBoostClassifier(
        n_estimators=options.trees,
        max_leaf_nodes=options.leaves,
        learning_rate=options.learning_rate,
        max_features=256 / N_FEATURES,
        split_columns=None,
        subsample=0.5,
        calibrate=None,
        random_state=options.seed,
    )
    weight = np.where(
        y == len(names), 0.5, 1.0
    )  # most windows are background, and all of them are hard ones
    return model.fit(X, np.array([*names, BACKGROUND])[y], sample_weight=weight).model_


def check_exit(library, scenes, options, n_scenes):
    """Refuse scenes with too few windows for the early exit, before the training: by those of some."""
    label = windows(library, np.random.default_rng([options.seed, 4]), scenes, 10, 0, 0.7)[1]
    found, needed = (
        n_scenes * np.count_nonzero(label < len(scenes.names)) // 10,
        2 * int(np.ceil(3 / options.rate)),
    )
    if found < needed:
        raise SystemExit(
            f"--rate {options.rate:g}: the exit needs {needed} windows with objects, and {n_scenes} scenes have about "
            f"{found}; take a larger rate, a larger --height and --width, or more --scenes, of which it gets a quarter"
        )


def train(library, scenes, options, log):
    """Rounds of training, each with the windows that the last model took for objects; then the early exit.

    Returns the file of the model, and the windows of the last round: features and numbers of classes.
    """
    rng, names, n_held = (
        np.random.default_rng(options.seed),
        scenes.names,
        max(40, options.scenes // 4),
    )
    check_exit(library, scenes, options, n_held)
    X, y = windows(library, rng, scenes, options.scenes, 30)
    for number in range(options.rounds):
        model = fit(X, y, names, options)
        rows = np.bincount(y, minlength=len(names) + 1)
        log(f"round {number + 1}: {rows[:-1].sum()} windows with objects, {rows[-1]} without")
        if number == options.rounds - 1:
            break
        found, code = [[X], [y]], model.to_bytes()
        for _ in range(options.scenes // 2):
            frame, boxes = scenes.draw(rng, rng.choice([0, 6]))
            places = hits(library, code, frame, False, False, -1.0)[:, 5:].astype(np.int32)
            places = places[rng.permutation(len(places))[:60]]
            label = labelled(places, boxes, frame.shape, len(names))
            add_windows(library, found, frame, places, np.where(label == len(names), label, -1))
        X, y = np.concatenate(found[0]), np.concatenate(found[1])
    held, label = windows(library, rng, scenes, n_held, 0, 0.7)
    path = options.out / "detector.mcb"
    path.write_bytes(model.to_bytes())
    held = held[label < len(names)]
    try:
        early = load_model(path).with_early_exit(
            "rejection", held, rate=options.rate, background=BACKGROUND
        )
    except ValueError as error:
        raise SystemExit(
            f"{path} has no early exit, since the model takes too many windows with objects for background: take more "
            f"--scenes and --trees, or a larger --rate ({error})"
        ) from error
    path.write_bytes(early.to_bytes())
    return path.read_bytes(), X, y


# -- measuring -------------------------------------------------------------------------------------------------------


def matched(found, boxes, classes):
    """For hits from the best on: (score, class, whether it is an object that no better one has found)."""
    taken, out = np.zeros(len(boxes), dtype=bool), []
    for one in found[np.argsort(-found[:, 3])]:
        shared = overlaps(one[None], boxes)[0] if len(boxes) else np.empty(0)
        fits = (shared >= MATCH) & ~taken & (classes[int(one[4])] == boxes[:, 3])
        if fits.any():
            taken[np.flatnonzero(fits)[shared[fits].argmax()]] = True
        out.append((one[3], classes[int(one[4])], fits.any()))
    return out


def average_precision(score, right, n_objects):
    """Area below precision over recall, and the curve: precision is the best at any larger recall."""
    order = np.argsort(-score, kind="stable")
    good = np.cumsum(right[order])
    precision = np.maximum.accumulate((good / np.arange(1, len(good) + 1))[::-1])[::-1]
    recall = good / max(1, n_objects)
    return float(np.sum(np.diff(recall, prepend=0) * precision)), recall, precision


def measure(library, model, labels, scenes, n_scenes, early, seed):
    """Precision, recall and false positives on new scenes."""
    rng, names, counts = np.random.default_rng([seed, 1]), scenes.names, np.zeros(2)
    classes = np.array([names.index(label) if label != BACKGROUND else -1 for label in labels])
    rows, n_of = [], np.zeros(len(names))
    for number in range(n_scenes):
        frame, boxes = scenes.draw(rng, 8 if number % 4 else 0)
        n_of += np.bincount(boxes[:, 3].astype(int), minlength=len(names))
        rows += matched(hits(library, model, frame, early, True, -3.0, counts), boxes, classes)
    score, of, right = np.array(rows, dtype=float).reshape(-1, 3).T
    right = right > 0
    each = [
        average_precision(score[of == k], right[of == k], n_of[k])[0] for k in range(len(names))
    ]
    total, recall, precision = average_precision(score, right, n_of.sum())
    order = np.argsort(-score, kind="stable")
    wrong = np.cumsum(~right[order]) / n_scenes
    at = {
        f"misses_at_{limit:g}": 1 - float(recall[wrong <= limit].max(initial=0))
        for limit in (0.1, 1, 10)
    }
    at["threshold_at_1"] = float(score[order][wrong <= 1].min(initial=np.inf))
    curve = np.linspace(0, len(recall) - 1, 50 if len(recall) else 0).astype(int)
    return {
        "average_precision": total,
        "mean_of_classes": float(np.mean([each[k] for k in scenes.drawn])),
        **at,
        "of_each": {names[k]: round(each[k], 4) for k in scenes.drawn},
        "learners_per_window": float(counts[1] / counts[0]),
        "windows_per_frame": float(counts[0] / n_scenes),
        "recall": recall[curve].tolist(),
        "precision": precision[curve].tolist(),
        "false_positives_per_image": wrong[curve].tolist(),
    }


def write_pgm(path, frame):
    """A frame as a file."""
    path.write_bytes(b"P5\n%d %d\n255\n" % frame.shape[::-1] + frame.tobytes())


def speed(options, model_path, scenes, *more):
    """What the program's live mode says of frames of new scenes."""
    rng = np.random.default_rng([options.seed, 2])
    data = b"".join(scenes.draw(rng, 8)[0].tobytes() for _ in range(10)) * options.repeat
    size = f"{scenes.shape[1]}x{scenes.shape[0]}"
    command = [options.out / "detector", "--every", *more, "--live", size, model_path]
    return json.loads(
        subprocess.run(command, input=data, capture_output=True, check=True).stdout.splitlines()[-1]
    )


def scenes_of(shape, only=None):
    """Scenes of training and test: no digit, face or photograph is in both."""
    digits, (faces, photos) = load_digits(), load_photos()
    parts = (None, None) if faces is None else (faces[:70], faces[70:])
    each = zip(digits, parts, ("train", "test"), strict=True)
    return [Scenes(images, some, photos[part], shape, only) for images, some, part in each]


def main(arguments=None):
    """Train, measure, and write everything into one folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path("detector-out"), help="folder of all that is written"
    )
    numbers = (
        ("trees", 256, 1, "vector trees"),
        ("leaves", 6, 2, "leaves of a tree"),
        ("rounds", 3, 1, "trainings, each with harder windows"),
        ("scenes", 500, 1, "scenes of the first round"),
        ("test-scenes", 100, 1, "scenes that are measured"),
        ("height", 480, 2 * WINDOW, "of a scene"),
        ("width", 640, 2 * WINDOW, "of a scene"),
        ("repeat", 10, 1, "times 10 frames, to measure the speed"),
        ("seed", 0, 0, "start of the random numbers"),
    )
    for name, default, _, text in numbers:
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{text} (default: {default})"
        )
    parser.add_argument(
        "--rate", type=float, default=0.05, help="share of objects' windows that the exit may lose"
    )
    parser.add_argument("--learning-rate", type=float, default=0.3)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="objects that are drawn and found (default: all)"
    )
    parser.add_argument(
        "--keep-windows",
        action="store_true",
        help="write the windows of the last round: windows.npz",
    )
    options = parser.parse_args(arguments)
    for name, _, least, _ in numbers:
        if (given := getattr(options, name.replace("-", "_"))) < least:
            parser.error(f"--{name} {given}: at least {least}")
    if not 0 < options.rate < 1:
        parser.error(f"--rate {options.rate:g}: above 0 and below 1")
    options.out.mkdir(parents=True, exist_ok=True)
    library = build(options.out)
    scenes, test = scenes_of((options.height, options.width), options.only)
    code, X, y = train(library, scenes, options, print)
    if options.keep_windows:
        np.savez(options.out / "windows.npz", X=X, y=y)
    path = options.out / "detector.mcb"
    labels = load_model(path).classes_.tolist()
    report = {"classes": len(scenes.drawn), "bytes": len(code)}
    for way, early in (("early", True), ("full", False)):
        report[way] = measure(library, code, labels, test, options.test_scenes, early, options.seed)
    report["live"], report["live_full"] = (
        speed(options, path, test),
        speed(options, path, test, "--full"),
    )
    (options.out / "report.json").write_text(json.dumps(report, indent=1))
    frame, _ = test.draw(np.random.default_rng([options.seed, 3]), 10)
    write_pgm(options.out / "scene.pgm", frame)
    threshold = str(min(100, report["early"]["threshold_at_1"]))
    command = [
        options.out / "detector",
        "--threshold",
        threshold,
        "--png",
        options.out / "boxes.png",
        path,
    ]
    found = subprocess.run(
        [*command, options.out / "scene.pgm"], capture_output=True, check=True, text=True
    )
    print(found.stdout.strip())
    for way in ("early", "full"):
        print(
            way, {name: value for name, value in report[way].items() if not isinstance(value, list)}
        )
    print(
        "model:", len(code), "bytes", *(f"\n{way}: {report[way]}" for way in ("live", "live_full"))
    )


if __name__ == "__main__":
    main()
