"""Anabranch: SQL over streams that do not end.

The package contains the program ``anabranch``. :mod:`anabranch.ray` runs it on a Ray cluster.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from importlib import metadata
from pathlib import Path

from anabranch.errors import AnabranchError, OutsideError, RequestError

__all__ = ["AnabranchError", "OutsideError", "RequestError", "__version__", "program"]

#: Environment variable with the path of the program, if it is not the one of this package.
PROGRAM_VARIABLE = "ANABRANCH_PROGRAM"


def _version() -> str:
    try:
        return metadata.version("anabranch")
    except metadata.PackageNotFoundError:
        return "unknown"


#: The version of the package, which is that of its program; ``unknown`` if the package is used without installing it.
__version__ = _version()


def program() -> Path:
    """Finds the program ``anabranch`` on this machine.

    Returns:
        Its path: the one in the variable ``ANABRANCH_PROGRAM``, else the one installed with this package, else the first
        on the ``PATH``.

    Raises:
        OutsideError: There is none.
    """
    named = os.environ.get(PROGRAM_VARIABLE)
    if named:
        if not os.access(named, os.X_OK):
            raise OutsideError(f"{PROGRAM_VARIABLE}={named}: this is no program", "name an executable file, or unset it")
        return Path(named)
    found = shutil.which("anabranch", path=sysconfig.get_path("scripts")) or shutil.which("anabranch")
    if found is None:
        raise OutsideError("the program anabranch is not installed on this machine", "pip install anabranch")
    return Path(found)
