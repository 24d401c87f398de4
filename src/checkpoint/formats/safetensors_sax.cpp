// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/safetensors_sax.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/formats/safetensors_header.h"

#include "lockstep/base/json.h"

namespace lockstep::checkpoint {
namespace {

/// The reader's position in the grammar; each accepts few kinds of events and refuses all others.
enum class Place { kStart, kTop, kEntry, kTensor, kDType, kShape, kOffsets, kMetadata, kMetadataValue, kArray, kDone };

/// nlohmann's SAX interface. Every event returns false to stop; error() then says why.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return refuse("null"); }
  bool boolean(bool /*value*/) override { return refuse("a boolean"); }
  bool number_integer(number_integer_t value) override { return refuse(fmt::format("the number {}", value)); }
  bool number_float(number_float_t /*value*/, const string_t& text) override { return refuse("the number " + text); }
  bool binary(binary_t& /*value*/) override { return refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kArray) return refuse(fmt::format("the number {}", value));
    if (numbers_.size() >= kMaxDimensions) return stop(fmt::format("'{}' lists too many numbers", tensor_.name));
    numbers_.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kDType) {
      tensor_.dtype = value;
      return go(Place::kTensor);
    }
    if (place_ == Place::kMetadataValue) {
      if (!header_.metadata.emplace(key_, value).second) return stop(fmt::format("metadata '{}' stands twice", key_));
      return go(Place::kMetadata);
    }
    return refuse("a text");
  }

  bool start_object(std::size_t /*elements*/) override {
    if (place_ == Place::kStart) return go(Place::kTop);
    if (place_ != Place::kEntry) return refuse("an object");
    if (key_ == "__metadata__") return go(Place::kMetadata);
    tensor_ = RawTensor{key_, {}, {}, {}};
    tensor_keys_.clear();
    return go(Place::kTensor);
  }

  bool key(string_t& value) override {
    key_ = value;
    if (place_ == Place::kTop) {
      if (!names_.insert(value).second) return stop(fmt::format("'{}' stands twice", value));
      return go(Place::kEntry);
    }
    if (place_ == Place::kMetadata) return go(Place::kMetadataValue);
    if (!tensor_keys_.insert(value).second) return stop(fmt::format("'{}' of '{}' stands twice", value, tensor_.name));
    if (value == "dtype") return go(Place::kDType);
    if (value == "shape") return go(Place::kShape);
    if (value == "data_offsets") return go(Place::kOffsets);
    return stop(fmt::format("tensor '{}' has the unknown key '{}'", tensor_.name, value));
  }

  bool end_object() override {
    if (place_ == Place::kTop) return go(Place::kDone);
    if (place_ == Place::kTensor) {
      if (tensor_keys_.size() != 3) return stop(fmt::format("tensor '{}' lacks a key", tensor_.name));
      header_.tensors.push_back(tensor_);
    }
    return go(Place::kTop);
  }

  bool start_array(std::size_t /*elements*/) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return refuse("a list");
    array_ = place_;
    numbers_.clear();
    return go(Place::kArray);
  }

  bool end_array() override {
    if (array_ == Place::kShape) {
      tensor_.shape = numbers_;
      return go(Place::kTensor);
    }
    if (numbers_.size() != 2) return stop(fmt::format("tensor '{}' has {} offsets", tensor_.name, numbers_.size()));
    tensor_.offsets = {numbers_[0], numbers_[1]};
    return go(Place::kTensor);
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) override {
    return stop(fmt::format("the header is no JSON at byte {}", position));
  }

  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] RawHeader take() { return std::move(header_); }

 private:
  bool go(Place next) {
    place_ = next;
    return true;
  }
  bool stop(std::string why) {
    error_ = std::move(why);
    return false;
  }
  bool refuse(const std::string& what) {
    if (place_ == Place::kStart) return stop(fmt::format("the header is {}, no object", what));
    return stop(fmt::format("the header has {} at '{}' where none may stand", what, key_));
  }

  Place place_ = Place::kStart;
  Place array_ = Place::kShape;
  std::string key_;
  std::set<std::string> names_;
  std::set<std::string> tensor_keys_;
  std::vector<std::uint64_t> numbers_;
  RawTensor tensor_;
  RawHeader header_;
  std::string error_;
};

}  // namespace

Result<RawHeader> read_header_json(std::string_view json) {
  // nlohmann would skip a byte order mark and leading space; the format has neither.
  if (json.empty() || json.front() != '{') return Failure{"the header does not begin with '{'"};
  HeaderReader reader;
  try {
    if (!read_json_events(json, {.bytes = json.size(), .values = json.size()}, reader)) return Failure{reader.error()};
  } catch (const JsonError& error) {
    return Failure{"the header: " + error.message()};
  }
  return reader.take();
}

}  // namespace lockstep::checkpoint
