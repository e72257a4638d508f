"""Both programs with windows protect themselves before they make any of Qt's objects."""

import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None lasts there by itself")
@pytest.mark.parametrize("package", ["app", "installer.wizard"])
def test_none_is_kept_alive_as_soon_as_the_package_is_imported(package):
    code = f"import sys, {package}; print(min(map(sys.getrefcount, (None, True, False))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 1 << 39
