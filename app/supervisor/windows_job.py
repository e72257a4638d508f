"""Windows' Job object: processes that end together, and with the one who holds the job.

Other systems have none; there `Job` raises OSError. Only ctypes is needed, so a plain Windows Python
can run this file.
"""

from __future__ import annotations

import ctypes
import sys

_EXTENDED_LIMITS = 9  # JobObjectExtendedLimitInformation
_ACCOUNTING = 1  # JobObjectBasicAccountingInformation
_KILL_ON_JOB_CLOSE = 0x2000
_PROCESS_TERMINATE = 0x0001
_PROCESS_SET_QUOTA = 0x0100
_PROCESS_SUSPEND_RESUME = 0x0800
_ENDED_BY_US = 1

# A process that begins so does nothing before it is in its job (subprocess has no name for it).
CREATE_SUSPENDED = 0x00000004


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("per_process_time", ctypes.c_int64),
        ("per_job_time", ctypes.c_int64),
        ("flags", ctypes.c_uint32),
        ("min_working_set", ctypes.c_size_t),
        ("max_working_set", ctypes.c_size_t),
        ("max_processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority", ctypes.c_uint32),
        ("scheduling", ctypes.c_uint32),
    )


class _IoCounters(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("reads", "writes", "others", "read_bytes", "written_bytes", "other_bytes")
    )


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("basic", _BasicLimits),
        ("io", _IoCounters),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    )


class Accounting(ctypes.Structure):
    """JOBOBJECT_BASIC_ACCOUNTING_INFORMATION."""

    _fields_ = (
        ("user_time", ctypes.c_int64),
        ("kernel_time", ctypes.c_int64),
        ("period_user_time", ctypes.c_int64),
        ("period_kernel_time", ctypes.c_int64),
        ("page_faults", ctypes.c_uint32),
        ("num_total", ctypes.c_uint32),
        ("num_active", ctypes.c_uint32),
        ("num_terminated", ctypes.c_uint32),
    )


def ending_limits() -> ExtendedLimits:
    """Limits that end all processes of a job with its last handle, and nothing else."""
    limits = ExtendedLimits()
    limits.basic.flags = _KILL_ON_JOB_CLOSE
    return limits


class Job:
    """One Job object.

    Raises:
        OSError: this system has none, or refuses one.
    """

    def __init__(self) -> None:
        self._handle: int | None = None
        if sys.platform == "win32":
            self._kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            self._kernel.CreateJobObjectW.restype = ctypes.c_void_p
            self._kernel.OpenProcess.restype = ctypes.c_void_p
            # Without attributes the handle is not inherited: no child keeps the job alive.
            self._handle = self._kernel.CreateJobObjectW(None, None)
            if not self._handle:
                raise _last_error("a Job object cannot be made")
            limits = ending_limits()
            done = self._kernel.SetInformationJobObject(
                ctypes.c_void_p(self._handle),
                _EXTENDED_LIMITS,
                ctypes.byref(limits),
                ctypes.sizeof(limits),
            )
            if not done:
                error = _last_error("a Job object cannot be limited")
                self.close()
                raise error
        else:
            raise OSError("only Windows has Job objects")

    def take(self, pid: int) -> None:
        """Put a process that was started suspended into the job, and let it run.

        Raises:
            OSError: that is not possible.
        """
        if sys.platform == "win32":
            rights = _PROCESS_SET_QUOTA | _PROCESS_TERMINATE | _PROCESS_SUSPEND_RESUME
            process = self._kernel.OpenProcess(rights, 0, pid)
            if not process:
                raise _last_error(f"process {pid} cannot be opened")
            try:
                if not self._kernel.AssignProcessToJobObject(
                    ctypes.c_void_p(self._handle), ctypes.c_void_p(process)
                ):
                    raise _last_error(f"process {pid} cannot be put into a Job object")
                status = ctypes.WinDLL("ntdll").NtResumeProcess(ctypes.c_void_p(process))
                if status:
                    code = status & 0xFFFFFFFF
                    raise OSError(f"process {pid} cannot be resumed (status {code:#x})")
            finally:
                self._kernel.CloseHandle(ctypes.c_void_p(process))

    def num_processes(self) -> int:
        """How many of its processes live; 0 when that cannot be asked any more."""
        if sys.platform == "win32" and self._handle:
            accounting = Accounting()
            done = self._kernel.QueryInformationJobObject(
                ctypes.c_void_p(self._handle),
                _ACCOUNTING,
                ctypes.byref(accounting),
                ctypes.sizeof(accounting),
                None,
            )
            return int(accounting.num_active) if done else 0
        return 0

    def terminate(self) -> None:
        """End all of its processes at once."""
        if sys.platform == "win32" and self._handle:
            self._kernel.TerminateJobObject(ctypes.c_void_p(self._handle), _ENDED_BY_US)

    def close(self) -> None:
        """Close the handle; what still lives in the job ends."""
        if sys.platform == "win32" and self._handle:
            self._kernel.CloseHandle(ctypes.c_void_p(self._handle))
        self._handle = None


def _last_error(what: str) -> OSError:
    if sys.platform == "win32":
        number = ctypes.get_last_error()
        return OSError(number, f"{what}: {ctypes.FormatError(number)}")
    return OSError(what)
