"""Reading a pipeline file: it is run as a module, and the flows that it declares are collected."""

import importlib.util
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from runnel.spark.pipeline.error import PipelineError
from runnel.spark.pipeline.flow import Flow, collect_flows

_NO_SESSION = "SESSION_OR_CONTEXT_NOT_EXISTS"


class NeedsSession(PipelineError):  # noqa: N818 - it is no mistake of the user
    """The file uses Spark while it is read, for a type of a function or a column, so that must run first."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A file and the flows in it. `module` is what the file became."""

    path: Path
    flows: tuple[Flow, ...]
    module: ModuleType


def load_pipeline(path: Path) -> Pipeline:
    """Run a file and collect its flows; raises `PipelineError` with the line that is to blame.

    Most files need no Spark to be read, and are checked before it starts; `NeedsSession` tells of others.
    """
    path = Path(os.path.abspath(path))  # not resolved: a link has its own name and its own checkpoints
    if not path.is_file():
        raise PipelineError(f"{path}: there is no such file")
    name = f"runnel_pipeline_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PipelineError(f"{path}: a pipeline is a Python file, and its name ends with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where functions that are sent to workers look for their module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # as for a script, so that it can import its neighbours
    with collect_flows() as flows:
        try:
            spec.loader.exec_module(module)
        except SystemExit:
            raise PipelineError(f"{path.name}: the file ends the program instead of declaring flows") from None
        except Exception as error:
            kind = NeedsSession if _NO_SESSION in str(error) else PipelineError
            raise kind(f"{blame(path, error)}: {_describe(error)}") from None
    if not flows:
        raise PipelineError(f"{path.name}: there are no flows in it; declare one with @flow(source=…, sink=…)")
    return Pipeline(path, tuple(flows), module)


def blame(path: Path, error: BaseException) -> str:
    """The file and the last line of it that an error went through."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path.name}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path.name}:{lines[-1]}" if lines else path.name


def _describe(error: Exception) -> str:
    if isinstance(error, PipelineError):
        return str(error)
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return " ".join(f"{type(error).__name__}: {text}".split())
