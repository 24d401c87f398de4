// SPDX-License-Identifier: Apache-2.0
// Exchanges small values between ranks: anything that nlohmann::json can hold (numbers, strings, vectors, maps, and a
// user's types with to_json and from_json). Use it for settings, counts and names; send data as tensors.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/comm/process_group.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Returns every rank's bytes, in rank order.
/// Collective: yes.  Blocks: yes.  Throws: anything Work::wait() throws.
[[nodiscard]] std::vector<std::string> all_gather_bytes(ProcessGroup& group, const std::string& bytes);

/// Returns the bytes of rank `root`; the `bytes` of other ranks are ignored.
/// Collective: yes. Blocks: yes. Throws: anything Work::wait() throws; UsageError if `root` is not a rank of the group.
[[nodiscard]] std::string broadcast_bytes(ProcessGroup& group, const std::string& bytes, int root);

namespace comm {

// CBOR keeps every bit of a double; JSON text loses the bits of a NaN.
/// Returns the bytes of a plain value, a string, or a vector of either, for all_gather_object() and similar functions.
template <class Value>
std::string pack_object(const Value& value) {
  std::string bytes;
  nlohmann::json::to_cbor(nlohmann::json(value), bytes);
  return bytes;
}

/// The limits on one rank's message to another.
inline constexpr JsonLimits kObjectLimits{.bytes = 1U << 30U, .values = 100'000'000, .depth = 512};

/// Returns the value that pack_object() turned into `bytes`. Throws: DataError if they do not hold a packed value or
/// exceed the limits; nlohmann::json::exception if the value is not a Value.
template <class Value>
Value unpack_object(const std::string& bytes) {
  return parse_cbor(bytes, kObjectLimits).template get<Value>();
}

}  // namespace comm

/// Returns every rank's value, in rank order.
/// Collective: yes.  Blocks: yes.  Throws: anything Work::wait() throws.
/// Example: auto counts = lockstep::all_gather_object(job.group(), dataset.size());
template <class Value>
[[nodiscard]] std::vector<Value> all_gather_object(ProcessGroup& group, const Value& value) {
  std::vector<Value> values;
  for (const std::string& bytes : all_gather_bytes(group, comm::pack_object(value))) {
    values.push_back(comm::unpack_object<Value>(bytes));
  }
  return values;
}

/// Returns the value of rank `root`.
/// Collective: yes.  Blocks: yes.  Throws: anything Work::wait() throws.
template <class Value>
[[nodiscard]] Value broadcast_object(ProcessGroup& group, const Value& value, int root) {
  return comm::unpack_object<Value>(broadcast_bytes(group, comm::pack_object(value), root));
}

}  // namespace lockstep

#pragma GCC visibility pop
