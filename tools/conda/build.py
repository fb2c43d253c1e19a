"""Build the package of recipe.yaml with rattler-build, and run its tests.

    pip install py-rattler-build packaging
    python tools/conda/build.py --out dist                        # with the packages of this environment
    python tools/conda/build.py --out dist --channel conda-forge  # with those of a channel

The first needs no channel: it makes one, in which a package is a link to what is installed in this environment, with
its version and what it depends on, and Python a link to its interpreter. Compiler and C library are those of the
machine. So the recipe is rendered, solved, built and tested as it is, but not with a channel's compiler and libraries.
"""

import argparse
import hashlib
import importlib.metadata
import json
import platform
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement

HERE = Path(__file__).resolve().parent
PLATFORM = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}[platform.machine()]
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
# What a package of conda is beside the one of its name, and without any files here.
EMPTY = "_openmp_mutex", f"gcc_{PLATFORM}", f"sysroot_{PLATFORM}"
REQUIRED = "pip", "setuptools", "cython", "numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "tqdm"


def link(to, path):
    """A link at a path whose folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)


def python_package(folder):
    """An environment of this interpreter, without packages."""
    link(Path(sys.executable).resolve(), folder / "bin" / "python")
    link("python", folder / "bin" / PYTHON)
    packages = folder / "lib" / PYTHON / "site-packages"
    packages.mkdir(parents=True)
    (packages / "README.txt").write_text("Where packages are installed.\n")
    home = Path(sys.base_prefix, "bin")
    (folder / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")


def library_package(found, folder):
    """Links to the files of a distribution; the names of those that it needs."""
    there = Path(found.locate_file("")).resolve()
    for top in {file.parts[0] for file in found.files} - {"..", "__pycache__"}:
        link(there / top, folder / "lib" / PYTHON / "site-packages" / top)
    needed = map(Requirement, found.requires or ())
    return [one for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]


def make_channel(folder):
    """A channel of this environment's packages."""
    from rattler_build import assemble_package

    todo, done, index = list(REQUIRED), set(), {}

    def pack(name, version, files, depends):
        (files / "share").mkdir(parents=True, exist_ok=True)
        (files / "share" / f"{name}.txt").write_text("Of this environment.\n")
        of_it = {"depends": depends, "build_number": 0}
        packed = assemble_package(name, version, PLATFORM, "0", folder / PLATFORM, files_dir=files, **of_it)
        kept = packed.path.read_bytes()
        index[packed.path.name] = {
            "name": name, "version": version, "build": "0", "subdir": PLATFORM, **of_it,
            "sha256": hashlib.sha256(kept).hexdigest(), "size": len(kept),
        }  # fmt: skip

    for name in EMPTY:
        with tempfile.TemporaryDirectory() as files:
            pack(name, "2.17", Path(files), [])
    with tempfile.TemporaryDirectory() as files:
        python_package(Path(files))
        pack("python", platform.python_version(), Path(files), [])
    while todo:
        name = todo.pop()
        if name in done:
            continue
        done.add(name)
        found = importlib.metadata.distribution(name)
        with tempfile.TemporaryDirectory() as files:
            needed = library_package(found, Path(files))
            depends = [f"{one.name.lower()} {one.specifier}".strip() for one in needed]
            pack(name, found.version, Path(files), [f"python {PYTHON[6:]}.*", *depends])
        todo += [one.name.lower() for one in needed]
    for place, packages in ((PLATFORM, index), ("noarch", {})):
        (folder / place).mkdir(exist_ok=True)
        known = {"info": {"subdir": place}, "packages": {}, "packages.conda": packages, "repodata_version": 1}
        (folder / place / "repodata.json").write_text(json.dumps(known))
    return folder.as_uri()


def main(argv=None):
    """Render, build and test."""
    from rattler_build import Stage0Recipe, ToolConfiguration, VariantConfig
    from rattler_build.progress import SimpleProgressCallback

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="dist", help="folder of the package")
    parser.add_argument("--channel", help="a channel's name or address; without it, the packages of this environment")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        channel = args.channel or make_channel(Path(folder) / "channel")
        variants = VariantConfig({"python": [PYTHON[6:] + ".*"], "c_compiler": ["gcc"], "c_stdlib": ["sysroot"]})
        for variant in Stage0Recipe.from_file(HERE / "recipe.yaml").render(variants):
            print(variant.recipe.package.name, variant.recipe.package.version, variant.variant, flush=True)
            built = variant.run_build(
                tool_config=ToolConfiguration(test_strategy="native"),
                output_dir=args.out,
                channels=[channel],
                progress_callback=SimpleProgressCallback(),
            )
            print(*built.packages, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
