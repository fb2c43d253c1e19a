# vcpkg install mcb --overlay-ports=examples/vcpkg, in a copy of the sources of pymcboost.
set(VCPKG_BUILD_TYPE release) # headers have no debug form
get_filename_component(root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(include "${root}/pymcboost/include")
file(INSTALL "${include}/mcb.h" "${include}/mcb.hpp" DESTINATION "${CURRENT_PACKAGES_DIR}/include")
# There the files for CMake are two folders from the headers, not one.
file(READ "${include}/cmake/mcb-config.cmake" config)
string(REPLACE "\${CMAKE_CURRENT_LIST_DIR}/.." "\${CMAKE_CURRENT_LIST_DIR}/../../include" config "${config}")
file(WRITE "${CURRENT_PACKAGES_DIR}/share/${PORT}/mcb-config.cmake" "${config}")
file(INSTALL "${include}/cmake/mcb-config-version.cmake" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${root}/LICENSE")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
