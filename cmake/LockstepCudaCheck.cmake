# Where the CUDA toolkit is there and libtorch has no CUDA: the files for GPUs are compiled as objects, with the
# tests, so that they cannot rot. Nothing of it is linked or run.
if(LOCKSTEP_CUDA OR NOT LOCKSTEP_TESTS)
  return()
endif()
if(lockstep_missing_cuda)
  message(STATUS "CUDA: no whole toolkit with NCCL here (${lockstep_missing_cuda}), so its files are not compiled")
  return()
endif()

file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/nccl_*.cpp
  ${PROJECT_SOURCE_DIR}/src/cuda_*.cpp)
add_library(lockstep_cuda_check OBJECT ${cuda_sources})
target_include_directories(lockstep_cuda_check PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(lockstep_cuda_check PRIVATE lockstep::torch fmt::fmt lockstep_warnings)
# Debian's headers of c10/cuda come without the one that CMake writes for a build with CUDA.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/cuda_check/c10/cuda/impl/cuda_cmake_macros.h
     CONTENT "#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n")
target_include_directories(lockstep_cuda_check SYSTEM PRIVATE ${LOCKSTEP_CUDA_INCLUDE} ${LOCKSTEP_NCCL_INCLUDE}
                                                              ${PROJECT_BINARY_DIR}/cuda_check)
