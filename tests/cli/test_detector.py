"""The detector of examples/detector: a small one is trained, and finds digits in pictures and in a stream of frames."""

import gzip
import importlib.util
import json
import os
import struct
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c.build import c_compiler

import pymcboost

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "detector"


@pytest.fixture(scope="module")
def trainer():
    spec = importlib.util.spec_from_file_location("detector_train", EXAMPLE / "train.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:  # the bundled digits alone
        patch.delenv("PYMCBOOST_DATA", raising=False)
        patch.setenv("CC", c_compiler())
        patch.setenv("CFLAGS", "-O0 -DMCB_NO_VECTOR -Wall -Wextra -Werror")
        patch.setattr(module, "load_photos", lambda: (None, {"train": [], "test": []}))
        yield module


@pytest.fixture(scope="module")
def made(trainer, tmp_path_factory):
    """A folder with the programs and a model of few trees, of the bundled digits on textures."""
    folder = tmp_path_factory.mktemp("detector")
    trainer.main(
        [
            "--out",
            str(folder),
            "--height",
            "240",
            "--width",
            "320",
            "--scenes",
            "20",
            "--trees",
            "40",
            "--rounds",
            "1",
            "--test-scenes",
            "2",
            "--repeat",
            "1",
        ]
    )
    return folder


def scene(trainer, seed=0):
    """A frame with three digits on a slope of grey, and its objects."""
    digits = trainer.load_digits()[1]
    scenes = trainer.Scenes(digits, None, [], (240, 320))
    rng = np.random.default_rng(seed)
    frame, boxes = np.tile(np.linspace(60, 110, 320), (240, 1)), []
    for x, y, size, number in ((10, 20, 60, 3), (120, 120, 75, 0), (230, 60, 60, 7)):
        part = frame[y : y + size, x : x + size]
        part[...] = scenes.digit(rng, number, part)
        boxes.append((x, y, size, number))
    noisy = frame + rng.normal(size=frame.shape) * 2
    return np.clip(noisy, 0, 255).astype(np.uint8), np.array(boxes, dtype=float)


def run(made, *words, frames=b"", status=0):
    command = [made / "detector", *map(str, words)]
    completed = subprocess.run(command, input=frames, capture_output=True, timeout=60)
    assert completed.returncode == status, completed.stderr
    return (
        completed.stderr.decode()
        if status
        else [json.loads(line) for line in completed.stdout.splitlines()]
    )


def test_digits_are_found_in_a_picture(trainer, made):
    right = 0
    for seed in range(4):
        frame, boxes = scene(trainer, seed)
        trainer.write_pgm(made / "scene.pgm", frame)
        (line,) = run(made, "--threshold", "0.5", made / "detector.mcb", made / "scene.pgm")
        found = line["boxes"]
        assert len(found) < 12
        for box in boxes:
            shared = [
                trainer.overlaps([[one["x"], one["y"], one["size"]]], [box])[0, 0]
                * (one["label"] == str(int(box[3])))
                for one in found
            ]
            right += max(shared, default=0) > 0.5
    assert right >= 10  # of 12


def test_the_report_says_what_was_measured(made):
    report = json.loads((made / "report.json").read_text())
    early, full = report["early"], report["full"]
    assert report["classes"] == 10
    assert report["bytes"] == len((made / "detector.mcb").read_bytes()) < 30_000
    assert early["learners_per_window"] < 0.7 * full["learners_per_window"]
    assert full["learners_per_window"] == 40
    assert abs(early["average_precision"] - full["average_precision"]) < 0.05
    assert 0 < full["average_precision"] <= 1
    assert np.all(np.diff(early["recall"]) >= 0)


def test_average_precision_is_the_area_under_the_curve(trainer):
    score, right = np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, False, True, False])
    area, recall, precision = trainer.average_precision(score, right, 4)
    assert area == pytest.approx(0.25 * 1 + 0.25 * 2 / 3)
    assert recall.tolist() == [0.25, 0.25, 0.5, 0.5]
    assert precision == pytest.approx([1, 2 / 3, 2 / 3, 0.5])


def test_an_object_is_found_once(trainer):
    boxes = np.array([[0, 0, 10, 3.0]])
    found = np.array(
        [[0, 0, 10, 0.5, 3], [1, 0, 10, 0.9, 3], [0, 0, 10, 2.0, 4], [50, 50, 10, 0.1, 3]],
        dtype=float,
    )
    assert [bool(fits) for *_, fits in trainer.matched(found, boxes, np.arange(10))] == [
        False,
        True,
        False,
        False,
    ]


def test_png_has_the_picture_and_its_boxes(trainer, made):
    frame, _ = scene(trainer)
    trainer.write_pgm(made / "scene.pgm", frame)
    run(made, "--png", made / "boxes.png", made / "detector.mcb", made / "scene.pgm")
    data, chunks, at = (made / "boxes.png").read_bytes(), {}, 8
    while at < len(data):
        size, tag = struct.unpack(">I4s", data[at : at + 8])
        chunks[tag] = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(
            tag + chunks[tag]
        )
        at += 12 + size
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (320, 240)
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8).reshape(240, 961)
    grey = (lines[:, 1:].reshape(240, 320, 3) == frame[:, :, None]).all(axis=2)
    assert 0.8 < grey.mean() < 1


def test_every_frame_of_a_stream_or_the_newest(trainer, made):
    frame, _ = scene(trainer)
    frames = frame.tobytes() * 40
    *lines, last = run(
        made, "--every", "--live", "320x240", made / "detector.mcb", frames=frames + b"rest"
    )
    assert [line["frame"] for line in lines] == list(range(1, 41))
    assert all(line["boxes"] == lines[0]["boxes"] for line in lines)
    assert (last["frames"], last["done"], last["dropped"], last["rest_bytes"]) == (40, 40, 0, 4)
    assert (
        last["latency_ms"]["p50"]
        <= last["latency_ms"]["p99"]
        <= 1.02 * last["latency_ms"]["max"] + 0.01
    )
    *lines, last = run(made, "--full", "--live", "320x240", made / "detector.mcb", frames=frames)
    assert last["frames"] == 40 == last["done"] + last["dropped"]
    assert len(lines) == last["done"] >= 1
    assert lines[-1]["frame"] == 40  # the newest is never dropped


def test_c_and_python_have_the_same_features_and_scores(trainer, made):
    frame, boxes = scene(trainer)
    library = trainer.loaded(made)
    code = (made / "detector.mcb").read_bytes()
    model = trainer.load_model(made / "detector.mcb")
    found = trainer.hits(library, code, frame, False, False, -50.0)
    values, filled = trainer.features(library, frame, found[:, 5:].astype(int))
    assert filled.all()
    scores = model.raw_scores(values)
    background = model.classes_.tolist().index(trainer.BACKGROUND)
    lead = np.delete(scores, background, axis=1).max(axis=1) - scores[:, background]
    np.testing.assert_allclose(found[:, 3], lead, rtol=1e-6)
    squares = trainer.squares(found[:, 5:].astype(int), frame.shape)
    np.testing.assert_allclose(found[:, :3], squares, rtol=1e-6)


@pytest.fixture(scope="module")
def beside(trainer):
    """The comparison with other libraries, without them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "train", trainer)
        spec = importlib.util.spec_from_file_location("detector_compare", EXAMPLE / "compare.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def test_scores_of_others_are_suppressed_as_ours(trainer, beside, made):
    frame, _ = scene(trainer)
    library, code = trainer.loaded(made), (made / "detector.mcb").read_bytes()
    model = trainer.load_model(made / "detector.mcb")
    names = [*map(str, range(10)), trainer.BACKGROUND]
    values, places = beside.windows_of(library, frame)
    scores = model.raw_scores(values)[:, [model.classes_.tolist().index(name) for name in names]]
    actual = beside.hits(scores, places, frame.shape, -1.0)
    wanted = trainer.hits(library, code, frame, False, True, -1.0)
    assert len(actual) == len(wanted) > 3
    np.testing.assert_allclose(actual[:, :4], wanted[:, :4], rtol=1e-5)
    assert [names[int(k)] for k in actual[:, 4]] == model.classes_[
        wanted[:, 4].astype(int)
    ].tolist()


def test_memory_of_a_stream_is_read_and_judged(trainer, beside, made):
    frames = [scene(trainer, seed)[0] for seed in range(2)]
    said = []
    found = beside.memory_of(made, frames, 120, said.append)
    assert list(found["resident_kB"]) == [100, 120] and min(found["resident_kB"].values()) > 500
    assert found["growth"] <= 0.01 and len(said) == 2
    grown = iter((1000, 1011))
    with pytest.raises(SystemExit, match="memory grew by 1.1%, more than 1%"):
        beside.memory_of(made, frames, 101, said.append, lambda pid: next(grown))


def test_recall_counts_a_face_once(beside):
    box = np.array([[100, 100, 50, 10.0]])
    near, far = [104, 96, 60, 5], [300, 300, 50, 7]
    frames = [("near", box), ("both", box), ("none", box[:0])]
    found = {"near": [near, [101, 101, 50, 4]], "both": [far, near], "none": []}
    said = beside.recall_of(
        lambda frame: np.array(found[frame], dtype=float).reshape(-1, 4), frames
    )
    assert said == {"recall_at_0.1": 0.0, "recall_at_1": 1.0}
    assert beside.same_face(np.array(near), box[0])
    assert not beside.same_face(np.array([100, 100, 101, 5]), box[0])
    assert not beside.same_face(np.array([114, 100, 50, 5]), box[0])


def test_only_some_objects_are_drawn(trainer):
    scenes = trainer.Scenes(trainer.load_digits()[1], None, [], (240, 320), ["3", "7"])
    rng = np.random.default_rng(0)
    assert {number for _ in range(8) for number in scenes.draw(rng, 4)[1][:, 3]} == {3, 7}


BAD = [
    (["--live", "0x5", "m"], "--live: takes WIDTHxHEIGHT, each from 1 to 32767"),
    (["--threshold", "x", "m", "p"], "--threshold: takes a number"),
    (["--threshold", "nan", "{model}", "{scene}"], "--threshold: takes a number"),
    (["--png"], "--png: takes the name of a file"),
    (["--nonsense"], "--nonsense: no such option; --help prints all"),
    (["m", "p", "q"], "q: is a third file"),
    (["--png", "x.png", "--live", "320x240", "{model}"], "--png: is for a picture"),
    (["--every", "{model}", "{scene}"], "--every: is for --live"),
    ([".", "{scene}"], "Is a directory"),
    ([], "usage"),
    (["{model}"], "usage"),
    (["nowhere.mcb", "{scene}"], "No such file"),
    (["{scene}", "{scene}"], "scene.pgm: "),
    (["{other}", "{scene}"], "is not a detector: 2048 features"),
    (["{model}", "nowhere.pgm"], "cannot be read"),
    (["{model}", "{model}"], "is not a binary PGM"),
    (["{model}", "{cut}"], "ends too early"),
    (["{model}", "{tiny}"], "smaller than a window"),
    (["--live", "20x20", "{model}"], "smaller than a window"),
]


@pytest.mark.parametrize(("words", "message"), BAD)
def test_bad_input_is_refused(trainer, made, words, message):
    frame, _ = scene(trainer)
    paths = {name: made / f"{name}.pgm" for name in ("scene", "cut", "tiny")}
    trainer.write_pgm(paths["scene"], frame)
    paths["cut"].write_bytes(paths["scene"].read_bytes()[:-1])
    trainer.write_pgm(paths["tiny"], frame[:30, :30])
    paths |= {"model": made / "detector.mcb", "other": made / "other.mcb"}
    X = np.random.default_rng(0).normal(size=(60, 3))
    trainer.VectorTreeBoostClassifier(n_estimators=2, calibrate=None).fit(X, X[:, 0] > 0).save(
        paths["other"]
    )
    assert message in run(made, *(word.format(**paths) for word in words), status=1)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's full device")
def test_a_full_disk_is_no_success(trainer, made):
    frame, _ = scene(trainer)
    trainer.write_pgm(made / "scene.pgm", frame)
    for words in (
        [made / "detector.mcb", made / "scene.pgm"],
        ["--live", "320x240", made / "detector.mcb"],
    ):
        with open("/dev/full", "w") as full:
            command = [made / "detector", *map(str, words)]
            completed = subprocess.run(
                command, input=frame.tobytes(), stdout=full, stderr=subprocess.PIPE, timeout=60
            )
        assert (completed.returncode, b"standard output: No space left" in completed.stderr) == (
            1,
            True,
        )


def test_models_come_from_pipes_and_labels_are_json(trainer, made):
    frame, _ = scene(trainer)
    trainer.write_pgm(made / "scene.pgm", frame)
    model = trainer.load_model(made / "detector.mcb")
    code = model.to_bytes()
    assert run(made, "/dev/stdin", made / "scene.pgm", frames=code)[0]["boxes"]
    names = [
        name if name == trainer.BACKGROUND else f'{name}\n"\\' for name in model.classes_.tolist()
    ]
    named = type(model).from_ensemble(model.ensemble, names, link=model.link)
    named.save(made / "named.mcb")
    lines = run(made, "--full", "--threshold", "-50", made / "named.mcb", made / "scene.pgm")
    assert {box["label"] for box in lines[0]["boxes"]} <= {*names} - {trainer.BACKGROUND} != set()


@pytest.mark.slow
def test_sums_of_a_large_frame_overflow_nowhere(trainer, made):
    pixels = np.full((4300, 8000), 255, dtype=np.uint8)
    trainer.write_pgm(made / "large.pgm", pixels)
    traps = ["-fsanitize=signed-integer-overflow", "-fsanitize-undefined-trap-on-error"]
    program = made / "trapping"
    words = [
        "-std=c99",
        "-O2",
        "-D_POSIX_C_SOURCE=200809L",
        f"-I{pymcboost.get_include()}",
        EXAMPLE / "detector.c",
    ]
    subprocess.run(["gcc", *traps, *words, "-o", program, "-lpthread", "-lm"], check=True)
    completed = subprocess.run(
        [program, made / "detector.mcb", made / "large.pgm"], capture_output=True, timeout=300
    )
    assert completed.returncode == 0 and json.loads(completed.stdout)["boxes"] == []


def test_help_names_every_option(made):
    completed = subprocess.run(
        [made / "detector", "--help"], capture_output=True, text=True, timeout=60
    )
    assert completed.returncode == 0
    named = {line.split()[0] for line in completed.stdout.splitlines() if line.startswith("--")}
    assert named == {"--threshold", "--png", "--full", "--live", "--every"}


def test_unknown_objects_and_folders_are_refused(trainer, beside, tmp_path, capsys):
    with pytest.raises(SystemExit, match="--only dog: the objects are 0, 1, 2"):
        trainer.Scenes(trainer.load_digits()[1], None, [], (240, 320), ["3", "dog"])
    for what, name in (("memory", "detector.mcb"), ("classes", "windows.npz")):
        with pytest.raises(SystemExit):
            beside.main([what, "--out", str(tmp_path)])
        assert f"no {name} there, which train.py" in capsys.readouterr().err
        (tmp_path / name).touch()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rounds", "0"], "error: --rounds 0: at least 1\n"),
        (["--height", "47"], "error: --height 47: at least 48\n"),
        (["--test-scenes", "0"], "error: --test-scenes 0: at least 1\n"),
        (["--rate", "0"], "error: --rate 0: above 0 and below 1\n"),
    ],
)
def test_numbers_that_leave_nothing_to_train_are_refused(trainer, tmp_path, capsys, words, message):
    with pytest.raises(SystemExit):
        trainer.main(["--out", str(tmp_path / "none"), *words])
    assert capsys.readouterr().err.endswith(message) and not (tmp_path / "none").exists()


def test_too_few_windows_for_the_exit_are_refused_before_the_training(trainer, made, monkeypatch):
    monkeypatch.setattr(trainer, "build", lambda folder: trainer.loaded(made))
    monkeypatch.delattr(trainer, "fit")
    with pytest.raises(
        SystemExit, match=r"--rate 0.05: .* 120 windows .* 40 scenes have about \d\d; take"
    ):
        trainer.main(["--out", str(made), "--height", "64", "--width", "64", "--scenes", "6"])


def test_a_model_of_background_alone_has_no_exit(trainer, made, tmp_path, monkeypatch):
    good = trainer.load_model(made / "detector.mcb")
    bias = np.where(good.classes_ == trainer.BACKGROUND, 100, 0).astype(np.float32)
    model = type(good).from_ensemble(replace(good.ensemble, bias=bias), good.classes_)
    monkeypatch.setattr(trainer, "build", lambda folder: trainer.loaded(made))
    monkeypatch.setattr(trainer, "fit", lambda *_: model)
    with pytest.raises(SystemExit, match="detector.mcb has no early exit.* take more --scenes"):
        trainer.main(
            [
                "--out",
                str(tmp_path),
                "--height",
                "144",
                "--width",
                "192",
                "--scenes",
                "2",
                "--rounds",
                "1",
            ]
        )


def test_a_detector_that_finds_nothing_is_measured(trainer, made, monkeypatch):
    def hits(library, model, frame, early, single, threshold, counts):
        counts += 1  # windows and learners
        return np.empty((0, 8))

    monkeypatch.setattr(trainer, "hits", hits)
    scenes = trainer.Scenes(trainer.load_digits()[1], None, [], (240, 320))
    said = trainer.measure(None, b"", ["1", trainer.BACKGROUND], scenes, 2, True, 0)
    assert (said["average_precision"], said["misses_at_1"], said["recall"]) == (0, 1, [])


def test_digits_of_both_sets_have_one_scale(trainer, tmp_path, monkeypatch):
    monkeypatch.setenv("PYMCBOOST_DATA", str(tmp_path))
    for name, size, paper, ink in (("mnist", 28, 0, 255), ("usps", 16, -1, 1)):
        lines = []
        for digit in range(10):
            pixels = np.full(size * size, paper)
            pixels[digit * size + 3] = ink
            words = " ".join(f"{at + 1}:{value}" for at, value in enumerate(pixels) if value)
            lines.append(f"{digit + 1} {words}\n")
        for part, text in (("train", "".join(lines)), ("test", "".join(lines[::-1] * 2))):
            (tmp_path / f"{name}.{part}.libsvm.gz").write_bytes(gzip.compress(text.encode()))
    train, test = trainer.load_digits()
    assert [len(images) for images in train] == [2] * 10 and [len(images) for images in test] == [
        4
    ] * 10
    for digit, (mnist, usps) in enumerate(train):
        assert (mnist.shape, usps.shape) == ((28, 28), (22, 22))
        assert mnist[digit, 3] == usps[digit + 3, 6] == 255 == mnist.sum() == usps.sum()
    (tmp_path / "mnist.train.libsvm.gz").unlink()
    assert [len(images) for images in trainer.load_digits()[0]] == [1] * 10
