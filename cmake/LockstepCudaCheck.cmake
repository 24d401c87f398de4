# Compiled with the tests, as objects; none of it is linked or run.
if(NOT LOCKSTEP_TESTS)
  return()
endif()
if(lockstep_missing_cuda)
  message(STATUS "CUDA: the toolkit is incomplete (missing: ${lockstep_missing_cuda}); the CUDA files are not compiled")
  return()
endif()

# If nccl.h is available: does its binary interface match internal/lockstep/base/nccl_library.h?
find_path(LOCKSTEP_NCCL_INCLUDE nccl.h HINTS ENV NCCL_HOME ${of_python}/nccl ${LOCKSTEP_CUDA_INCLUDE}/.. PATH_SUFFIXES include)
if(LOCKSTEP_NCCL_INCLUDE AND EXISTS "${LOCKSTEP_CUDA_INCLUDE}/nv/target")  # needed by nccl.h, but may be missing from pip packages
  add_library(lockstep_nccl_check OBJECT ${PROJECT_SOURCE_DIR}/tests/base/nccl/same_interface.cpp)
  target_include_directories(lockstep_nccl_check PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/internal)
  target_include_directories(lockstep_nccl_check SYSTEM PRIVATE ${lockstep_cuda_includes} ${LOCKSTEP_NCCL_INCLUDE})
endif()

# If libtorch has no CUDA: compiles the GPU files, so that they cannot rot.
if(LOCKSTEP_CUDA)
  return()
endif()
add_library(lockstep_cuda_check OBJECT ${lockstep_cuda_sources})
lockstep_of_cuda(lockstep_cuda_check)
# Debian's headers of c10/cuda come without the header that CMake writes for a build with CUDA.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/cuda_check/c10/cuda/impl/cuda_cmake_macros.h
     CONTENT "#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n")
target_include_directories(lockstep_cuda_check SYSTEM PRIVATE ${PROJECT_BINARY_DIR}/cuda_check)
