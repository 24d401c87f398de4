# lockstep_find_torch(): the imported target Lockstep::torch, with libtorch's headers as system headers and none of its global
# flags, LOCKSTEP_TORCH_VERSION, and LOCKSTEP_TORCH_LIBRARIES, the folder of its libraries. The build includes this file, and so
# does the installed package, so that both find libtorch in the same way and report the same errors if it does not fit.
#
# The libtorch is the first of these that exists:
#   1. LOCKSTEP_TORCH: the folder of Python's torch package, or of an unpacked archive from pytorch.org. Their own CMake
#      package would require a CUDA compiler, and is not used.
#   2. the CMake package below Torch_DIR, Torch_ROOT or CMAKE_PREFIX_PATH (-D, or the environment), such a folder or not
#   3. the torch package of the active environment: VIRTUAL_ENV, then CONDA_PREFIX. No python is started.
#   4. find_package(Torch): the system's
# A folder that only the environment names is stored in LOCKSTEP_TORCH: a build folder keeps its libtorch.
set(LOCKSTEP_TORCH "" CACHE PATH "The folder of Python's torch package or of an unpacked libtorch; empty: look for it")

set(LOCKSTEP_TORCH_ADVICE
    "  Debian's: apt install libtorch-dev, and cmake -U LOCKSTEP_TORCH -D CMAKE_PREFIX_PATH=/usr
  Python's: activate its environment, or cmake -D LOCKSTEP_TORCH=$(python3 -c 'import torch; print(torch.__path__[0])')
  libtorch of pytorch.org (the cxx11 ABI): cmake -D LOCKSTEP_TORCH=/path/to/libtorch")

# Sets `result` to true if a folder holds headers, and libraries next to them.
function(lockstep_is_torch_folder folder result)
  set(${result} OFF PARENT_SCOPE)
  cmake_path(NORMAL_PATH folder)
  if(folder MATCHES "^(/usr|/usr/local|/)/?$")
    return()  # not a separate folder: its headers must not be passed to the compiler
  endif()
  file(GLOB headers ${folder}/include/torch/version.h ${folder}/include/torch/headeronly/version.h
       ${folder}/include/torch/csrc/api/include/torch/version.h)
  if(headers AND EXISTS ${folder}/lib/libtorch_cpu.so)
    set(${result} ON PARENT_SCOPE)
  endif()
endfunction()

# Sets `config` to the folder with a TorchConfig.cmake that the caller of cmake names, or "" if none is named, and `source` to the
# variable that names it.
function(lockstep_named_torch_config)
  foreach(name IN ITEMS Torch_DIR Torch_ROOT CMAKE_PREFIX_PATH "environment's Torch_ROOT" "environment's CMAKE_PREFIX_PATH")
    set(prefixes "${${name}}")
    if(name MATCHES "^environment's (.*)")
      string(REPLACE ":" ";" prefixes "$ENV{${CMAKE_MATCH_1}}")
    endif()
    unset(found)
    find_path(found TorchConfig.cmake PATHS ${prefixes} NO_DEFAULT_PATH NO_CACHE PATH_SUFFIXES share/cmake/Torch Torch
      lib/cmake/Torch lib/${CMAKE_LIBRARY_ARCHITECTURE}/cmake/Torch)
    if(found)
      set(config "${found}" PARENT_SCOPE)
      set(source "${name}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(config "" PARENT_SCOPE)
endfunction()

# The torch package of the active environment, and the variable that names the environment; "" if there is none.
# `wanted`: a version whose first two numbers have to match; "" for any.
function(lockstep_torch_of_environment wanted result variable)
  set(${result} "" PARENT_SCOPE)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" wanted "${wanted}")
  foreach(name IN ITEMS VIRTUAL_ENV CONDA_PREFIX)
    if("$ENV{${name}}" STREQUAL "")
      continue()
    endif()
    file(GLOB folders "$ENV{${name}}/lib/python3*/site-packages/torch/__init__.py")
    list(SORT folders COMPARE NATURAL ORDER DESCENDING)
    list(TRANSFORM folders REPLACE "/__init__.py$" "")
    lockstep_is_torch_folder("$ENV{${name}}" whole)  # conda's libtorch, without Python's package
    if(whole)
      list(APPEND folders "$ENV{${name}}")
    endif()
    if(folders)
      list(GET folders 0 folder)
      lockstep_torch_version("${folder}/include;${folder}/include/torch/csrc/api/include" version)
      if(NOT wanted OR "${version}." MATCHES "^${wanted}\\.")
        set(${result} ${folder} PARENT_SCOPE)
        set(${variable} ${name} PARENT_SCOPE)
        return()
      endif()
      message(STATUS "libtorch ${version} of the active environment (${folder}) is ignored: Lockstep was built with ${wanted}")
    endif()
  endforeach()
endfunction()

# Sets `folder` ("": use find_package), `named`, its description, and `keep`: only the environment names it.
function(lockstep_choose_torch wanted)
  set(folder "${LOCKSTEP_TORCH}")
  set(named "LOCKSTEP_TORCH=${folder}")
  set(keep OFF)
  if(NOT folder)
    lockstep_named_torch_config()
    if(config)
      cmake_path(SET prefix NORMALIZE "${config}/../../..")
      lockstep_is_torch_folder("${prefix}" whole)
      if(whole)
        string(REGEX REPLACE "/$" "" folder "${prefix}")
        set(named "${folder} (${source})")
        if(source MATCHES "environment")
          set(keep ON)
        endif()
      endif()
    else()
      lockstep_torch_of_environment("${wanted}" folder source)
      set(named "${folder} (${source}: the active environment)")
      set(keep ON)
    endif()
  endif()
  foreach(name IN ITEMS folder named keep)
    set(${name} "${${name}}" PARENT_SCOPE)
  endforeach()
endfunction()

# Sets `includes`, `libraries` and `flags` from a folder.
macro(lockstep_torch_of_folder)
  file(GLOB headers ${folder}/include/torch/version.h ${folder}/include/torch/headeronly/version.h
       ${folder}/include/torch/csrc/api/include/torch/version.h)
  if(NOT headers)
    set(meant "")
    foreach(below IN ITEMS torch libtorch ..)
      lockstep_is_torch_folder("${folder}/${below}" whole)
      if(whole)
        cmake_path(SET meant NORMALIZE "${folder}/${below}")
        set(meant "\n  ${meant} is one.\n")
        break()
      endif()
    endforeach()
    message(FATAL_ERROR "${named} has no include/torch/version.h: it is not a torch package with C++ headers.${meant} "
                        "Lockstep needs libtorch:\n${LOCKSTEP_TORCH_ADVICE}")
  endif()
  set(includes ${folder}/include ${folder}/include/torch/csrc/api/include)
  # libtorch.so would load torch_cuda and all its dependencies, GPU or not.
  set(libraries "")
  foreach(name IN ITEMS torch_cpu c10)
    if(EXISTS ${folder}/lib/lib${name}.so)
      list(APPEND libraries ${folder}/lib/lib${name}.so)
    endif()
  endforeach()
  set(flags "")
  if(EXISTS ${folder}/share/cmake/Torch/TorchConfig.cmake)
    file(STRINGS ${folder}/share/cmake/Torch/TorchConfig.cmake flags REGEX "_GLIBCXX_USE_CXX11_ABI")
  endif()
endmacro()

macro(lockstep_torch_of_cmake)
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
  find_package(Torch QUIET)
  if(NOT Torch_FOUND)
    message(FATAL_ERROR "Lockstep needs libtorch, but find_package(Torch) did not find it:\n${LOCKSTEP_TORCH_ADVICE}")
  endif()
  set(named "${Torch_DIR} (find_package)")
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

# Stops with an error unless Lockstep can be built with, or linked to, this libtorch.
function(lockstep_require_fitting_torch named version flags libraries)
  if("${flags}" MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
    message(FATAL_ERROR "${named}: this libtorch was built with the old C++ ABI (_GLIBCXX_USE_CXX11_ABI=0), but fmt, "
                        "yaml-cpp and OpenCV of this system were not, so linking would fail. Use one with the cxx11 "
                        "ABI, or PyTorch 2.7 or later:\n${LOCKSTEP_TORCH_ADVICE}")
  endif()
  if(version VERSION_LESS 1.13)
    message(FATAL_ERROR "Lockstep needs libtorch 1.13 or later, found ${version} in ${named}:\n${LOCKSTEP_TORCH_ADVICE}")
  endif()
  if(NOT libraries)
    message(FATAL_ERROR "${named} has headers, but no lib/libtorch_cpu.so to link to:\n${LOCKSTEP_TORCH_ADVICE}")
  endif()
endfunction()

# Newer libtorch packages contain headers of their own fmt, but not its library. A folder with a link to fmt::fmt's headers is
# placed before them.
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

# lockstep_find_torch([WANTED]): WANTED is the version that an installed Lockstep was built with.
function(lockstep_find_torch)
  if(TARGET Lockstep::torch)
    return()
  endif()
  lockstep_choose_torch("${ARGN}")
  if(folder)
    lockstep_torch_of_folder()
  else()
    lockstep_torch_of_cmake()
  endif()
  lockstep_torch_version("${includes}" version)
  lockstep_require_fitting_torch("${named}" "${version}" "${flags}" "${libraries}")
  message(STATUS "libtorch ${version}: ${named}")
  lockstep_put_fmt_first("${includes}" ordered_includes)
  add_library(Lockstep::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(Lockstep::torch SYSTEM INTERFACE ${ordered_includes})
  # PyTorch's own packages export a std::filesystem of an older libstdc++, whose remove_all() crashes in programs built with a
  # newer compiler. The loader searches libraries in the order in which they are named.
  target_link_libraries(Lockstep::torch INTERFACE stdc++ ${libraries})
  if(folder)
    # libtorch's libraries find their own dependencies at run time.
    target_link_options(Lockstep::torch INTERFACE LINKER:--unresolved-symbols=ignore-in-shared-libs)
    set(LOCKSTEP_TORCH ${folder} PARENT_SCOPE)
    if(keep)
      set(LOCKSTEP_TORCH ${folder} CACHE PATH "The folder of Python's torch package or of an unpacked libtorch" FORCE)
    endif()
  endif()
  if(folder)
    set(LOCKSTEP_TORCH_LIBRARIES ${folder}/lib PARENT_SCOPE)
  else()
    find_library(of_cmake torch HINTS ${includes}/../lib NO_CACHE)
    cmake_path(GET of_cmake PARENT_PATH of_cmake)
    set(LOCKSTEP_TORCH_LIBRARIES ${of_cmake} PARENT_SCOPE)
  endif()
  set(LOCKSTEP_TORCH_VERSION ${version} PARENT_SCOPE)
  set(LOCKSTEP_TORCH_INCLUDES ${includes} PARENT_SCOPE)
endfunction()
