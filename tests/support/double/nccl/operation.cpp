// SPDX-License-Identifier: Apache-2.0
#include "operation.h"

#include "numbers.h"

namespace lockstep::testing::nccl_double {

std::size_t bytes_of(const Operation& operation) { return operation.count * size_of(operation.type); }

std::size_t bytes_read(const Operation& operation, const Place& place) {
  if (operation.from == nullptr || (operation.kind == Kind::kBroadcast && operation.peer != place.rank)) return 0;
  const bool has_parts = operation.kind == Kind::kReduceScatter;
  return bytes_of(operation) * static_cast<std::size_t>(has_parts ? place.world : 1);
}

std::size_t bytes_written(const Operation& operation, const Place& place) {
  if (operation.to == nullptr || (operation.kind == Kind::kReduce && operation.peer != place.rank)) return 0;
  const bool has_parts = operation.kind == Kind::kAllGather;
  return bytes_of(operation) * static_cast<std::size_t>(has_parts ? place.world : 1);
}

std::uint64_t number_of(const Operation& operation) {
  const bool is_between_two = operation.kind == Kind::kSend || operation.kind == Kind::kRecv;
  const auto kind = static_cast<std::uint64_t>(is_between_two ? Kind::kSend : operation.kind);
  const bool has_root = operation.kind == Kind::kReduce || operation.kind == Kind::kBroadcast;
  std::uint64_t number = kind + 1;
  for (const std::uint64_t part :
       {static_cast<std::uint64_t>(operation.count), static_cast<std::uint64_t>(operation.type),
        static_cast<std::uint64_t>(operation.op), static_cast<std::uint64_t>(has_root ? operation.peer : 0)}) {
    number = number * 1'000'003 + part;
  }
  return number == 0 ? 1 : number;
}

}  // namespace lockstep::testing::nccl_double
