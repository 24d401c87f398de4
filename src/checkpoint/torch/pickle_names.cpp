// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/pickle_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::array<std::pair<std::string_view, PickleName>, 11> kPickleNames{{
    {"collections.OrderedDict", PickleName::kOrderedDict},
    {"collections.Counter", PickleName::kCounter},
    {"torch.Size", PickleName::kSize},
    {"torch.device", PickleName::kDevice},
    {"torch._utils._rebuild_tensor", PickleName::kRebuildTensor},
    {"torch._utils._rebuild_tensor_v2", PickleName::kRebuildTensorV2},
    {"torch._utils._rebuild_tensor_v3", PickleName::kRebuildTensorV3},
    {"torch._utils._rebuild_parameter", PickleName::kRebuildParameter},
    {"torch.storage.UntypedStorage", PickleName::kUntypedStorage},
    {"torch.storage._UntypedStorage", PickleName::kUntypedStorage},
    {"torch.UntypedStorage", PickleName::kUntypedStorage},
}};

PickleId add_pickle_node(Pickle& pickle, PickleNode node) {
  pickle.nodes.push_back(std::move(node));
  return static_cast<PickleId>(pickle.nodes.size() - 1);
}

const PickleNode& item_of(const Pickle& pickle, const PickleNode& list, std::size_t i) {
  return pickle.nodes.at(list.items.at(i));
}

/// Reads a tuple or list of non-negative integers.
std::optional<std::vector<std::int64_t>> counts_of(const Pickle& pickle, const PickleNode& node) {
  if (node.kind != PickleKind::kTuple && node.kind != PickleKind::kList) return std::nullopt;
  if (node.items.size() > kMostTensorDimensions) return std::nullopt;
  std::vector<std::int64_t> counts;
  for (const PickleId id : node.items) {
    const PickleNode& item = pickle.nodes.at(id);
    if (item.kind != PickleKind::kInt || item.integer < 0) return std::nullopt;
    counts.push_back(item.integer);
  }
  return counts;
}

/// Returns how many elements of a storage the tensor spans, counted from the storage's start. Fails if that number, or
/// the tensor's number of elements, does not fit into 63 bits.
Result<std::uint64_t> reach_of(const PickleTensor& tensor) {
  __extension__ using Wide = unsigned __int128;
  constexpr Wide kMost = INT64_MAX;
  Wide reach = static_cast<std::uint64_t>(tensor.offset) + Wide{1};
  Wide count = row_of(tensor.type).bytes;
  bool empty = false;
  for (std::size_t d = 0; d < tensor.sizes.size(); ++d) {
    const auto size = static_cast<std::uint64_t>(tensor.sizes[d]);
    empty = empty || size == 0;
    const Wide steps = size == 0 ? 0 : size - 1;
    reach += steps * static_cast<std::uint64_t>(tensor.strides[d]);
    count *= size == 0 ? 1 : size;
    if (reach > kMost || count > kMost) return Failure{"is larger than any memory"};
  }
  return empty ? static_cast<std::uint64_t>(tensor.offset) : static_cast<std::uint64_t>(reach);
}

Result<PickleId> add_tensor(Pickle& pickle, PickleTensor tensor) {
  const PickleStorage& storage = pickle.storages.at(tensor.storage);
  const std::uint64_t bytes = row_of(tensor.type).bytes;
  const std::uint64_t elements = storage.untyped ? storage.elements / bytes : storage.elements;
  const auto reach = reach_of(tensor);
  if (!reach) return Failure{fmt::format("a tensor in storage '{}' {}", storage.key, reach.error())};
  if (*reach > elements) {
    return Failure{
        fmt::format("a tensor reaches to element {} of storage '{}', which has {}", *reach, storage.key, elements)};
  }
  pickle.tensors.push_back(std::move(tensor));
  PickleNode node{PickleKind::kTensor, static_cast<std::int64_t>(pickle.tensors.size() - 1), 0, {}, {}};
  return add_pickle_node(pickle, std::move(node));
}

/// Returns true if the argument after the first `count` is there and not empty: PyTorch's {"conj": True, "neg": True}
/// of a view that conjugates or negates its storage.
bool has_metadata(const Pickle& pickle, const PickleNode& arguments, std::size_t count) {
  if (arguments.items.size() <= count) return false;
  const PickleNode& metadata = item_of(pickle, arguments, count);
  return metadata.kind != PickleKind::kNone && !(metadata.kind == PickleKind::kDict && metadata.items.empty());
}

/// The arguments are (storage, offset, sizes, strides, ...). In version 3 the storage's size is in bytes, and the
/// seventh argument is the dtype. The last argument of versions 2 and 3, which may be missing, is the metadata.
Result<PickleId> rebuild_tensor(Pickle& pickle, PickleName version, const PickleNode& arguments) {
  const std::size_t least = version == PickleName::kRebuildTensor ? 4 : version == PickleName::kRebuildTensorV2 ? 6 : 7;
  if (arguments.items.size() < least || arguments.items.size() > least + 1) {
    return Failure{fmt::format("a tensor of {} parts", arguments.items.size())};
  }
  if (version != PickleName::kRebuildTensor && has_metadata(pickle, arguments, least)) {
    return Failure{"a conjugated or negated view: save tensor.resolve_conj().resolve_neg() in its place"};
  }
  const PickleNode& storage = item_of(pickle, arguments, 0);
  const PickleNode& offset = item_of(pickle, arguments, 1);
  const auto sizes = counts_of(pickle, item_of(pickle, arguments, 2));
  const auto strides = counts_of(pickle, item_of(pickle, arguments, 3));
  if (storage.kind != PickleKind::kStorage) return Failure{"a tensor without a storage"};
  const auto place = static_cast<std::uint64_t>(storage.integer);
  const PickleStorage& at = pickle.storages.at(place);
  if (offset.kind != PickleKind::kInt || offset.integer < 0 || !sizes || !strides || sizes->size() != strides->size()) {
    return Failure{fmt::format("a tensor in storage '{}' whose offset, sizes and strides are not counts", at.key)};
  }
  PickleTensor tensor{place, at.type, offset.integer, *sizes, *strides};
  if (at.untyped != (version == PickleName::kRebuildTensorV3)) {
    return Failure{fmt::format("a tensor whose storage '{}' has no element type, or two", at.key)};
  }
  if (at.untyped) {
    const PickleNode& dtype = item_of(pickle, arguments, 6);
    const auto known = dtype.kind == PickleKind::kText ? find_pickle_name(dtype.text) : std::nullopt;
    if (!known || known->name != PickleName::kDType) return Failure{"a tensor without a dtype"};
    tensor.type = known->type;
  }
  return add_tensor(pickle, std::move(tensor));
}

/// Builds OrderedDict(), or OrderedDict([[key, value], ...]) as Python 2 wrote it.
Result<PickleId> ordered_dict(Pickle& pickle, const PickleNode& arguments) {
  PickleNode dict{PickleKind::kDict, kPickleOrdered, 0, {}, {}};
  if (arguments.items.size() > 1) return Failure{"an OrderedDict of several arguments"};
  if (arguments.items.size() == 1) {
    const PickleNode& pairs = item_of(pickle, arguments, 0);
    if (pairs.kind != PickleKind::kList) return Failure{"an OrderedDict that is not made of a list"};
    for (const PickleId id : pairs.items) {
      const PickleNode& pair = pickle.nodes.at(id);
      const bool fits = (pair.kind == PickleKind::kList || pair.kind == PickleKind::kTuple) && pair.items.size() == 2;
      if (!fits) return Failure{"an OrderedDict that is not made of pairs"};
      dict.items.insert(dict.items.end(), pair.items.begin(), pair.items.end());
    }
  }
  return add_pickle_node(pickle, std::move(dict));
}

Result<PickleId> device_text(Pickle& pickle, const PickleNode& arguments) {
  PickleNode text{PickleKind::kText, 0, 0, {}, {}};
  const std::size_t count = arguments.items.size();
  if (count == 0 || count > 2 || item_of(pickle, arguments, 0).kind != PickleKind::kText) return Failure{"a device"};
  text.text = item_of(pickle, arguments, 0).text;
  if (count == 2) {
    if (item_of(pickle, arguments, 1).kind != PickleKind::kInt) return Failure{"a device"};
    text.text += fmt::format(":{}", item_of(pickle, arguments, 1).integer);
  }
  return add_pickle_node(pickle, std::move(text));
}

/// Returns the only argument, which must be of `kind`.
Result<PickleId> only_argument(const Pickle& pickle, const PickleNode& arguments, PickleKind kind, const char* fault) {
  if (arguments.items.size() != 1 || item_of(pickle, arguments, 0).kind != kind) return Failure{fault};
  return arguments.items[0];
}

bool is_plain_key(std::string_view key) {
  return !key.empty() && key.size() < 256 && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  });
}

}  // namespace

std::optional<KnownPickleName> find_pickle_name(std::string_view full_name) {
  for (const auto& [name, meaning] : kPickleNames) {
    if (name == full_name) return KnownPickleName{meaning, ElementType::kU8};
  }
  if (!full_name.starts_with("torch.")) return std::nullopt;
  full_name.remove_prefix(6);
  for (const ElementTypeRow& row : kElementTypes) {
    if (row.storage == full_name) return KnownPickleName{PickleName::kStorageType, row.type};
    if (row.dtype == full_name) return KnownPickleName{PickleName::kDType, row.type};
  }
  return std::nullopt;
}

Result<PickleId> call_pickle_name(Pickle& pickle, KnownPickleName name, const PickleNode& arguments) {
  switch (name.name) {
    case PickleName::kOrderedDict:
      return ordered_dict(pickle, arguments);
    case PickleName::kCounter:
      return only_argument(pickle, arguments, PickleKind::kDict, "a Counter that is not made of a dict");
    case PickleName::kSize:
      return only_argument(pickle, arguments, PickleKind::kTuple, "a Size that is not made of a tuple");
    case PickleName::kDevice:
      return device_text(pickle, arguments);
    case PickleName::kRebuildTensor:
    case PickleName::kRebuildTensorV2:
    case PickleName::kRebuildTensorV3:
      return rebuild_tensor(pickle, name.name, arguments);
    case PickleName::kRebuildParameter:
      if (arguments.items.size() != 3 || item_of(pickle, arguments, 0).kind != PickleKind::kTensor) {
        return Failure{"a parameter without a tensor"};
      }
      return arguments.items[0];
    default:
      return Failure{"a type is called"};
  }
}

Result<PickleId> load_pickle_storage(Pickle& pickle, const PickleNode& id) {
  const auto text_at = [&](std::size_t i, PickleKind kind) {
    return id.items.size() > i && item_of(pickle, id, i).kind == kind ? &item_of(pickle, id, i) : nullptr;
  };
  const PickleNode* word = text_at(0, PickleKind::kText);
  const PickleNode* type = text_at(1, PickleKind::kName);
  const PickleNode* key = text_at(2, PickleKind::kText);
  const PickleNode* elements = text_at(4, PickleKind::kInt);
  const bool shape = id.kind == PickleKind::kTuple && (id.items.size() == 5 || id.items.size() == 6);
  if (!shape || word == nullptr || word->text != "storage" || type == nullptr || key == nullptr ||
      text_at(3, PickleKind::kText) == nullptr || elements == nullptr || elements->integer < 0) {
    return Failure{"a persistent id that is not ('storage', type, key, location, elements)"};
  }
  if (!is_plain_key(key->text)) return Failure{fmt::format("a storage with the key {}", text::json_quote(key->text))};
  const auto known = find_pickle_name(type->text);
  PickleStorage storage{key->text, known->type, static_cast<std::uint64_t>(elements->integer),
                        known->name == PickleName::kUntypedStorage};
  if (!storage.untyped && known->name != PickleName::kStorageType) {
    return Failure{fmt::format("a storage of the type {}", type->text)};
  }
  const auto [entry, is_new] = pickle.storage_places.emplace(storage.key, pickle.storages.size());
  if (is_new) {
    pickle.storages.push_back(std::move(storage));
  } else if (const PickleStorage& before = pickle.storages[entry->second];
             before.type != storage.type || before.elements != storage.elements || before.untyped != storage.untyped) {
    return Failure{fmt::format("storage '{}' with two types or sizes", storage.key)};
  }
  return add_pickle_node(pickle, {PickleKind::kStorage, static_cast<std::int64_t>(entry->second), 0, {}, {}});
}

}  // namespace lockstep::checkpoint
