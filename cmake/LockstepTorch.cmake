# lockstep_find_torch(): the imported target Lockstep::torch, with libtorch's headers as system headers and none of its
# global flags, and LOCKSTEP_TORCH_VERSION. The build includes this file, and so does the installed package, so that both
# find libtorch alike and say the same where it does not fit.
#
# LOCKSTEP_TORCH names the folder of Python's torch package, whose own CMake package would want a CUDA compiler. Without
# it find_package(Torch) finds Debian's libtorch, or the one that CMAKE_PREFIX_PATH names.
set(LOCKSTEP_TORCH "" CACHE PATH "The folder of Python's torch package; empty: find_package(Torch)")

set(LOCKSTEP_TORCH_ADVICE
    "  Debian: apt install libtorch-dev
  libtorch from pytorch.org (the cxx11 ABI): cmake -D CMAKE_PREFIX_PATH=/path/to/libtorch
  Python's: cmake -D LOCKSTEP_TORCH=$(python3 -c 'import torch; print(torch.__path__[0])')")

# Sets `includes`, `libraries` and `flags` from Python's package.
macro(lockstep_torch_of_python)
  if(NOT EXISTS ${LOCKSTEP_TORCH}/include/torch/version.h AND NOT EXISTS
    ${LOCKSTEP_TORCH}/include/torch/csrc/api/include/torch/version.h)
    message(FATAL_ERROR "LOCKSTEP_TORCH=${LOCKSTEP_TORCH} has no include/torch/version.h: it is no torch package with "
                        "C++ headers. Lockstep needs libtorch:\n${LOCKSTEP_TORCH_ADVICE}")
  endif()
  set(includes ${LOCKSTEP_TORCH}/include ${LOCKSTEP_TORCH}/include/torch/csrc/api/include)
  set(libraries "")
  foreach(name IN ITEMS torch torch_cpu c10 torch_cuda c10_cuda)
    if(EXISTS ${LOCKSTEP_TORCH}/lib/lib${name}.so)
      list(APPEND libraries ${LOCKSTEP_TORCH}/lib/lib${name}.so)
    endif()
  endforeach()
  set(flags "")
  if(EXISTS ${LOCKSTEP_TORCH}/share/cmake/Torch/TorchConfig.cmake)
    file(STRINGS ${LOCKSTEP_TORCH}/share/cmake/Torch/TorchConfig.cmake flags REGEX "_GLIBCXX_USE_CXX11_ABI")
  endif()
endmacro()

macro(lockstep_torch_of_cmake)
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
  find_package(Torch QUIET)
  if(NOT Torch_FOUND)
    message(FATAL_ERROR "Lockstep needs libtorch, and find_package(Torch) finds none:\n${LOCKSTEP_TORCH_ADVICE}")
  endif()
  set(includes ${TORCH_INCLUDE_DIRS})
  set(libraries ${TORCH_LIBRARIES})
  set(flags "${TORCH_CXX_FLAGS}")
endmacro()

# "1.13.1" from torch/version.h, or from the header that it includes in newer versions.
function(lockstep_torch_version includes result)
  find_file(version_header NAMES torch/headeronly/version.h torch/version.h PATHS ${includes} NO_DEFAULT_PATH NO_CACHE)
  set(version "")
  if(version_header)
    foreach(part IN ITEMS MAJOR MINOR PATCH)
      file(STRINGS ${version_header} line REGEX "#define TORCH_VERSION_${part} ")
      string(REGEX MATCH "[0-9]+" number "${line}")
      list(APPEND version ${number})
    endforeach()
  endif()
  string(REPLACE ";" "." version "${version}")
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

# Ends with an error unless Lockstep can be built with, or linked to, this libtorch.
function(lockstep_require_fitting_torch version flags)
  if("${flags}" MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
    message(FATAL_ERROR "This libtorch was built with the old C++ ABI (_GLIBCXX_USE_CXX11_ABI=0), and fmt, yaml-cpp and "
                        "OpenCV of this system were not: nothing would link. Take the one with the cxx11 ABI:\n"
                        "${LOCKSTEP_TORCH_ADVICE}")
  endif()
  if(version VERSION_LESS 1.13)
    message(FATAL_ERROR "Lockstep needs libtorch 1.13 or later, found ${version}:\n${LOCKSTEP_TORCH_ADVICE}")
  endif()
endfunction()

# Newer libtorch packages contain the headers of an fmt of their own, whose library they do not contain. A folder with a
# link to the headers of fmt::fmt goes before them.
function(lockstep_put_fmt_first includes result)
  set(${result} ${includes} PARENT_SCOPE)
  foreach(folder IN LISTS includes)
    if(EXISTS ${folder}/fmt/format.h AND NOT folder STREQUAL "/usr/include")
      set(brings_fmt ON)
    endif()
  endforeach()
  get_target_property(folder fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  if(brings_fmt AND folder)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/lockstep_fmt)
    file(CREATE_LINK ${folder}/fmt ${CMAKE_BINARY_DIR}/lockstep_fmt/fmt SYMBOLIC)
    set(${result} ${CMAKE_BINARY_DIR}/lockstep_fmt ${includes} PARENT_SCOPE)
  endif()
endfunction()

function(lockstep_find_torch)
  if(TARGET Lockstep::torch)
    return()
  endif()
  if(LOCKSTEP_TORCH)
    lockstep_torch_of_python()
  else()
    lockstep_torch_of_cmake()
  endif()
  lockstep_torch_version("${includes}" version)
  lockstep_require_fitting_torch("${version}" "${flags}")
  lockstep_put_fmt_first("${includes}" ordered_includes)
  add_library(Lockstep::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(Lockstep::torch SYSTEM INTERFACE ${ordered_includes})
  # PyTorch's own packages export a std::filesystem of an older libstdc++, whose remove_all() crashes in programs of a
  # newer compiler. The library that is named first is the one in which the loader looks first.
  target_link_libraries(Lockstep::torch INTERFACE stdc++ ${libraries})
  if(LOCKSTEP_TORCH)
    # torch_cuda registers its operators as it is loaded, and nothing else would need it to be. What it needs itself it
    # finds when it runs.
    target_link_options(Lockstep::torch INTERFACE LINKER:--no-as-needed
                        LINKER:--unresolved-symbols=ignore-in-shared-libs)
  endif()
  set(LOCKSTEP_TORCH_VERSION ${version} PARENT_SCOPE)
  set(LOCKSTEP_TORCH_INCLUDES ${includes} PARENT_SCOPE)
endfunction()
