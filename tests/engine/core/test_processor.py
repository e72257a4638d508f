"""A processor that is too old is told before anything is loaded."""

from __future__ import annotations

import logging

import pytest

from engine.cli import main
from engine.commands import doctor
from engine.core import processor
from engine.core.config import BUNDLED_MODEL, OpsName, RunConfig
from engine.core.errors import ConfigError
from engine.core.processor import missing_feature, processor_notice, warn_of_processor
from engine.kernels.library import load_library

OLD = "flags\t\t: fpu sse4_2 avx fma f16c\n"
NEW = "flags\t\t: fpu sse4_2 avx avx2 bmi1 fma f16c\n"


@pytest.fixture
def old(monkeypatch):
    """This machine with an old processor."""
    monkeypatch.setattr(processor, "_has_avx2", lambda: False)
    monkeypatch.setattr(processor, "architecture", lambda: "x86_64")


def test_the_system_and_the_kernel_library_agree_on_this_machine():
    assert (missing_feature() == "") == bool(load_library().variants)


@pytest.mark.parametrize(("text", "wanted"), [(OLD, False), (NEW, True), ("model name: x\n", True)])
def test_flags_are_read_from_the_system(tmp_path, monkeypatch, text, wanted):
    monkeypatch.setattr(processor.sys, "platform", "linux")
    monkeypatch.setattr(processor, "_CPUINFO", tmp_path / "cpuinfo")
    assert processor._has_avx2()  # nothing to read: the library decides
    (tmp_path / "cpuinfo").write_text("processor: 0\n" + text)
    assert processor._has_avx2() is wanted


def test_another_kind_of_processor_is_named(monkeypatch):
    monkeypatch.setattr(processor, "architecture", lambda: "aarch64")
    assert "no x86-64 processor (it is aarch64)" in processor_notice(OpsName.AUTO)


@pytest.mark.usefixtures("old")
def test_auto_gives_a_notice_reference_none_and_host_is_refused(caplog):
    warn_of_processor(RunConfig(ops=OpsName.REFERENCE))
    assert caplog.text == ""
    warn_of_processor(RunConfig(ops=OpsName.AUTO))
    assert "has no AVX2" in caplog.text
    assert "--ops reference" in caplog.text
    with pytest.raises(ConfigError, match="Take --ops reference"):
        warn_of_processor(RunConfig(ops=OpsName.HOST))


@pytest.mark.usefixtures("old")
@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--port", "0"),
        ("run", "--prompt", "hello"),
        ("bench",),
        ("inspect", str(BUNDLED_MODEL)),
    ],
)
def test_every_command_says_it_before_loading(words, capsys, caplog, monkeypatch, tmp_path):
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path))
    level = logging.getLogger("engine").level
    assert main([*words, "--ops", "host", "--model", "no such model.gguf"]) == 2
    assert "no AVX2" in capsys.readouterr().err
    caplog.clear()
    # Otherwise the notice comes first, then what else is wrong; inspect has nothing against it.
    status = main([*words, "--model", "no such model.gguf"])
    assert status == (0 if words[0] == "inspect" else 2)
    assert "no AVX2" in caplog.text
    logging.getLogger("engine").setLevel(level)


@pytest.mark.usefixtures("old")
def test_the_doctor_says_it():
    finding = doctor.check_machine()[0]
    assert finding.health is doctor.Health.WARNING
    assert "has no AVX2" in finding.detail
