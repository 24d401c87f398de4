// SPDX-License-Identifier: Apache-2.0
// A call of a collective, as the make-believe NCCL keeps it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/base/nccl_library.h"

namespace lockstep::testing::nccl_double {

enum class Kind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kSend, kRecv };

struct Operation {
  Kind kind = Kind::kAllReduce;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t count = 0;  ///< elements; of a part, where each rank has one
  nccl::DataType type = nccl::kUint8;
  nccl::RedOp op = nccl::kSum;
  int peer = 0;  ///< the root, or with whom
  nccl::Stream stream = nullptr;
};

/// Who takes part in it.
struct Place {
  int rank = 0;
  int world = 1;
};

/// Of `count` elements.
[[nodiscard]] std::size_t bytes_of(const Operation& operation);

/// How many bytes this rank reads at `from`, or writes at `to`. A rank that is no root does not read or write where a
/// root does.
[[nodiscard]] std::size_t bytes_read(const Operation& operation, const Place& place);
[[nodiscard]] std::size_t bytes_written(const Operation& operation, const Place& place);

/// Returns a number that is equal on ranks that have called the same; never 0.
[[nodiscard]] std::uint64_t number_of(const Operation& operation);

}  // namespace lockstep::testing::nccl_double
