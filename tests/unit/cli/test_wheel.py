"""The package as pip installs it: a wheel, in a virtual environment that knows no checkout."""

import os
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tailrace import __version__

CHECKOUT = Path(__file__).parents[3]
BUILD_FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")
NO_COMPILER = {"CC": shutil.which("false") or "false"}
TIMEOUT_S = 600

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * TIMEOUT_S)]


def build_wheel(folder: Path, environment: dict[str, str]) -> Path:
    """Build a wheel from a copy of the sources, without what earlier builds have left among them."""
    tree = folder / "tree"
    ignored = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")
    shutil.copytree(CHECKOUT / "src", tree / "src", ignore=ignored)
    for name in BUILD_FILES:
        shutil.copy(CHECKOUT / name, tree / name)
    options = ("--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "--no-index")
    command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder / "dist"), "."]
    subprocess.run(command, cwd=tree, env=outside() | environment, check=True, timeout=TIMEOUT_S)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def outside() -> dict[str, str]:
    """Return the environment without the paths of the tests: pip installs nothing that it finds on them."""
    return {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}


class Installed:
    """An environment in which only the wheel is installed; its dependencies are those of the tests."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        venv.create(folder, with_pip=False)
        self._bin = folder / "bin"
        (packages,) = folder.glob("lib/python*/site-packages")
        # A path file in a path file is not read, so the checkout that the tests run from is not found.
        (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
        pip = [sys.executable, "-m", "pip", "--python", str(self._bin / "python"), "install", "--quiet"]
        options = ("--no-deps", "--no-index", "--disable-pip-version-check")
        subprocess.run([*pip, *options, str(wheel)], env=outside(), check=True, timeout=TIMEOUT_S)

    def run(self, *arguments: str) -> str:
        """Run the program `tailrace`, and return what it prints."""
        done = subprocess.run(
            [self._bin / "tailrace", *arguments],
            capture_output=True,
            text=True,
            cwd=self._bin,
            env=outside(),
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def pure_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("pure"), NO_COMPILER)


def test_a_wheel_without_the_native_module_is_tagged_for_every_platform(pure_wheel: Path, tmp_path: Path) -> None:
    """It was tagged as the native wheel of its platform, and was as slow as Python."""
    assert pure_wheel.name == f"tailrace-{__version__}-py3-none-any.whl"
    told = Installed(tmp_path / "venv", pure_wheel).run("--version")
    assert told.startswith(f"tailrace {__version__} (pure Python: the native module was not built")


def test_a_wheel_with_the_native_module_is_tagged_for_its_platform(tmp_path: Path) -> None:
    if shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("there is no C compiler")
    wheel = build_wheel(tmp_path, {})
    assert not wheel.name.endswith("-none-any.whl")
    assert Installed(tmp_path / "venv", wheel).run("--version") == f"tailrace {__version__}\n"


@pytest.mark.parametrize("options", [["--no-spark", "--for", "1s"], ["--for", "3s", "--master", "local[2]"]])
def test_the_demo_runs_without_a_checkout(pure_wheel: Path, tmp_path: Path, options: list[str]) -> None:
    """It was no command, and its pipeline was not in the package."""
    if "--no-spark" not in options:
        pytest.importorskip("pyspark", reason="pyspark is not installed")
    told = Installed(tmp_path / "venv", pure_wheel).run("demo", *options)
    assert "every acknowledged event was read" in told.splitlines()[-1]
