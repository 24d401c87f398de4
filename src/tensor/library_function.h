// SPDX-License-Identifier: Apache-2.0
// A function of a library that was loaded while the process runs.
#pragma once

#include <dlfcn.h>

namespace lockstep::tensor {

/// Returns whether the library has it; `function` is null where not.
template <class Function>
[[nodiscard]] bool find_function(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace lockstep::tensor
