// SPDX-License-Identifier: Apache-2.0
// Loads what Lockstep needs of CUDA, where a machine can use it. All of that is in a library of its own,
// liblockstep-cuda.so. No other file of Lockstep is linked with CUDA, so that one build serves machines with and
// without GPUs.
#pragma once

#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::cuda {

/// What a process lacks for GPUs, in the order in which it is looked for.
enum class Lack {
  kNothing,   ///< it can compute on them, as far as libraries go
  kParts,     ///< this build has no liblockstep-cuda.so
  kLibtorch,  ///< libtorch has no libtorch_cuda.so
  kDriver,    ///< libcuda.so.1 cannot be loaded
  kFit        ///< all of them are there, and liblockstep-cuda.so cannot be loaded
};

/// Why a process cannot compute on GPUs.
struct Obstacle {
  Lack lack = Lack::kNothing;  ///< the first thing that is lacking
  std::string what = {};       ///< a clause: "this build of Lockstep has no CUDA"; empty: nothing is lacking
  std::string remedy = {};     ///< the next step: "build it with a libtorch for CUDA"
};

/// Where to look.
struct Search {
  std::vector<std::string> folders = {};        ///< where liblockstep-cuda.so may be
  std::vector<std::string> torch_folders = {};  ///< where libtorch may be: the first that has libc10.so counts
};

/// Returns the search of code in the file `binary`: beside it, in the folder of libraries beside the program's, where
/// the build put it. `torch_folder`: that of the libtorch which the process has loaded; empty: it has loaded none, and
/// that of the build counts. It is a pure function.
[[nodiscard]] Search search_from(const std::string& binary, const std::string& torch_folder);

/// Returns the search of this process.
[[nodiscard]] Search search_of_this_process();

/// Returns what a process that searches there lacks. It loads the driver's library and no other.
[[nodiscard]] Obstacle obstacle_to(const Search& search);

/// A liblockstep-cuda.so that was loaded, or why none was.
struct Library {
  const void* parts = nullptr;  ///< what its function gave; null: none was loaded
  std::string path = {};        ///< its file
  Obstacle obstacle = {};       ///< why none was loaded
};

/// Loads the library, and libtorch's libraries for CUDA with it. It is never unloaded. Thread-safe: yes.
/// Cost: half a second if there is a driver, otherwise some microseconds.
[[nodiscard]] Library open(const Search& search);

/// Returns the library of this process, which the first call opens. Programs with libtorch make that call before
/// main(): libtorch asks for CUDA once, and remembers the answer. Thread-safe: yes.
[[nodiscard]] const Library& library();

}  // namespace lockstep::cuda

#pragma GCC visibility pop
