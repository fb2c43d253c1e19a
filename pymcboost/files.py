"""Atomic file writing: at any time, either the old or the new file is complete. Standard library only."""

import contextlib
import errno
import os
import re
import signal
import stat
import threading
import time

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

# Signals that end a process, unless it handles them, without giving Python a chance to clean up.
SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
# Seconds that a new file may be closed before it gets its name, on systems that cannot rename open files.
CLOSED_SECONDS = 60
MARK = ".tmp-"
DIGITS = 12
KINDS = [
    (stat.S_ISDIR, "folder"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
    (stat.S_ISFIFO, "FIFO"),
    (stat.S_ISSOCK, "socket"),
]


def write(path, data, file_kind="model", streams=False):
    """Replace a file by ``data`` so that, whatever happens, either the old or the new file is complete.

    Parameters
    ----------
    path : str, bytes or path-like
        See `replacing`.
    data : bytes-like
    file_kind : str
        What the file is, for messages.
    streams : bool
        Whether devices and FIFOs are written to directly. Otherwise they are refused.

    Raises
    ------
    OSError
        If the file cannot be written; a missing folder is a FileNotFoundError.
    """
    with replacing(path, file_kind, streams) as file:
        write_all(file, data)


def write_all(file, data):
    """Write all bytes to a descriptor, in as many steps as necessary."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


@contextlib.contextmanager
def replacing(path, file_kind="file", streams=False):
    """Descriptor of a new file, which replaces ``path`` at the end of the block, or is removed on failure.

    The new file lies in the same folder under a random name. It is forced to the disk, renamed in one step, and then
    the folder is forced to the disk. A symbolic link is followed; the permissions of an existing file are kept. What
    killed processes have left beside the same path is removed. SIGTERM and SIGHUP leave nothing behind, where the main
    thread writes and nobody else handles them.

    Parameters
    ----------
    path : str, bytes or path-like
    file_kind : str
        What the file is, for messages.
    streams : bool
        Whether character devices and FIFOs are written to directly. Otherwise they are refused; disks always are.

    Yields
    ------
    int
    """
    target, mode = _target(path, file_kind, streams)
    if mode is not None and not stat.S_ISREG(mode):
        file = os.open(path, os.O_WRONLY | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0))
        try:
            yield file
        finally:
            os.close(file)
        return
    remove_leftovers(target)
    with _temporary(target, file_kind) as new:
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(new.file, stat.S_IMODE(mode))
        yield new.file
        os.fsync(new.file)
        if fcntl is None:  # Windows cannot rename an open file
            new.close()
        os.replace(new.name, target)
    _force_folder(os.path.dirname(target))


def check_target(path, file_kind="file", streams=False):
    """Refuse a path to which no file can be written, before doing the work whose result it should hold.

    Refused are folders, devices and FIFOs, names that are too long, and folders that are missing or not writable. A
    file is made in the folder for a moment to find out.

    Parameters
    ----------
    path : str, bytes or path-like
    file_kind : str
        What the file is, for messages.
    streams : bool
        Whether character devices and FIFOs will do.

    Raises
    ------
    OSError
    """
    target, mode = _target(path, file_kind, streams)
    if mode is None or stat.S_ISREG(mode):
        with _temporary(target, file_kind) as new:
            if fcntl is None:
                new.close()
            os.unlink(new.name)


def same_file(path, other):
    """Whether two paths name the same regular file, also through links; for new files, by name."""
    path = os.fsdecode(path)
    other = os.fsdecode(other)
    try:
        status = os.stat(path)
        return stat.S_ISREG(status.st_mode) and os.path.samestat(status, os.stat(other))
    except OSError:
        return not os.path.exists(path) and os.path.realpath(path) == os.path.realpath(other)


def remove(path, magic, file_kind="file"):
    """Remove a file, and leftovers of killed processes beside it, but only files that start with ``magic``.

    Parameters
    ----------
    path : str, bytes or path-like
        A missing file is fine; a symbolic link is followed.
    magic : bytes
        First bytes of a file that may be removed. An empty file may be, too.
    file_kind : str
        What the file is, for messages.

    Raises
    ------
    OSError
        If something else is there, or the file cannot be removed.
    """
    target, mode = _target(path, file_kind)
    remove_leftovers(target)
    if mode is None:
        return
    with open(target, "rb", buffering=0) as file:
        begin = file.read(len(magic))
    if begin not in (b"", magic):
        raise OSError(
            errno.EINVAL, f"is not a {file_kind}, so it is not removed", os.fsdecode(path)
        )
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target)


def remove_leftovers(target):
    """Remove temporary files of this target that no process is writing; the lock of a dead writer is gone.

    Only regular files of this user whose name has exactly the form used by `replacing`. Windows cannot remove an open
    file, so no lock is needed there; files that a writer has just closed to rename them are left alone.
    """
    folder, name = os.path.split(os.fsdecode(target))
    pattern = re.compile(re.escape(_stem(folder, name)) + re.escape(MARK) + f"[0-9a-f]{{{DIGITS}}}")
    with contextlib.suppress(OSError):
        for other in os.listdir(folder or "."):
            if pattern.fullmatch(other):
                _remove_leftover(os.path.join(folder, other))


def _remove_leftover(path):
    """Remove a temporary file if no process is writing it."""
    with contextlib.suppress(OSError):
        if fcntl is None:
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > CLOSED_SECONDS:
                os.unlink(path)
            return
        # O_NONBLOCK, because a FIFO with that name must not block.
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            status = os.fstat(file)
            is_regular = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
            is_ours = is_regular and status.st_uid == os.geteuid()
            if is_ours and _lock(file) and os.path.samestat(status, os.lstat(path)):
                os.unlink(path)
        finally:
            os.close(file)


def _target(path, file_kind, streams=False):
    """Target of a path and the mode of the file there, None if there is none; refuses what cannot be replaced."""
    name = os.fsdecode(path)
    try:
        mode = os.stat(name).st_mode
    except FileNotFoundError:
        mode = None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise OSError(
                error.errno, f"the name of the {file_kind} is too long for this file system", name
            ) from None
        raise
    if mode is not None and not stat.S_ISREG(mode):
        kind = next((kind for test, kind in KINDS if test(mode)), "special file")
        if kind == "folder":
            article = "an" if file_kind[0] in "aeiou" else "a"
            raise IsADirectoryError(errno.EISDIR, f"is a folder, not {article} {file_kind}", name)
        if not streams or stat.S_ISBLK(mode):
            raise OSError(
                errno.EINVAL,
                f"is a {kind}, not a regular file; no {file_kind} can be saved there",
                name,
            )
    if mode is None:
        if not os.path.basename(name):
            raise FileNotFoundError(
                errno.ENOENT, f"the name of the {file_kind} is empty or ends in a slash", name
            )
        folder = os.path.dirname(os.path.realpath(name))
        if not os.path.isdir(folder):
            missing = folder if os.path.islink(name) else os.path.dirname(name)
            raise FileNotFoundError(
                errno.ENOENT,
                f"the folder for the {file_kind} {name} does not exist; create it first",
                missing,
            )
    return os.path.realpath(name), mode


def _stem(folder, name):
    """Start of a temporary name: the file's own name, shortened if the result would be too long."""
    try:
        limit = os.pathconf(folder or ".", "PC_NAME_MAX")
    except (OSError, ValueError, AttributeError):
        limit = 255
    while len(os.fsencode(name)) + len(MARK) + DIGITS > limit:
        name = name[:-1]
    return name


class _New:
    """A new file beside another: its name, None if it is not ours, and its descriptor, -1 if it is not open."""

    def __init__(self):
        self.name = None
        self.file = -1

    def create(self, stem, file_kind):
        """Create and lock a file with a random name; return False if another name is needed."""
        self.name = f"{stem}{MARK}{os.urandom(DIGITS // 2).hex()}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        try:
            self.file = os.open(self.name, flags, 0o666)
        except OSError as error:
            self.name = None
            if isinstance(error, FileExistsError):
                return False
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                words = f"cannot write the {file_kind} into this folder: {error.strerror}"
                raise OSError(error.errno, words, os.path.dirname(stem)) from None
            raise
        locked = _lock(self.file)
        if locked is None:
            return True
        # Until we have the lock, another process may remove the file as a leftover.
        with contextlib.suppress(FileNotFoundError):
            if locked and os.path.samestat(os.stat(self.name), os.fstat(self.file)):
                return True
        self.close()
        return False

    def close(self):
        """Close the file, which releases its lock."""
        if self.file >= 0:
            file = self.file
            self.file = -1
            os.close(file)

    def remove(self):
        """Remove the file, if it still exists under its own name."""
        if self.name is not None:
            if fcntl is None:  # Windows cannot remove an open file
                self.close()
            with contextlib.suppress(OSError):
                os.unlink(self.name)


@contextlib.contextmanager
def _temporary(target, file_kind):
    """Create a file beside ``target``, locked as long as it is open; removed if the block fails."""
    folder, name = os.path.split(target)
    stem = os.path.join(folder, _stem(folder, name))
    new = _New()
    with _cleared_by_signals(new):
        try:
            while not new.create(stem, file_kind):
                pass
            yield new
        except BaseException:
            new.remove()
            raise
        finally:
            new.close()


def _lock(file):
    """Take the file's lock: True, False if another process has it, or None if locks are not supported."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextlib.contextmanager
def _cleared_by_signals(new):
    """Context in which a signal that ends the process first removes the new file."""
    process = os.getpid()
    taken = []

    def end(number, frame):
        if os.getpid() == process:
            new.remove()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    try:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # Existing handlers, and ignored signals, stay.
                if signal.getsignal(number) == signal.SIG_DFL:
                    with contextlib.suppress(ValueError):  # not allowed in a second interpreter
                        signal.signal(number, end)
                        taken.append(number)
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _force_folder(folder):
    """Force the names in a folder to the disk."""
    if os.name != "posix":
        return
    try:
        file = os.open(folder, os.O_RDONLY)
    except PermissionError:  # a folder that can be written but not read
        return
    try:
        os.fsync(file)
    finally:
        os.close(file)
