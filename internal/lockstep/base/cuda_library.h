// SPDX-License-Identifier: Apache-2.0
// Loads Lockstep's CUDA code if the machine can use it. All CUDA code is in one library, liblockstep-cuda.so. No other
// Lockstep file links against CUDA, so one build serves machines with and without GPUs.
#pragma once

#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::cuda {

/// The first missing part of what a process needs for GPUs; the parts are checked in this order.
enum class Lack {
  kNothing,   ///< no library is missing
  kParts,     ///< this build has no liblockstep-cuda.so
  kLibtorch,  ///< libtorch has no libtorch_cuda.so
  kDriver,    ///< libcuda.so.1 cannot be loaded
  kFit        ///< no file is missing, but liblockstep-cuda.so cannot be loaded
};

/// The reason why a process cannot compute on GPUs.
struct Obstacle {
  Lack lack = Lack::kNothing;  ///< the first missing part
  std::string problem = {};    ///< a clause: "this build of Lockstep has no CUDA"; empty: nothing is missing
  std::string remedy = {};     ///< the next step: "build it with a libtorch for CUDA"
};

/// The folders to search.
struct Search {
  std::vector<std::string> folders = {};        ///< candidates for liblockstep-cuda.so
  std::vector<std::string> torch_folders = {};  ///< candidates for libtorch: the first that has libc10.so is used
};

/// Returns the folders to search for code in the file `binary`: its own folder, the installed library folder beside
/// that, and the build's. `torch_folder` is the folder of the libtorch that the process has loaded; if it has loaded
/// none (empty), the build's libtorch is used. It is a pure function.
[[nodiscard]] Search search_from(const std::string& binary, const std::string& torch_folder);

/// Returns the folders that this process searches.
[[nodiscard]] Search search_of_this_process();

/// Returns the first obstacle for a process that searches these folders. Loads only the driver's library.
[[nodiscard]] Obstacle obstacle_to(const Search& search);

/// A loaded liblockstep-cuda.so, or the reason why none was loaded.
struct Library {
  const void* parts = nullptr;  ///< the result of the library's only function; null if no library was loaded
  std::string path = {};        ///< the library's file
  Obstacle obstacle = {};       ///< the reason why none was loaded
};

/// Loads the library, and with it libtorch's CUDA libraries. It is never unloaded. Thread-safe: yes.
/// Cost: half a second if there is a driver, otherwise a few microseconds.
[[nodiscard]] Library open(const Search& search);

/// Returns the library of this process, which the first call opens. Programs with libtorch make that call before
/// main(), because libtorch looks for CUDA once and remembers the result. Thread-safe: yes.
[[nodiscard]] const Library& library();

}  // namespace lockstep::cuda

#pragma GCC visibility pop
