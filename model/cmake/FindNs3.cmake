# SPDX-License-Identifier: GPL-2.0-only
# Finds an installed ns-3, 3.43 or later: `Ns3::core`, `Ns3::internet` and so on.
#
# The configuration files that ns-3 installs name the paths of the machine that built it, so they
# are of no use where ns-3 came as a Python wheel or a distribution's package. Looks in NS3_ROOT,
# then where `python3 -m pip install ns3` puts it.

find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_FOUND)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_path('purelib'))"
    OUTPUT_VARIABLE ns3_site OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
  )
endif()

find_path(
  Ns3_INCLUDE_DIR ns3/tcp-socket-base.h
  HINTS ${NS3_ROOT} ${ns3_site}/ns3
  PATH_SUFFIXES include
)
file(GLOB ns3_core ${Ns3_INCLUDE_DIR}/../lib*/libns3*-core*.so
     ${Ns3_INCLUDE_DIR}/../lib/*/libns3*-core*.so)
list(LENGTH ns3_core ns3_count)
if(ns3_count GREATER_EQUAL 1)
  list(GET ns3_core 0 Ns3_CORE_LIBRARY)
  string(REGEX MATCH "libns([0-9]+[.][0-9]+)" ns3_match ${Ns3_CORE_LIBRARY})
  set(Ns3_VERSION ${CMAKE_MATCH_1})
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  Ns3
  REQUIRED_VARS Ns3_CORE_LIBRARY Ns3_INCLUDE_DIR
  VERSION_VAR Ns3_VERSION
  REASON_FAILURE_MESSAGE "no ns-3 found: run `make model`, or set NS3_ROOT to where ns-3 is installed"
)

if(Ns3_FOUND AND NOT TARGET Ns3::core)
  foreach(component ${Ns3_FIND_COMPONENTS})
    string(REPLACE -core -${component} ns3_library ${Ns3_CORE_LIBRARY})
    add_library(Ns3::${component} SHARED IMPORTED)
    set_target_properties(
      Ns3::${component} PROPERTIES IMPORTED_LOCATION ${ns3_library}
                                   INTERFACE_INCLUDE_DIRECTORIES ${Ns3_INCLUDE_DIR}
    )
    # as the installed libraries were built: virtual tables and inline functions depend on it
    target_compile_definitions(Ns3::${component} INTERFACE NS3_LOG_ENABLE NS3_ASSERT_ENABLE)
    target_compile_features(Ns3::${component} INTERFACE cxx_std_20)
  endforeach()
endif()
