// SPDX-License-Identifier: Apache-2.0
// The functions and classes that a pickle may name. Calling one runs a few lines of C++ here, never Python code.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/torch/pickle_parse.h"

namespace lockstep::checkpoint {

enum class PickleName {
  kOrderedDict,
  kCounter,
  kSize,
  kDevice,
  kRebuildTensor,
  kRebuildTensorV2,
  kRebuildTensorV3,
  kRebuildParameter,
  kStorageType,
  kUntypedStorage,
  kDType,
};

/// The meaning of "module.name". `type` is set if it is the class of a storage or a dtype.
struct KnownPickleName {
  PickleName name = PickleName::kOrderedDict;
  ElementType type = ElementType::kU8;
};

[[nodiscard]] std::optional<KnownPickleName> find_pickle_name(std::string_view full_name);

/// Calls a name with a tuple of arguments, adds the new value to `pickle` and returns it. A failure says what is wrong
/// with the arguments.
[[nodiscard]] Result<PickleId> call_pickle_name(Pickle& pickle, KnownPickleName name, const PickleNode& arguments);

/// Returns the storage that a persistent id names. Fails if the id is invalid, or contradicts an earlier id of the
/// storage.
[[nodiscard]] Result<PickleId> load_pickle_storage(Pickle& pickle, const PickleNode& id);

}  // namespace lockstep::checkpoint
