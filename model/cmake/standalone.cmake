# SPDX-License-Identifier: GPL-2.0-only
# Builds the module outside an ns-3 tree, against an installed ns-3.

list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
find_package(Ns3 3.43 REQUIRED COMPONENTS core network stats traffic-control internet
                                          point-to-point applications)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(ccache ccache)
if(ccache)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ccache})
endif()

# headers are included as <ns3/…>, as in an ns-3 tree
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include/ns3)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include/ns3)
foreach(header ${header_files})
  get_filename_component(name ${header} NAME)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${header} ${PROJECT_BINARY_DIR}/include/ns3/${name}
       SYMBOLIC)
endforeach()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include/ns3)

add_library(nvme-mptcp SHARED ${source_files})
target_include_directories(nvme-mptcp PUBLIC ${PROJECT_BINARY_DIR}/include)
target_compile_options(nvme-mptcp PRIVATE -Wall -Wextra)
target_link_libraries(
  nvme-mptcp PUBLIC Ns3::core Ns3::network Ns3::stats Ns3::traffic-control Ns3::internet
                    Ns3::point-to-point Ns3::applications
)

# ns-3's test runner, with this module's suites alone
add_executable(nvme-mptcp-test ${test_sources} cmake/test-runner.cc)
target_link_libraries(nvme-mptcp-test PRIVATE nvme-mptcp)
target_compile_options(nvme-mptcp-test PRIVATE -Wall -Wextra)

# the tables of doc/attributes.rst
add_executable(nvme-mptcp-attributes cmake/print-attributes.cc)
target_link_libraries(nvme-mptcp-attributes PRIVATE -Wl,--no-as-needed nvme-mptcp)
target_compile_options(nvme-mptcp-attributes PRIVATE -Wall -Wextra)

# as ns-3's macro of this name, for examples/CMakeLists.txt
function(build_lib_example)
  cmake_parse_arguments(EXAMPLE "" "NAME" "SOURCE_FILES;LIBRARIES_TO_LINK" ${ARGN})
  add_executable(${EXAMPLE_NAME} ${EXAMPLE_SOURCE_FILES})
  target_link_libraries(${EXAMPLE_NAME} PRIVATE nvme-mptcp)
  target_compile_options(${EXAMPLE_NAME} PRIVATE -Wall -Wextra)
  set_target_properties(
    ${EXAMPLE_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
  )
endfunction()
if(EXISTS ${PROJECT_SOURCE_DIR}/examples/CMakeLists.txt)
  add_subdirectory(examples)
endif()
