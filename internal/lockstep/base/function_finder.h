// SPDX-License-Identifier: Apache-2.0
// Looks up functions, by name, in a library that was loaded at run time.
#pragma once

#include <dlfcn.h>

#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// Finds functions in a loaded library and remembers the first that is missing.
class FunctionFinder {
 public:
  /// `library` is the handle from dlopen().
  explicit FunctionFinder(void* library) : library_(library) {}

  /// Sets `function` to the library's function `name`; to null if the library lacks it.
  template <class Function>
  void set(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  /// Returns the first name that was not found; empty if all were found.
  [[nodiscard]] const std::string& missing() const noexcept { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

}  // namespace lockstep

#pragma GCC visibility pop
