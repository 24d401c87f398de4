// SPDX-License-Identifier: Apache-2.0
// A program with libtorch that calls the CUDA parts.
#include <cstdint>

#include "lockstep/base/error.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/tensor/device.h"
#include "lockstep/tensor/device_graph.h"
#include "lockstep/tensor/device_memory.h"

namespace {

using namespace lockstep;

/// Prints the result of `call`, or its error.
template <class F>
void show(const char* what, F&& call) {
  try {
    print_to(stdout, "{}: {}\n", what, call());
  } catch (const Error& error) {
    print_to(stdout, "{}: {}: {}\n", what, error.type(), error.message());
  }
}

}  // namespace

int main() {
  print_to(stdout, "main\n");
  show("graph", [] { return tensor::make_device_graph() != nullptr; });
  show("memory", [] { return memory_use({c10::kCUDA, 1}).peak; });
  show("forgotten", [] { return (tensor::forget_memory(1), true); });
  show("stream", [] {
    const c10::Stream stream(c10::Stream::UNSAFE, {c10::kCUDA, 0}, 7);
    return reinterpret_cast<std::intptr_t>(tensor::native_stream(stream));
  });
  show("address", [] { return tensor::pci_address(0); });
  show("address of another", [] { return tensor::pci_address(1); });
  show("name", [] { return tensor::device_name({c10::kCUDA, 0}); });
  return 0;
}
