# Finds every library that Lockstep uses, once. Package targets are global, because a project that adds Lockstep as a subdirectory
# links them too. Third-party headers are SYSTEM, because our warnings are for our own code.
#
# LOCKSTEP_DEPENDENCIES names a folder into which `scripts/platforms/gpu_check --gather` put them all, for machines without the
# packages.
set(LOCKSTEP_DEPENDENCIES "" CACHE PATH "Folder of the gathered libraries that Lockstep uses")
if(LOCKSTEP_DEPENDENCIES)
  list(PREPEND CMAKE_PREFIX_PATH ${LOCKSTEP_DEPENDENCIES}/usr)
  include_directories(SYSTEM ${LOCKSTEP_DEPENDENCIES}/usr/include/${CMAKE_LIBRARY_ARCHITECTURE})
  set(gathered_libraries ${LOCKSTEP_DEPENDENCIES}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
  # A gathered library's own dependencies are next to it. DT_RPATH also applies to them; DT_RUNPATH would not.
  list(APPEND CMAKE_BUILD_RPATH ${gathered_libraries})
  add_link_options(-Wl,--disable-new-dtags -Wl,-rpath-link,${gathered_libraries})
endif()

set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
if(LOCKSTEP_APPS)
  find_package(CLI11 REQUIRED)
endif()
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Freetype REQUIRED)

# lockstep_library(NAME HEADER LIBRARY): lockstep::NAME, for a C library that does not have a CMake package everywhere.
function(lockstep_library name header library)
  find_path(LOCKSTEP_${name}_INCLUDE ${header} PATH_SUFFIXES ${name} REQUIRED)
  find_library(LOCKSTEP_${name}_LIBRARY ${library} REQUIRED)
  add_library(lockstep_${name} INTERFACE)
  target_include_directories(lockstep_${name} SYSTEM INTERFACE ${LOCKSTEP_${name}_INCLUDE})
  target_link_libraries(lockstep_${name} INTERFACE ${LOCKSTEP_${name}_LIBRARY})
  add_library(lockstep::${name} ALIAS lockstep_${name})
endfunction()
lockstep_library(xxhash xxhash.h xxhash)
lockstep_library(spng spng.h spng)
lockstep_library(pugixml pugixml.hpp pugixml)
lockstep_library(jpeg jpeglib.h jpeg)
lockstep_library(deflate libdeflate.h deflate)
lockstep_library(hwy hwy/highway.h hwy)
# The kernels keep vectors in arrays, but SVE vectors have no compile-time size, so aarch64 has only NEON kernels.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  target_compile_definitions(lockstep_hwy INTERFACE
    "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")
endif()
lockstep_library(curl curl/curl.h curl)
lockstep_library(dw elfutils/libdwfl.h dw)
if(LOCKSTEP_APPS)
  lockstep_library(cairo cairo.h cairo)
endif()
lockstep_library(microhttpd microhttpd.h microhttpd)

# lockstep_headers(NAME HEADER): lockstep::NAME, for a header-only library.
function(lockstep_headers name header)
  find_path(LOCKSTEP_${name}_INCLUDE ${header} REQUIRED)
  add_library(lockstep_${name} INTERFACE)
  target_include_directories(lockstep_${name} SYSTEM INTERFACE ${LOCKSTEP_${name}_INCLUDE})
  add_library(lockstep::${name} ALIAS lockstep_${name})
endfunction()
lockstep_headers(protozero protozero/pbf_writer.hpp)
find_path(LOCKSTEP_asio_INCLUDE asio.hpp REQUIRED)
add_library(lockstep_asio INTERFACE)
target_include_directories(lockstep_asio SYSTEM INTERFACE ${LOCKSTEP_asio_INCLUDE})
target_compile_definitions(lockstep_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)
add_library(lockstep::asio ALIAS lockstep_asio)
if(LOCKSTEP_TESTS)
  find_package(GTest REQUIRED)
endif()

include(LockstepTorch)
lockstep_find_torch()
if(LOCKSTEP_TORCH AND NOT DEFINED CMAKE_INSTALL_RPATH_USE_LINK_PATH)
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)  # installed programs find it, too
endif()
add_library(lockstep_torch INTERFACE)
target_link_libraries(lockstep_torch INTERFACE Lockstep::torch)
add_library(lockstep::torch ALIAS lockstep_torch)

# CUDA: the toolkit's headers, only for src/tensor/cuda. If libtorch has no CUDA, its files are compiled only by a test
# (LockstepCudaCheck.cmake). With Python's torch, the headers are next to it. NCCL is loaded when a run needs it.
set(of_python "")
if(LOCKSTEP_TORCH)
  set(of_python ${LOCKSTEP_TORCH}/../nvidia)
endif()
find_path(LOCKSTEP_CUDA_INCLUDE cuda_runtime_api.h
          HINTS ENV CUDA_HOME ENV CUDA_PATH ${CUDA_TOOLKIT_ROOT_DIR} ${CUDAToolkit_ROOT} PATHS /usr/local/cuda
                ${of_python}/cu13 ${of_python}/cuda_runtime
          PATH_SUFFIXES include)
# Python's packages split the headers into parts, and `pip install torch` does not install all of them. With CUDA 12 each part has
# its own folder.
set(lockstep_cuda_includes ${LOCKSTEP_CUDA_INCLUDE})
if(EXISTS "${LOCKSTEP_CUDA_INCLUDE}/../../cuda_nvcc/include/crt/host_defines.h")
  list(APPEND lockstep_cuda_includes ${LOCKSTEP_CUDA_INCLUDE}/../../cuda_nvcc/include)
endif()
set(lockstep_missing_cuda "")
foreach(header cuda_runtime_api.h crt/host_defines.h)
  set(found OFF)
  foreach(folder IN LISTS lockstep_cuda_includes)
    if(EXISTS "${folder}/${header}")
      set(found ON)
    endif()
  endforeach()
  if(NOT found)
    list(APPEND lockstep_missing_cuda ${header})
  endif()
endforeach()
list(JOIN lockstep_missing_cuda ", " lockstep_missing_cuda)
string(CONCAT cuda_advice
       "Set CUDA_HOME, or with Python's torch 2.9 or later: pip install \"cuda-toolkit[crt]\" in the version that "
       "`pip show cuda-toolkit` prints (CUDA 12: nvidia-cuda-nvcc-cu12). Then run cmake again with -U LOCKSTEP_CUDA")
set(cuda_is_there OFF)
if(EXISTS "${LOCKSTEP_TORCH_LIBRARIES}/libtorch_cuda.so")
  if(NOT lockstep_missing_cuda)
    set(cuda_is_there ON)
  elseif(NOT DEFINED LOCKSTEP_CUDA)
    message(WARNING "This libtorch supports GPUs, but Lockstep will be built without CUDA: "
                    "${lockstep_missing_cuda} was not found. "
                    "${cuda_advice}. If you need no GPU support: cmake -D LOCKSTEP_CUDA=OFF")
  endif()
endif()
option(LOCKSTEP_CUDA "Build liblockstep-cuda.so, for CUDA devices" ${cuda_is_there})
if(LOCKSTEP_CUDA AND lockstep_missing_cuda)
  message(FATAL_ERROR "LOCKSTEP_CUDA needs ${lockstep_missing_cuda}. ${cuda_advice}.")
endif()

# UCX: only its headers. The library is loaded when a run asks for it.
find_path(LOCKSTEP_UCX_INCLUDE ucp/api/ucp.h HINTS ENV UCX_HOME PATH_SUFFIXES include)
add_library(lockstep_ucx INTERFACE)
if(LOCKSTEP_UCX_INCLUDE)
  target_include_directories(lockstep_ucx SYSTEM INTERFACE ${LOCKSTEP_UCX_INCLUDE})
endif()
add_library(lockstep::ucx ALIAS lockstep_ucx)

# OpenCV's two small parts: Debian's full CMake package comes with all of OpenCV.
find_path(LOCKSTEP_OPENCV_INCLUDE opencv2/imgproc.hpp PATH_SUFFIXES opencv4 REQUIRED)
find_library(LOCKSTEP_OPENCV_CORE opencv_core REQUIRED)
find_library(LOCKSTEP_OPENCV_IMGPROC opencv_imgproc REQUIRED)
add_library(lockstep_opencv INTERFACE)
target_include_directories(lockstep_opencv SYSTEM INTERFACE ${LOCKSTEP_OPENCV_INCLUDE})
target_link_libraries(lockstep_opencv INTERFACE ${LOCKSTEP_OPENCV_IMGPROC} ${LOCKSTEP_OPENCV_CORE})
add_library(lockstep::opencv ALIAS lockstep_opencv)
