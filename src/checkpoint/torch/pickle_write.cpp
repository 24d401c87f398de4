// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/pickle_write.h"

#include <fmt/format.h>

#include <bit>
#include <limits>

#include "checkpoint/formats/little_endian.h"

namespace lockstep::checkpoint {

PickleWriter::PickleWriter() {
  add(PickleOpcode::kProto);
  bytes_ += '\2';
}

void PickleWriter::begin(PickleOpcode opcode) {
  add(opcode);
  add(PickleOpcode::kMark);
}

void PickleWriter::add_integer(std::int64_t value) {
  const bool narrow =
      value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max();
  add(narrow ? PickleOpcode::kBinInt : PickleOpcode::kLong1);
  if (!narrow) bytes_ += '\10';
  append_little_endian(bytes_, static_cast<std::uint64_t>(value), narrow ? 4 : 8);
}

void PickleWriter::add_real(double value) {
  add(PickleOpcode::kBinFloat);
  append_little_endian(bytes_, __builtin_bswap64(std::bit_cast<std::uint64_t>(value)), 8);
}

void PickleWriter::add_text(std::string_view text) {
  const bool narrow = text.size() <= std::numeric_limits<std::uint32_t>::max();
  add(narrow ? PickleOpcode::kBinUnicode : PickleOpcode::kBinUnicode8);
  append_little_endian(bytes_, text.size(), narrow ? 4 : 8);
  bytes_ += text;
}

void PickleWriter::add_name(std::string_view module, std::string_view name) {
  add(PickleOpcode::kGlobal);
  bytes_ += fmt::format("{}\n{}\n", module, name);
}

void PickleWriter::add_counts(const std::vector<std::int64_t>& counts) {
  add(PickleOpcode::kMark);
  for (const std::int64_t count : counts) add_integer(count);
  add(PickleOpcode::kTuple);
}

void PickleWriter::add_tensor(const PickleTensor& tensor, std::uint64_t elements) {
  add_name("torch._utils", "_rebuild_tensor_v2");
  add(PickleOpcode::kMark);

  add(PickleOpcode::kMark);
  add_text("storage");
  add_name("torch", row_of(tensor.type).storage);
  add_text(fmt::format("{}", tensor.storage));
  add_text("cpu");
  add_integer(static_cast<std::int64_t>(elements));
  add(PickleOpcode::kTuple);
  add(PickleOpcode::kBinPersId);

  add_integer(tensor.offset);
  add_counts(tensor.sizes);
  add_counts(tensor.strides);
  add_bool(false);  // requires_grad
  add_name("collections", "OrderedDict");
  add(PickleOpcode::kEmptyTuple);
  add(PickleOpcode::kReduce);
  add(PickleOpcode::kTuple);
  add(PickleOpcode::kReduce);
}

std::string PickleWriter::finish() {
  add(PickleOpcode::kStop);
  return std::move(bytes_);
}

}  // namespace lockstep::checkpoint
