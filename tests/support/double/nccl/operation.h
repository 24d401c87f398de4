// SPDX-License-Identifier: Apache-2.0
// The fake NCCL's record of a collective call.
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
  std::size_t count = 0;  ///< number of elements; of one part, if each rank has a part
  nccl::DataType type = nccl::kUint8;
  nccl::RedOp op = nccl::kSum;
  int peer = 0;  ///< root or peer
  nccl::Stream stream = nullptr;
};

/// The participants of an operation.
struct Place {
  int rank = 0;
  int world = 1;
};

/// The size in bytes of `count` elements.
[[nodiscard]] std::size_t bytes_of(const Operation& operation);

/// The bytes that this rank reads at `from`, or writes at `to`; 0 if only the root does and this rank is not the root.
[[nodiscard]] std::size_t bytes_read(const Operation& operation, const Place& place);
[[nodiscard]] std::size_t bytes_written(const Operation& operation, const Place& place);

/// Returns a number that is the same on ranks making the same call; never 0.
[[nodiscard]] std::uint64_t number_of(const Operation& operation);

}  // namespace lockstep::testing::nccl_double
