# find_package(mcb CONFIG) gives the target mcb::mcb: the folder of mcb.h and mcb.hpp, and C99.
# Python finds this file: cmake -Dmcb_DIR="$(python -m pymcboost --cmake)"
get_filename_component(mcb_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
if(NOT EXISTS "${mcb_INCLUDE_DIR}/mcb.h")
  set(mcb_FOUND FALSE)
  set(mcb_NOT_FOUND_MESSAGE "mcb.h is not in ${mcb_INCLUDE_DIR}, above the folder of mcb-config.cmake; install pymcboost again")
  return()
endif()
if(NOT TARGET mcb::mcb)
  add_library(mcb::mcb INTERFACE IMPORTED)
  set_target_properties(mcb::mcb PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${mcb_INCLUDE_DIR}"
    INTERFACE_COMPILE_FEATURES c_std_99)
endif()
set(mcb_FOUND TRUE)
