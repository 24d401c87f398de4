// SPDX-License-Identifier: Apache-2.0
// Reads the part of Python's pickle that torch.save emits for tensors and plain values. It never calls Python code: the
// few functions and classes in such files are known by name, and every other name is rejected. It does not use
// libtorch. docs/formats/torch_file.md has the grammar.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/formats/element_type.h"
#include "lockstep/base/result.h"

namespace lockstep::checkpoint {

/// A value's index in Pickle::nodes.
using PickleId = std::uint32_t;

enum class PickleKind { kNone, kBool, kInt, kReal, kText, kList, kTuple, kDict, kTensor, kStorage, kName };

/// One value. Fields that its kind does not use are empty.
struct PickleNode {
  PickleKind kind = PickleKind::kNone;
  std::int64_t integer = 0;  ///< kBool, kInt; kStorage, kTensor: index in Pickle::storages or tensors; kDict: its class
  double real = 0;
  std::string text;             ///< kText; kName: "module.name"
  std::vector<PickleId> items;  ///< items of a list or tuple; a dict has key, value, key, value
};

inline constexpr std::int64_t kPickleOrdered = 1;  ///< PickleNode::integer of an OrderedDict

/// A storage of tensors: the member data/<key> of the file.
struct PickleStorage {
  std::string key;
  ElementType type = ElementType::kF32;
  std::uint64_t elements = 0;
  bool untyped = false;  ///< if true, `elements` counts bytes, and each tensor has its own type
};

struct PickleTensor {
  std::uint64_t storage = 0;  ///< index in Pickle::storages
  ElementType type = ElementType::kF32;
  std::int64_t offset = 0;  ///< offset in the storage, in elements
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

/// The result of reading a pickle: a graph without cycles, at most kPickleMostDepth deep. Expanded to a tree, it has at
/// most kPickleMostValues values.
struct Pickle {
  std::vector<PickleNode> nodes;
  std::vector<PickleStorage> storages;
  std::map<std::string, std::uint64_t> storage_places;  ///< index in `storages` by key
  std::vector<PickleTensor> tensors;
  PickleId root = 0;
};

inline constexpr std::uint64_t kPickleMostBytes = 256U << 20U;
inline constexpr std::uint64_t kPickleMostValues = 2'000'000;
inline constexpr std::uint64_t kPickleMostTextBytes = 256U << 20U;
inline constexpr int kPickleMostDepth = 64;
inline constexpr std::size_t kMostTensorDimensions = 64;  // more than libtorch's operators accept

/// Reads a whole pickle. On success only the kinds kNone to kTensor can be reached from the root, keys are unique
/// strings and integers, and every tensor is inside its storage. An error names the opcode, its effect, and the byte.
/// Throws only if memory runs out.
[[nodiscard]] Result<Pickle> parse_pickle(std::string_view bytes);

}  // namespace lockstep::checkpoint
