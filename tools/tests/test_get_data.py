"""tools/get_data.py without a network: conversion of made-up sources, and what it says when a set cannot be had."""

import gzip
import hashlib
import io
import urllib.error
import zipfile

import get_data
import numpy as np
import pytest
from frame_sources import FRAME_SOURCES, FRAMES, FrameSet, FrameSource, frame_text
from shared.frames import load_frame

import pymcboost


@pytest.fixture
def offline(monkeypatch):
    def refuse(url, timeout):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr(get_data.urllib.request, "urlopen", refuse)


def put_raw(folder, source, texts):
    """Write raw files as a person or the download would."""
    folder.mkdir(exist_ok=True)
    if source.raw[0].endswith(".zip"):
        with zipfile.ZipFile(folder / source.raw[0], "w") as archive:
            archive.writestr("Index", "not data")
            for part, text in zip(source.parts, texts, strict=True):
                archive.writestr(
                    "inner/" + part, gzip.compress(text) if part.endswith(".gz") else text
                )
    else:
        for name, text in zip(source.raw, texts, strict=True):
            (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)


SAMPLES = {
    "iris": ([b"5.1,3.5,1.4,0.2,Iris-setosa\n5.9,3.0,0,1.8,Iris-virginica\n6.4,3.2,4.5,1.5,Iris-versicolor\n\n"],
             {"iris": b"1 1:5.1 2:3.5 3:1.4 4:0.2\n3 1:5.9 2:3 4:1.8\n2 1:6.4 2:3.2 3:4.5 4:1.5\n"}),
    "glass": ([b"1,1.52101,13.64,7\r\n2,1.51761,0.00,10\r\n"], {"glass": b"1 1:1.52101 2:13.64\n2 1:1.51761\n"}),
    "letter": ([b"T,2,8\nI,5,12\n"], {"letter": b"2 1:2 2:8\n1 1:5 2:12\n"}),
    "pendigits": ([b" 47,100, 27, 8\n  0, 89, 27, 2\n", b" 88, 92,  2, 9\n"],
                  {"pendigits.train": b"2 1:47 2:100 3:27\n1 2:89 3:27\n", "pendigits.test": b"3 1:88 2:92 3:2\n"}),
    "satimage": ([b"92 115 7\n84 102 3\n", b"80 0 3\n"],
                 {"satimage.train": b"2 1:92 2:115\n1 1:84 2:102\n", "satimage.test": b"1 1:80\n"}),
    "vowel": ([b"0 0 0 -3.639 0.418 0\n1 8 1 -2.5 1 1\n0 1 0 -3.3 0.5 1\n"],
              {"vowel.train": b"1 1:-3.639 2:0.418\n2 1:-3.3 2:0.5\n", "vowel.test": b"2 1:-2.5 2:1\n"}),
    "usps": ([b"6.0000 -1.0000 -0.6310 \n5.0000 0.0000 0.8620 \n", b"9 -1 0.123456789123\n"],
             {"usps.train": b"2 1:-1 2:-0.631\n1 2:0.862\n", "usps.test": b"3 1:-1 2:0.123456789\n"}),
    "svmguide4": ([b"-3 1:0.5 3:2\n2 2:1e-3\n", b"1 1:7\n"],
                  {"svmguide4.train": b"1 1:0.5 3:2\n3 2:0.001\n", "svmguide4.test": b"2 1:7\n"}),
    "mnist": ([b"@RELATION mnist\n@ATTRIBUTE p REAL\n% note\n@DATA\n" + b"0,7,'5'\n" * 60000 + b"255,0,'1'\n"],
              {"mnist.train": b"2 2:7\n" * 60000, "mnist.test": b"1 1:255\n"}),
    "covtype": ([b"2596,51,5\n1,2,1\n"], {"covtype": b"2 1:2596 2:51\n1 1:1 2:2\n"}),
    "yeast": ([b"ADT1_YEAST  0.58  0.61  MIT\nX  0.43  0.67  CYT\n"], {"yeast": b"2 1:0.58 2:0.61\n1 1:0.43 2:0.67\n"}),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_conversion(tmp_path, name):
    texts, expected = SAMPLES[name]
    put_raw(tmp_path / "raw", get_data.SOURCES[name], texts)
    assert get_data.convert(name, tmp_path / "raw") == expected


def test_offline_run_lists_everything(tmp_path, monkeypatch, capsys, offline):
    monkeypatch.setenv("PYMCBOOST_DATA", str(tmp_path))
    assert get_data.main([]) == 1
    err = capsys.readouterr().err
    assert f"missing ({len(get_data.SOURCES) + len(get_data.FRAME_SOURCES)}):" in err
    assert "classification/anneal.arff could not be fetched" in err
    assert f"put diamonds.csv into {tmp_path / 'raw'}, from R's data set ggplot2::diamonds" in err
    assert "public/53/iris.zip could not be fetched" in err
    assert f"get it by hand and save it as {tmp_path / 'raw' / 'iris.zip'}" in err
    assert f"put zip.train.gz and zip.test.gz into {tmp_path / 'raw'}" in err
    assert not list(tmp_path.glob("*.gz"))


def test_wrong_contents_are_not_written(tmp_path, monkeypatch, capsys, offline):
    monkeypatch.setenv("PYMCBOOST_DATA", str(tmp_path))
    put_raw(tmp_path / "raw", get_data.SOURCES["iris"], SAMPLES["iris"][0])
    assert get_data.main(["iris"]) == 1
    assert "the converted text of iris has SHA-256" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.gz"))
    put_raw(tmp_path / "raw", get_data.SOURCES["iris"], [b"5.1,oops,a\n"])
    assert get_data.main(["iris"]) == 1
    assert "do not read as expected (ValueError" in capsys.readouterr().err
    (tmp_path / "raw" / "iris.zip").write_text("<html>")
    assert get_data.main(["iris"]) == 1
    assert "is not a zip archive" in capsys.readouterr().err


def test_right_contents_are_written_once(tmp_path, monkeypatch, capsys, offline):
    texts, expected = SAMPLES["satimage"]
    digests = {part: hashlib.sha256(text).hexdigest() for part, text in expected.items()}
    monkeypatch.setattr(get_data, "SHA256", digests)
    monkeypatch.setenv("PYMCBOOST_DATA", str(tmp_path))
    put_raw(tmp_path / "raw", get_data.SOURCES["satimage"], texts)
    assert get_data.main(["satimage"]) == 0
    assert capsys.readouterr().out == "satimage: written\n"
    data = pymcboost.load_svmlight(tmp_path / "satimage.train.libsvm.gz")
    assert data.X.tolist() == [[92, 115], [84, 102]] and data.y.tolist() == [2, 1]
    assert get_data.main(["satimage"]) == 0
    assert capsys.readouterr().out == "satimage: is there\n"


def test_usage(monkeypatch):
    monkeypatch.delenv("PYMCBOOST_DATA", raising=False)
    with pytest.raises(SystemExit, match="set PYMCBOOST_DATA"):
        get_data.main([])
    monkeypatch.setenv("PYMCBOOST_DATA", "x")
    with pytest.raises(SystemExit, match="unknown set irsi"):
        get_data.main(["irsi"])


def test_every_set_has_its_digests():
    for name, source in get_data.SOURCES.items():
        split = source.split or len(source.parts) == 2
        parts = [f"{name}.train", f"{name}.test"] if split else [name]
        assert all(len(get_data.SHA256[part]) == 64 for part in parts)
    frames = {part for part in get_data.SHA256 if part.startswith("mixed/")}
    assert (
        frames
        == {f"mixed/{name}" for name in get_data.FRAME_SOURCES}
        == {f"mixed/{name}" for name in FRAMES}
    )
    parts = sum(2 if s.split or len(s.parts) == 2 else 1 for s in get_data.SOURCES.values())
    assert len(get_data.SHA256) - len(frames) == parts


@pytest.mark.needs_data
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ("usps", "letter") else ())
        for name in get_data.SOURCES
        if name not in ("covtype", "mnist")
    ],
)
def test_real_sets_turned_back_into_their_sources(tmp_path, data_folder, name):
    """Sources made from the real sets convert to the very digests of the table."""
    source = get_data.SOURCES[name]
    parts = [part for part in get_data.SHA256 if part in (name, f"{name}.train", f"{name}.test")]
    parts.sort(key=lambda part: part.endswith(".test"))
    texts = [gzip.decompress((data_folder / f"{part}.libsvm.gz").read_bytes()) for part in parts]
    if source.hand == get_data.LIBSVM:
        raw = texts
    else:
        raw = []
        between = "," if source.comma else "  "
        tables = [get_data.from_libsvm(text.decode()) for text in texts]
        width = max(values.shape[1] for values, _ in tables)
        for side, (values, labels) in enumerate(tables):
            values = np.pad(values, ((0, 0), (0, width - values.shape[1])))
            lines = []
            for row, label in zip(values, labels, strict=True):
                fields = [f"{value:.9g}" for value in row.tolist()]
                fields.insert(0 if source.label == 0 else len(fields), f"{int(label):02d}")
                for column in source.drop:
                    fields.insert(column, str(side))
                lines.append(between.join(fields) + "\n")
            raw.append("".join(lines).encode())
        if source.split:
            raw = [b"".join(raw)]
    put_raw(tmp_path / "raw", source, raw)
    converted = get_data.convert(name, tmp_path / "raw")
    assert {part: hashlib.sha256(text).hexdigest() for part, text in converted.items()} == {
        part: get_data.SHA256[part] for part in parts
    }


# -- frames ------------------------------------------------------------------------------------------------------------


def made_frame(monkeypatch, folder, source, text, categorical=()):
    """The CSV text of a made-up source whose raw file has this text."""
    monkeypatch.setitem(FRAME_SOURCES, "made", source)
    monkeypatch.setitem(FRAMES, "made", FrameSet(0, 0, 0, missing=0.0, categorical=categorical))
    (folder / source.raw[0]).write_text(text)
    return frame_text("made", folder).decode()


def test_weka_files_become_csv(tmp_path, monkeypatch):
    rows = "\n".join(["1,red,7,'a'", "?,'blue',7,b", "3.5,?,7,a", "2,red,7,b"] * 3)
    names = "@ATTRIBUTE 'the size' real\n@attribute colour? {red, blue}\n@attribute same real\n@attribute class {a,b}\n"
    text = f"% a note\n@relation x\n{names}@DATA\n{rows}\n1,red,7,rare\n"
    found = made_frame(
        monkeypatch, tmp_path, FrameSource(("made.arff",)), text=text, categorical=("colour",)
    )
    assert found == "the_size,colour,target\n" + "1.0,red,a\n,blue,b\n3.5,,a\n2.0,red,b\n" * 3


def test_columns_of_csv_are_chosen_and_ordered(tmp_path, monkeypatch):
    text = "a,b,a,c,kind\n" + "1,x,2,0,p\n3,,4,1,q\n1,z,2,0,q\n" * 5
    source = FrameSource(("made.csv",), columns=("a_1", "b", "kind"))
    text_of_frame = made_frame(monkeypatch, tmp_path, source, text=text, categorical=("b",))
    assert text_of_frame == "a_1,b,target\n" + "2,x,p\n4,,q\n2,z,q\n" * 5
    source = FrameSource(("made.csv",), drop=("a",), target="b")
    text_of_frame = made_frame(monkeypatch, tmp_path, source, text=text, categorical=("kind",))
    assert text_of_frame == "kind,target\n" + "p,x\nq,z\n" * 5


def test_a_frame_is_fetched_and_checked(tmp_path, monkeypatch, capsys):
    asked = []
    text = "a,b\n" + "1,x\n2,y\n" * 5
    monkeypatch.setenv("PYMCBOOST_DATA", str(tmp_path))
    monkeypatch.setitem(FRAME_SOURCES, "made", FrameSource(("one file.csv",), "owner/name/commit/"))
    monkeypatch.setitem(FRAMES, "made", FrameSet(0, 0, 0, missing=0.0, categorical=()))
    expected = text.replace("a,b", "a,target")
    monkeypatch.setitem(
        get_data.SHA256, "mixed/made", hashlib.sha256(expected.encode()).hexdigest()
    )
    monkeypatch.setattr(
        get_data.urllib.request,
        "urlopen",
        lambda url, timeout: asked.append(url) or io.BytesIO(text.encode()),
    )
    assert get_data.main(["made"]) == 0
    assert asked == ["https://raw.githubusercontent.com/owner/name/commit/one%20file.csv"]
    assert gzip.decompress((tmp_path / "mixed" / "made.csv.gz").read_bytes()).decode() == expected
    assert get_data.main(["made"]) == 0 and len(asked) == 1
    assert capsys.readouterr().out == "made: written\nmade: is there\n"


@pytest.mark.needs_data
@pytest.mark.parametrize("name", FRAMES)
def test_real_frames_are_those_of_the_list(data_folder, name):
    path = data_folder / "mixed" / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip("not there")
    assert get_data.is_right(path, get_data.SHA256[f"mixed/{name}"])
    X, y = load_frame(name)
    entry = FRAMES[name]
    assert (X.shape, len(np.unique(y))) == ((entry.rows, entry.n_features), entry.n_classes)
    assert round(float(X.isna().to_numpy().mean()), 3) == entry.missing
