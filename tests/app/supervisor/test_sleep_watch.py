"""Sleep as logind and Windows tell of it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from ctypes import wintypes
from pathlib import Path

import pytest

pytest.importorskip("PySide6.QtCore", exc_type=ImportError)

from app.supervisor.sleep_windows import PowerEvent, WindowsWatch, _PowerFilter, power_event

ROOT = Path(__file__).resolve().parents[3]
POWERBROADCAST = 0x218


@pytest.mark.parametrize(
    ("message", "word", "event"),
    [
        (POWERBROADCAST, 4, PowerEvent.SUSPENDING),
        (POWERBROADCAST, 0x12, PowerEvent.RESUMED),
        (POWERBROADCAST, 7, PowerEvent.RESUMED),
        (POWERBROADCAST, 10, None),  # the battery
        (0x219, 4, None),
    ],
)
def test_windows_messages_are_understood(message, word, event):
    assert power_event(message, word) is event


def test_each_sleep_is_told_once_although_every_window_hears_of_it(qapp):
    watch = WindowsWatch()
    heard = []
    watch.suspending.connect(lambda: heard.append("suspending"))
    watch.resumed.connect(lambda: heard.append("resumed"))
    filter_ = _PowerFilter(watch)
    message = wintypes.MSG()
    address = ctypes.addressof(message)
    for number, word in [(15, 0), *[(POWERBROADCAST, word) for word in (4, 4, 0x12, 7, 0x12)]]:
        message.message, message.wParam = number, word
        assert filter_.nativeEventFilter(b"windows_generic_MSG", address) == (False, 0)
        assert filter_.nativeEventFilter(b"xcb_generic_event_t", 0) == (False, 0)
    assert heard == ["suspending", "resumed"]
    watch.close()


LOGIND = """
import os, sys
from PySide6.QtCore import ClassInfo, QCoreApplication, QObject, QSocketNotifier, Slot
from PySide6.QtDBus import QDBusConnection, QDBusMessage, QDBusUnixFileDescriptor

@ClassInfo({"D-Bus Interface": "org.freedesktop.login1.Manager"})
class Manager(QObject):
    @Slot(str, str, str, str, result="QDBusUnixFileDescriptor")
    def Inhibit(self, what, who, why, mode):
        source, sink = os.pipe()
        notifier = QSocketNotifier(source, QSocketNotifier.Type.Read, self)
        def released():
            notifier.setEnabled(False)
            print("released", flush=True)
        notifier.activated.connect(released)
        print("inhibited", what, who, mode, flush=True)
        given = QDBusUnixFileDescriptor(sink)
        os.close(sink)
        return given

app = QCoreApplication(sys.argv)
bus = QDBusConnection.sessionBus()
manager = Manager()
bus.registerObject("/org/freedesktop/login1", manager, QDBusConnection.RegisterOption.ExportAllSlots)
bus.registerService("org.freedesktop.login1")

def say():
    word = sys.stdin.readline().strip()
    if not word:
        app.quit()
        return
    message = QDBusMessage.createSignal(
        "/org/freedesktop/login1", "org.freedesktop.login1.Manager", "PrepareForSleep"
    )
    message.setArguments([word == "sleep"])
    bus.send(message)

stdin = QSocketNotifier(0, QSocketNotifier.Type.Read)
stdin.activated.connect(say)
print("here", flush=True)
app.exec()
"""
LISTENER = """
import sys
from PySide6.QtCore import QCoreApplication, QSocketNotifier
from app.supervisor.sleep_watch import sleep_watch
app = QCoreApplication(sys.argv)
watch = sleep_watch()
watch.suspending.connect(lambda: (print("suspending", flush=True), watch.allow()))
watch.resumed.connect(lambda: print("resumed", flush=True))
stdin = QSocketNotifier(0, QSocketNotifier.Type.Read)
stdin.activated.connect(app.quit)
print(type(watch).__name__, flush=True)
app.exec()
"""


@pytest.fixture
def start():
    """A function that starts programs; none of them outlives the test."""
    started = []

    def begin(words, bus=""):
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env={
                **os.environ,
                "DBUS_SYSTEM_BUS_ADDRESS": bus,
                "DBUS_SESSION_BUS_ADDRESS": bus,
                "QT_QPA_PLATFORM": "offscreen",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            bufsize=1,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="needs dbus-daemon")
def test_logind_tells_of_sleep_and_waits_until_it_is_allowed(start):
    """With a bus and a logind of the test's own."""
    daemon = start(["dbus-daemon", "--session", "--nofork", "--print-address"])
    bus = daemon.stdout.readline().strip()
    logind = start([sys.executable, "-c", LOGIND], bus)
    assert logind.stdout.readline() == "here\n"
    listener = start([sys.executable, "-c", LISTENER], bus)
    assert listener.stdout.readline() == "LogindWatch\n"
    assert logind.stdout.readline() == "inhibited sleep Stratum delay\n"
    logind.stdin.write("sleep\n")
    assert listener.stdout.readline() == "suspending\n"
    assert logind.stdout.readline() == "released\n"
    logind.stdin.write("wake\n")
    assert listener.stdout.readline() == "resumed\n"
    assert logind.stdout.readline() == "inhibited sleep Stratum delay\n"


@pytest.mark.slow
def test_without_a_bus_nothing_is_heard_and_nothing_fails(start):
    listener = start([sys.executable, "-c", LISTENER], "unix:path=/nonexistent")
    assert listener.stdout.readline() == "SleepWatch\n"
    listener.stdin.close()
    assert listener.wait(60) == 0
    listener.stdin = None
