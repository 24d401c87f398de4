# `cpack -G DEB` in the build folder creates two Debian packages:
#   lockstep         the command, its man pages and completion
#   liblockstep-dev  headers, static and shared libraries, the CMake package, lockstep.pc
# They need the libtorch of the Debian release on which they were built.
if(LOCKSTEP_TORCH OR LOCKSTEP_DEPENDENCIES OR NOT LOCKSTEP_APPS OR NOT EXISTS /etc/debian_version)
  return()  # a package can only depend on packages in Debian
endif()

foreach(package IN ITEMS command:lockstep development:liblockstep-dev)
  string(REPLACE ":" ";" package ${package})
  list(GET package 0 component)
  list(GET package 1 name)
  set(documents ${CMAKE_INSTALL_DATADIR}/doc/${name})
  install(FILES packaging/copyright DESTINATION ${documents} COMPONENT ${component})
  install(FILES CHANGELOG.md DESTINATION ${documents} COMPONENT ${component} RENAME changelog)
endforeach()

set(LOCKSTEP_MAINTAINER "Lockstep maintainers <maintainers@lockstep.invalid>" CACHE STRING
    "Maintainer of the Debian packages")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package's description begins with its own summary
set(CPACK_PACKAGE_CONTACT ${LOCKSTEP_MAINTAINER})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL command development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
# The programs stay unstripped: backtraces take function names from their symbol tables.
set(CPACK_STRIP_FILES OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/LockstepPackageFiles.cmake)

# OpenBLAS is several times faster than the libblas3 that libtorch would pull in, and its OpenMP build shares libtorch's threads.
# The fonts are for `generate captcha` and for text on images.
set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME lockstep)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS "libopenblas0-openmp, fonts-dejavu-core")
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SUGGESTS "liblockstep-dev, libucx0")
set(CPACK_COMPONENT_COMMAND_DESCRIPTION
    "distributed data-parallel training (command)
Lockstep trains on several processes, GPUs or machines with the same bits as
on one. The command starts and watches the ranks of programs, trains, evaluates
and uses the recipes that come with it (captchas, detection, segmentation,
captioning), and inspects and converts checkpoints.")

string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" torch "${LOCKSTEP_TORCH_VERSION}")
math(EXPR next "${CMAKE_MATCH_2} + 1")
set(development libopenblas0-openmp libfmt-dev nlohmann-json3-dev "libtorch-dev (>= ${torch})"
    "libtorch-dev (<< ${CMAKE_MATCH_1}.${next}~)")
foreach(library IN LISTS LOCKSTEP_CORE_LIBRARIES LOCKSTEP_TRAIN_LIBRARIES)
  list(APPEND development ${lockstep_package_${library}})
endforeach()
list(JOIN development ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME liblockstep-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "g++, cmake, ninja-build")  # needed by a project from `lockstep new`
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "lockstep, libucx0")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "distributed data-parallel training for C++ (library)
Process groups, DistributedDataParallel, loaders, optimizers, checkpoints, a
trainer and a launcher on libtorch. This package has the headers, static and
shared libraries, the CMake package Lockstep and lockstep.pc.")
include(CPack)
