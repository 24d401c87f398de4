// SPDX-License-Identifier: Apache-2.0
// A checkpoint's manifest as plain values, without libtorch. docs/formats/checkpoint.md has the grammar.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// Identifies a file's content.
struct FileDigest {
  std::uint64_t bytes = 0;  ///< the file's size
  std::string xxh3_128;     ///< 32 hexadecimal digits, most significant first

  bool operator==(const FileDigest&) const = default;
};

/// The facts about a run that a checkpoint holds besides its state.
struct CheckpointMeta {
  std::int64_t step = 0;           ///< finished optimizer steps
  std::int64_t replicas = 1;       ///< number of data-parallel replicas; the result depends on it
  std::int64_t threads = 1;        ///< libtorch threads per replica
  std::string configuration_hash;  ///< hash of the settings that change the result
  std::string digest_fold = {};    ///< fold of the step digests up to this step, 16 hexadecimal digits; empty if none

  bool operator==(const CheckpointMeta&) const = default;
};

/// The content of manifest.json.
struct Manifest {
  std::int64_t format_version = 1;  ///< 1: one rank wrote it; 2: several ranks wrote one part each
  CheckpointMeta meta;              ///< the step and facts about the run
  std::string libtorch;         ///< its version; equal digests are guaranteed only within a version and instruction set
  std::string instruction_set;  ///< "AVX512"
  std::string blas;             ///< "OpenBLAS 0.3.21 Cooperlake"; empty: unknown
  std::string kernel_variables = {};        ///< variables that choose kernels: "ATEN_CPU_CAPABILITY=avx2", or "none";
                                            ///< empty: unknown
  std::map<std::string, FileDigest> files;  ///< sizes and hashes by file name ("model.safetensors")

  bool operator==(const Manifest&) const = default;
};

}  // namespace lockstep

#pragma GCC visibility pop
