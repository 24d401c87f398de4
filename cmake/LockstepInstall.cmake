# cmake --install: headers, libraries, the CMake package Lockstep, lockstep.pc and the command.
#
#   liblockstep-core      base, store, wire, view, launch: without torch
#   liblockstep           the other modules
#   liblockstep-recipes   the recipes' tasks, always static
#   liblockstep-cuda      CUDA code: loaded, not linked (src/tensor/cuda)
#
# Each is built from the objects of its modules as a static library, and with LOCKSTEP_SHARED also as a shared one. A project that
# finds the package gets the static ones, or with BUILD_SHARED_LIBS the shared ones.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(LOCKSTEP_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})  # until 1.0 each minor version may differ
# The dependencies of a static library, by linker name. The package names are in LockstepDebian.cmake.
set(LOCKSTEP_CORE_LIBRARIES spdlog yaml-cpp ssl crypto dw)
set(LOCKSTEP_TRAIN_LIBRARIES hwy xxhash curl deflate z spng jpeg pugixml freetype opencv_imgproc opencv_core
  microhttpd)
set(LOCKSTEP_LINK_FLAGS "")
if(TARGET OpenMP::OpenMP_CXX AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(LOCKSTEP_LINK_FLAGS gomp)
endif()

# lockstep_file(TARGET OUTPUT KIND modules...): lib<OUTPUT> from the objects of these targets.
function(lockstep_file target output kind)
  set(objects "")
  foreach(module IN LISTS ARGN)
    list(APPEND objects $<TARGET_OBJECTS:${module}>)
  endforeach()
  add_library(${target} ${kind} ${objects})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output} LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  if(LOCKSTEP_WHEEL)
    if(kind STREQUAL STATIC AND NOT target STREQUAL lockstep_recipes_static)
      set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
      return()
    endif()
  else()  # a wheel has no links that give a library several names
    set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${LOCKSTEP_SOVERSION})
  endif()
  install(TARGETS ${target} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
endfunction()

# lockstep_shared_file(TARGET OUTPUT LINK libraries... MODULES modules...): shared, exporting only the public symbols.
function(lockstep_shared_file target output)
  cmake_parse_arguments(ARG "" "" "LINK;MODULES" ${ARGN})
  lockstep_file(${target} ${output} SHARED ${ARG_MODULES})
  set(map ${PROJECT_SOURCE_DIR}/cmake/exported.map)
  target_link_options(${target} PRIVATE LINKER:--version-script=${map} LINKER:--no-undefined)
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
  if(NOT LOCKSTEP_WHEEL)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN" BUILD_RPATH_USE_ORIGIN ON)
  endif()
  target_link_libraries(${target} PRIVATE ${ARG_LINK})
endfunction()

list(TRANSFORM LOCKSTEP_CORE_MODULES PREPEND lockstep_ OUTPUT_VARIABLE core)
list(TRANSFORM LOCKSTEP_TRAIN_MODULES PREPEND lockstep_ OUTPUT_VARIABLE train)
lockstep_file(lockstep_core_static lockstep-core STATIC ${core})
lockstep_file(lockstep_train_static lockstep STATIC ${train} lockstep_png)
if(LOCKSTEP_SHARED)
  lockstep_shared_file(lockstep_core_shared lockstep-core MODULES ${core}
    LINK fmt::fmt Threads::Threads ${CMAKE_DL_LIBS} spdlog::spdlog yaml-cpp OpenSSL::SSL OpenSSL::Crypto lockstep::dw)
  lockstep_shared_file(lockstep_train_shared lockstep MODULES ${train} lockstep_png
    LINK lockstep_core_shared lockstep::torch fmt::fmt lockstep::hwy lockstep::xxhash lockstep::curl lockstep::deflate lockstep::microhttpd
         ZLIB::ZLIB OpenSSL::SSL OpenSSL::Crypto lockstep::spng lockstep::jpeg lockstep::pugixml Freetype::Freetype lockstep::opencv
         ${LOCKSTEP_LINK_FLAGS})
endif()
if(LOCKSTEP_CUDA)
  install(TARGETS lockstep_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT command)
endif()
if(LOCKSTEP_RECIPES)
  lockstep_file(lockstep_recipes_static lockstep-recipes STATIC ${LOCKSTEP_RECIPE_TARGETS})
  install(DIRECTORY recipes/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep-recipes COMPONENT development
          FILES_MATCHING PATTERN "*.h")
endif()

install(DIRECTORY include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/include/lockstep/base/version.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep/base COMPONENT development)
if(LOCKSTEP_APPS)
  install(TARGETS lockstep_command lockstep-dashboard lockstep-plot lockstep-worker DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  # Programs look for it next to their own folder. It is empty without npm.
  install(DIRECTORY ${PROJECT_BINARY_DIR}/share/lockstep/network DESTINATION share/lockstep COMPONENT command OPTIONAL)
endif()

set(LOCKSTEP_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)
configure_package_config_file(cmake/LockstepConfig.cmake.in ${PROJECT_BINARY_DIR}/LockstepConfig.cmake
  INSTALL_DESTINATION ${LOCKSTEP_PACKAGE_DIR} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/LockstepConfig.cmake ${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake
              cmake/LockstepTorch.cmake cmake/LockstepDebian.cmake
        DESTINATION ${LOCKSTEP_PACKAGE_DIR} COMPONENT development)

# lockstep.pc lists what the CMake targets provide. libtorch has no pkg-config file of its own.
list(TRANSFORM LOCKSTEP_TORCH_INCLUDES PREPEND "-isystem" OUTPUT_VARIABLE torch_flags)
list(REMOVE_ITEM torch_flags -isystem/usr/include)
if(LOCKSTEP_TORCH AND EXISTS ${CMAKE_BINARY_DIR}/lockstep_fmt)  # must come before libtorch's own fmt (see LockstepTorch.cmake)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/lockstep_fmt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
  list(PREPEND torch_flags "-isystem\${includedir}/lockstep_fmt")
endif()
list(JOIN torch_flags " " LOCKSTEP_PC_TORCH_FLAGS)
if(LOCKSTEP_TORCH)
  set(LOCKSTEP_PC_TORCH "-L${LOCKSTEP_TORCH}/lib -Wl,-rpath,${LOCKSTEP_TORCH}/lib -Wl,--unresolved-symbols=ignore-in-shared-libs")
else()
  set(LOCKSTEP_PC_TORCH "-L${LOCKSTEP_TORCH_LIBRARIES} -ltorch")
endif()
set(static "")
foreach(name IN LISTS LOCKSTEP_TRAIN_LIBRARIES LOCKSTEP_CORE_LIBRARIES LOCKSTEP_LINK_FLAGS)
  string(APPEND static " -l${name}")
endforeach()
if(LOCKSTEP_CUDA)  # where liblockstep-cuda.so is searched for
  string(APPEND LOCKSTEP_PC_TORCH " -Wl,-rpath,\${libdir}")
endif()
set(LOCKSTEP_PC_LIBRARIES "")  # if there are only static libraries
set(LOCKSTEP_PC_PRIVATE "")    # pkg-config --static
if(LOCKSTEP_SHARED)
  set(LOCKSTEP_PC_PRIVATE ${static})
else()
  set(LOCKSTEP_PC_LIBRARIES ${static})
endif()
string(REGEX REPLACE "[^/]+" ".." LOCKSTEP_PC_UP ${CMAKE_INSTALL_LIBDIR}/pkgconfig)  # makes the package relocatable
configure_file(cmake/lockstep.pc.in ${PROJECT_BINARY_DIR}/lockstep.pc @ONLY)
if(NOT LOCKSTEP_WHEEL)  # a wheel does not know where pip will put torch
  install(FILES ${PROJECT_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endif()

if(PROJECT_IS_TOP_LEVEL)
  if(LOCKSTEP_APPS)
    include(LockstepShell)
  endif()
  if(LOCKSTEP_WHEEL)
    add_custom_target(lockstep_wheel)
    add_dependencies(lockstep_wheel lockstep_command lockstep-dashboard lockstep-plot lockstep-worker lockstep_core_shared
      lockstep_train_shared lockstep_recipes_static lockstep_shell)
    if(LOCKSTEP_CUDA)
      add_dependencies(lockstep_wheel lockstep_cuda)
    endif()
  endif()
  include(LockstepDebian)
  include(LockstepPackages)
endif()
