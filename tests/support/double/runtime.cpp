// SPDX-License-Identifier: Apache-2.0
// The functions of the CUDA runtime that the fake NCCL for real GPUs calls, on fake GPUs, so that it can be tested
// without a GPU.
#include <cstdlib>
#include <cstring>

#include "support/double/stream_handle.h"

using lockstep::testing::make_believe::StreamHandle;

#pragma GCC visibility push(default)
extern "C" {

int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int /*direction*/, void* stream) {
  static_cast<StreamHandle*>(stream)->enqueue("cudaMemcpyAsync", {{from, bytes, false}, {to, bytes, true}},
                                              [=] { std::memcpy(to, from, bytes); });
  return 0;
}

int cudaLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
  static_cast<StreamHandle*>(stream)->enqueue("cudaLaunchHostFunc", {}, [=] { function(argument); });
  return 0;
}

int cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  *memory = std::malloc(bytes);
  return *memory == nullptr ? 2 : 0;
}

int cudaStreamIsCapturing(void* /*stream*/, int* status) {
  *status = 0;
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
