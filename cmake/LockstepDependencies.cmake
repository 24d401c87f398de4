# Every library that Lockstep uses, found once. Headers of others are SYSTEM: our warnings are for our code.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Freetype REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Torch REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(spng REQUIRED IMPORTED_TARGET spng)
pkg_check_modules(turbojpeg REQUIRED IMPORTED_TARGET libturbojpeg)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
if(LOCKSTEP_TESTS)
  find_package(GTest REQUIRED)
endif()

# Torch for our modules: its headers as system headers, its libraries, none of its global flags.
add_library(lockstep_torch INTERFACE)
target_include_directories(lockstep_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(lockstep_torch INTERFACE ${TORCH_LIBRARIES})
add_library(lockstep::torch ALIAS lockstep_torch)

# CUDA: the toolkit's headers and NCCL, for the few files that use them. Where libtorch has no CUDA those files are
# compiled by a test only (LockstepCudaCheck.cmake).
find_path(LOCKSTEP_CUDA_INCLUDE cuda_runtime_api.h
          HINTS ENV CUDA_HOME ENV CUDA_PATH ${CUDA_TOOLKIT_ROOT_DIR} ${CUDAToolkit_ROOT} PATHS /usr/local/cuda
          PATH_SUFFIXES include)
find_path(LOCKSTEP_NCCL_INCLUDE nccl.h HINTS ENV NCCL_HOME ENV CUDA_HOME ${LOCKSTEP_CUDA_INCLUDE} PATHS /usr/local/cuda
          PATH_SUFFIXES include)
set(cuda_is_there OFF)
if(TARGET torch_cuda AND LOCKSTEP_CUDA_INCLUDE AND LOCKSTEP_NCCL_INCLUDE)
  set(cuda_is_there ON)
endif()
option(LOCKSTEP_CUDA "Build for CUDA devices, with NCCL" ${cuda_is_there})
add_library(lockstep_cuda INTERFACE)
if(LOCKSTEP_CUDA)
  if(NOT LOCKSTEP_CUDA_INCLUDE OR NOT LOCKSTEP_NCCL_INCLUDE)
    message(FATAL_ERROR "LOCKSTEP_CUDA needs cuda_runtime_api.h and nccl.h: set CUDA_HOME and NCCL_HOME")
  endif()
  find_library(LOCKSTEP_CUDART NAMES cudart libcudart.so.13 libcudart.so.12 HINTS ${LOCKSTEP_CUDA_INCLUDE}/..
               PATH_SUFFIXES lib64 lib REQUIRED)
  find_library(LOCKSTEP_NCCL NAMES nccl libnccl.so.2 HINTS ${LOCKSTEP_NCCL_INCLUDE}/.. PATH_SUFFIXES lib64 lib REQUIRED)
  target_include_directories(lockstep_cuda SYSTEM INTERFACE ${LOCKSTEP_CUDA_INCLUDE} ${LOCKSTEP_NCCL_INCLUDE})
  target_link_libraries(lockstep_cuda INTERFACE ${LOCKSTEP_NCCL} ${LOCKSTEP_CUDART})
endif()
add_library(lockstep::cuda ALIAS lockstep_cuda)

# OpenCV's two small parts: Debian's full CMake package comes with all of OpenCV.
find_path(LOCKSTEP_OPENCV_INCLUDE opencv2/imgproc.hpp PATH_SUFFIXES opencv4 REQUIRED)
find_library(LOCKSTEP_OPENCV_CORE opencv_core REQUIRED)
find_library(LOCKSTEP_OPENCV_IMGPROC opencv_imgproc REQUIRED)
add_library(lockstep_opencv INTERFACE)
target_include_directories(lockstep_opencv SYSTEM INTERFACE ${LOCKSTEP_OPENCV_INCLUDE})
target_link_libraries(lockstep_opencv INTERFACE ${LOCKSTEP_OPENCV_IMGPROC} ${LOCKSTEP_OPENCV_CORE})
add_library(lockstep::opencv ALIAS lockstep_opencv)
