"""The page of examples/wasm in a real browser: the bits of Python, for every kind of model."""

import contextlib
import http.server
import json
import queue
import re
import shutil
import subprocess
import threading
from functools import partial
from pathlib import Path

import pytest
from bindings.models import MODELS, compiled_wasm, needed, written

HERE = Path(__file__).resolve().parent
OPTIONS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync""".split()
SECONDS = 120


def browser():
    """Path of Chromium; a skip where it is not installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None) or needed(names[0])


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and keeps what pages send."""

    def do_POST(self):
        self.server.answers.put(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(folder):
    """A server of a folder on this machine alone: its address, and a queue of what is sent to it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder))
    server.answers = queue.Queue()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.answers
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def shown(program, profile, address):
    """The browser while it shows a page."""
    command = [program, *OPTIONS, f"--user-data-dir={profile}", address]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        started.terminate()
        started.wait()


def number(answer):
    """Label and number of what the page says."""
    return re.fullmatch(r"class (.+), (?:probability|score) (\S+)", answer).groups()


@pytest.mark.slow
def test_page(tmp_path):
    program = browser()
    folder = tmp_path / "site"
    folder.mkdir()
    compiled_wasm(folder)
    wanted = {}
    for name in MODELS:
        *paths, wanted[name] = written(name, folder)
        for path, suffix in zip(paths, ("mcb", "rows"), strict=True):
            path.rename(folder / f"{name}.{suffix}")
    (folder / "names.json").write_text(json.dumps(list(MODELS)))
    for path in (HERE / "browser.html", *(HERE.parents[1] / "examples" / "wasm").iterdir()):
        shutil.copy(path, folder)
    with (
        served(folder) as (address, answers),
        shown(program, tmp_path / "profile", f"{address}/browser.html"),
    ):
        said = json.loads(answers.get(timeout=SECONDS))
    assert "problem" not in said, said["problem"]
    assert "Chrome" in said["agent"]
    assert said["refused"].startswith("not a model file")
    for name, (model, rows) in MODELS.items():
        assert said["models"][name]["lines"] == wanted[name], name
        k = model.predict_codes(rows[:1])[0]
        numbers = (
            model.predict_proba(rows[:1]) if model.has_probabilities else model.raw_scores(rows[:1])
        )
        label, answer = number(said["models"][name]["page"])
        assert (label, float(answer)) == (str(model.classes_[k]), numbers[0, k]), name
