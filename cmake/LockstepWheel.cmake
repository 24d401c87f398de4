# What scripts/platforms/make_wheel packs: programs in lockstep/bin and libraries in lockstep/lib of a Python environment's
# site-packages, next to torch/lib. make_wheel adds the third-party libraries that they need to lockstep/lib.
#
# DT_RPATH, which also applies to third-party libraries; DT_RUNPATH would not.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib" "$ORIGIN/../../torch/lib")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH OFF)
add_link_options(LINKER:--disable-new-dtags)
