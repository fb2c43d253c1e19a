"""Hides from pymcboost what Windows does not have; ``pytest --without-posix`` puts this folder on PYTHONPATH.

Python loads a file of this name when it starts, so that programs which tests start are changed, too. Only modules of
the package see the change: their import statements get an ``os`` and a ``signal`` that lack names, and no ``fcntl``.
Files below /proc and /sys are not there. A file that is open cannot be renamed or removed. A text file that is opened
without its encoding is an error, since the default depends on the system. Symbolic links, FIFOs and devices stay.
"""

import builtins
import errno
import io
import os
import signal
import sys
from types import ModuleType

MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
NAMES = {
    "os": """
        chown chroot confstr ctermid fchdir fchmod fchown fork forkpty fpathconf fstatvfs getegid geteuid getgid
        getgroups getloadavg getlogin getpgid getpgrp getpriority getrandom getsid getuid initgroups killpg lchown
        lockf memfd_create mkfifo mknod nice openpty pathconf pipe2 posix_fadvise posix_fallocate posix_spawn pread
        preadv pwrite pwritev readv register_at_fork sched_getaffinity sched_setaffinity sched_yield sendfile
        setpriority setsid statvfs sync sysconf ttyname uname wait waitid writev
        O_ASYNC O_CLOEXEC O_DIRECTORY O_DIRECT O_DSYNC O_NDELAY O_NOATIME O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH O_SYNC
        O_TMPFILE
    """.split(),
    "signal": """
        SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH SIGXCPU
        alarm pause pthread_kill pthread_sigmask setitimer siginterrupt sigwait
    """.split(),
}


class Module(ModuleType):
    """A module without some names."""

    def __init__(self, module, hidden, **changed):
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(changed)
        self.__dict__["_real"], self.__dict__["_hidden"] = module, frozenset(hidden)

    def __getattr__(self, name):
        if name in self._hidden:
            raise AttributeError(f"without POSIX, {self.__name__} has no {name}")
        return getattr(self._real, name)


def is_open(path):
    """Whether this process has the file open or mapped."""
    name = os.path.realpath(path)
    links = [
        f"/proc/self/{kind}/{link}"
        for kind in ("fd", "map_files")
        for link in os.listdir(f"/proc/self/{kind}")
    ]
    return any(os.path.realpath(link) == name for link in links)


def closed(name):
    """A function of ``os`` that refuses an open file as its first argument."""

    def checked(path, *more, **options):
        if is_open(path):
            raise PermissionError(
                errno.EACCES, "without POSIX, an open file is neither renamed nor removed", path
            )
        return getattr(os, name)(path, *more, **options)  # a test may have changed it

    return checked


def is_of_linux(path):
    """Whether a path leads below /proc or /sys."""
    return isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(
        ("/proc/", "/sys/")
    )


def listdir(path="."):
    """``os.listdir`` without /proc and /sys."""
    if is_of_linux(path):
        raise FileNotFoundError(errno.ENOENT, "without POSIX, there is no such folder", path)
    return os.listdir(path)


CLOSED = {name: closed(name) for name in ("rename", "replace", "remove", "unlink")}
MADE = {
    "os": Module(os, NAMES["os"], name="nt", listdir=listdir, **CLOSED),
    "signal": Module(signal, NAMES["signal"]),
}
import_module = builtins.__import__
open_file = io.open


def import_without_posix(name, globals=None, locals=None, fromlist=(), level=0):
    """The import statement: a module of the package gets the modules above."""
    if (
        level == 0
        and globals is not None
        and str(globals.get("__name__")).partition(".")[0] == "pymcboost"
    ):
        if name in MODULES:
            raise ImportError(f"without POSIX, there is no {name}", name=name)
        if name in MADE:
            return MADE[name]
    return import_module(name, globals, locals, fromlist, level)


def open_without_posix(file, mode="r", buffering=-1, encoding=None, *more, **options):
    """``open`` for the package, directly or by way of pathlib."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").partition(".")[0] == "pathlib":
        frame = frame.f_back
    if frame.f_globals.get("__name__", "").partition(".")[0] == "pymcboost":
        if is_of_linux(file):
            raise FileNotFoundError(errno.ENOENT, "without POSIX, there is no such file", file)
        if "b" not in mode and encoding in (None, "locale") and file != os.devnull:
            raise AssertionError(f"{file}: a text file is opened without its encoding")
    return open_file(file, mode, buffering, encoding, *more, **options)


builtins.__import__ = import_without_posix
builtins.open = io.open = open_without_posix
