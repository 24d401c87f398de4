# What scripts/platforms/make_wheel packs: programs in lockstep/bin and libraries in lockstep/lib of a Python environment's
# site-packages, next to torch/lib. make_wheel adds the third-party libraries that they need to lockstep/lib.
#
# DT_RPATH, which also applies to third-party libraries; DT_RUNPATH would not.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib" "$ORIGIN/../../torch/lib")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH OFF)
# The linker writes this path. CMake would otherwise link with the build folder's, and then pad the shorter one: the lengths of the
# folders' names would show in the wheel.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
add_link_options(LINKER:--disable-new-dtags)
