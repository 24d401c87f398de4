// SPDX-License-Identifier: Apache-2.0
// The functions and classes that a pickle may name, and what stands for their results. None of them is Python's: each
// is a few lines here.
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

/// What "module.name" means; `type` for a storage's class and a dtype.
struct KnownPickleName {
  PickleName name = PickleName::kOrderedDict;
  ElementType type = ElementType::kU8;
};

[[nodiscard]] std::optional<KnownPickleName> find_pickle_name(std::string_view full_name);

/// Calls a name with a tuple of arguments: the new value, added to `pickle`. Fails with what is wrong with them.
[[nodiscard]] Result<PickleId> call_pickle_name(Pickle& pickle, KnownPickleName name, const PickleNode& arguments);

/// The storage that a persistent id names. Fails where it is none, or the file has named it otherwise before.
[[nodiscard]] Result<PickleId> load_pickle_storage(Pickle& pickle, const PickleNode& id);

}  // namespace lockstep::checkpoint
