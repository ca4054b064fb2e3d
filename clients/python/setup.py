"""Names the wheel after the platform of the library in it; without one, it is for any platform."""

import re
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

LIBRARY = Path(__file__).parent / "fabricast" / "libfabricast.so.0"


class PlatformWheel(bdist_wheel):
    """A wheel for every Python 3, with a library for one platform."""

    def get_tag(self):
        if not LIBRARY.exists():
            return "py3", "none", "any"
        machine = sysconfig.get_platform().rsplit("-", 1)[-1]
        versions = re.findall(rb"GLIBC_2\.(\d+)", LIBRARY.read_bytes())
        newest = max(map(int, versions), default=0)
        return "py3", "none", f"manylinux_2_{newest}_{machine}" if newest else f"linux_{machine}"


setup(cmdclass={"bdist_wheel": PlatformWheel})
