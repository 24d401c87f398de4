// SPDX-License-Identifier: Apache-2.0
// Writes the pickles that torch.load(weights_only=True) reads: protocol 2, plain dicts. It does not use libtorch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/torch/pickle_opcodes.h"
#include "checkpoint/torch/pickle_parse.h"

namespace lockstep::checkpoint {

class PickleWriter {
 public:
  PickleWriter();

  void add_none() { add(PickleOpcode::kNone); }
  void add_bool(bool flag) { add(flag ? PickleOpcode::kNewTrue : PickleOpcode::kNewFalse); }
  void add_integer(std::int64_t value);
  void add_real(double value);  ///< rejected by weights_only in PyTorch 1.13; accepted by 2.x
  void add_text(std::string_view text);
  void begin_list() { begin(PickleOpcode::kEmptyList); }
  void end_list() { add(PickleOpcode::kAppends); }
  /// Begins a dict. Add keys and values alternately until end_dict().
  void begin_dict() { begin(PickleOpcode::kEmptyDict); }
  void end_dict() { add(PickleOpcode::kSetItems); }
  /// Adds a tensor. `tensor.storage` becomes the key of a storage of `elements` elements.
  void add_tensor(const PickleTensor& tensor, std::uint64_t elements);

  /// Returns the whole pickle, which has one value.
  [[nodiscard]] std::string finish();

 private:
  void add(PickleOpcode opcode) { bytes_ += static_cast<char>(opcode); }
  void begin(PickleOpcode opcode);
  void add_name(std::string_view module, std::string_view name);
  void add_counts(const std::vector<std::int64_t>& counts);

  std::string bytes_;
};

}  // namespace lockstep::checkpoint
