"""Files that are replaced in one step."""

import contextlib
import os
import secrets
import stat
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


def write(path, data):
    """Replace a file by ``data`` so that, whatever happens, either the old or the new one is there in full.

    The bytes go to a temporary file in the same folder, are forced to the disk, and take the name of ``path`` in one
    step; then the folder is forced to the disk. A symbolic link is followed; the permissions of an existing file are
    kept. What an interrupted earlier save of the same path left behind is removed.

    Parameters
    ----------
    path : str or path-like
    data : bytes

    Raises
    ------
    FileNotFoundError
        If the folder is not there.
    OSError
        If the file cannot be written.
    """
    target = Path(os.path.realpath(os.fsdecode(path)))
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
        check_folder(path)
    if mode is not None and not stat.S_ISREG(mode):
        raise OSError(f"{os.fsdecode(path)} is not a regular file, a model cannot be saved there")
    remove_leftovers(target)
    temporary, file = _temporary(target)
    try:
        try:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file, stat.S_IMODE(mode))
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
            os.fsync(file)
            if fcntl is not None:
                os.replace(temporary, target)
        finally:
            os.close(file)
        if fcntl is None:
            os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if os.name == "posix":
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def check_folder(path, what="file"):
    """Refuse a file to be written into a folder that is not there.

    Parameters
    ----------
    path : str or path-like
    what : str
        What the file is, for the message.

    Raises
    ------
    FileNotFoundError
    """
    name = os.fsdecode(path)
    folder = os.path.dirname(os.path.realpath(name))
    if not os.path.isdir(folder):
        missing = folder if os.path.islink(name) else os.path.dirname(name)
        raise FileNotFoundError(2, f"no such folder for the {what} {name}; make it first", missing)


def _temporary(target):
    """A new file beside ``target`` and its descriptor, locked as long as it is being written."""
    while True:
        name = target.with_name(f"{target.name}.tmp-{secrets.token_hex(6)}")
        try:
            file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        except FileExistsError:
            continue
        if not _lock(file):
            return name, file
        # Another save may have taken the file for a leftover before it was locked.
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(name), os.fstat(file)):
                return name, file
        os.close(file)


def _lock(file):
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_leftovers(target):
    """Remove temporary files of this target that no process is writing (their lock died with the writer)."""
    if fcntl is None:
        return
    prefix = f"{target.name}.tmp-"
    try:
        names = [
            name for name in os.listdir(target.parent) if name.startswith(prefix) and len(name) == len(prefix) + 12
        ]
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError):
            file = os.open(target.with_name(name), os.O_RDWR | os.O_NOFOLLOW)
            try:
                if _lock(file):
                    os.unlink(target.with_name(name))
            finally:
                os.close(file)
