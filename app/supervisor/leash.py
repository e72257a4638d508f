"""Ties a program to the life of its parent, then becomes that program.

    python -I -S leash.py PARENT_PID PROGRAM ARGUMENTS...

Linux only. The kernel then kills the program when the *thread* that started it ends, whatever way it
ends; the setting outlives `exec`. A function that runs between fork and exec (`preexec_fn`) could do
the same, but may lock up a parent that has threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Set the signal, and become the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # it ended in between
        os._exit(1)
    os.execv(program[0], program)  # noqa: S606  # a fixed list from our own parent


if __name__ == "__main__":
    main()
