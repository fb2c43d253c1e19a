"""The headers as a package of Conan 2: `conan create examples/conan`."""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.files import copy

HEADERS = ("mcb.h", "mcb.hpp")


class Mcb(ConanFile):
    """mcb.h and mcb.hpp; the target is mcb::mcb."""

    name = "mcb"
    license = "BSD-3-Clause"
    description = "Scorer of models of pymcboost, a header of C99 and one of C++11"
    topics = ("boosting", "classification", "embedded")
    package_type = "header-library"
    no_copy_source = True

    def set_version(self):
        """That of the package for CMake."""
        text = (self._include / "cmake" / "mcb-config-version.cmake").read_text()
        self.version = re.search(r"PACKAGE_VERSION (\S+)\)", text)[1]

    @property
    def _include(self):
        return Path(self.recipe_folder).parents[1] / "pymcboost" / "include"

    def export_sources(self):
        """Headers and license."""
        for header in HEADERS:
            copy(self, header, self._include, self.export_sources_folder)
        copy(self, "LICENSE", self._include.parents[1], self.export_sources_folder)

    def package(self):
        """Nothing is built."""
        for header in HEADERS:
            copy(self, header, self.source_folder, Path(self.package_folder) / "include")
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")

    def package_id(self):
        """One package for all compilers."""
        self.info.clear()

    def package_info(self):
        """Names as those of mcb-config.cmake and mcb.pc."""
        self.cpp_info.bindirs = self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_file_name", "mcb")
        self.cpp_info.set_property("cmake_target_name", "mcb::mcb")
        self.cpp_info.set_property("pkg_config_name", "mcb")
