# Cross-compiles for aarch64 with Debian's g++-aarch64-linux-gnu. LOCKSTEP_SYSROOT is a folder with Debian's arm64 packages;
# scripts/platforms/aarch64 creates one.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(LOCKSTEP_SYSROOT "" CACHE PATH "A folder with Debian for arm64")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LOCKSTEP_SYSROOT)
set(CMAKE_SYSROOT ${LOCKSTEP_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${LOCKSTEP_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${LOCKSTEP_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${LOCKSTEP_SYSROOT}/usr/share/pkgconfig)
