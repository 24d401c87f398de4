// SPDX-License-Identifier: Apache-2.0
// connect_store() for a process that may be asked to end while it waits.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "lockstep/store/store.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Does the same as connect_store(), but calls `is_asked_to_end` about once a second, and gives up if it returns true.
[[nodiscard]] std::shared_ptr<Store> reach_store(const StoreAddress& address, std::chrono::milliseconds timeout,
                                                 std::chrono::milliseconds answer_limit,
                                                 const std::function<bool()>& is_asked_to_end);

}  // namespace lockstep

#pragma GCC visibility pop
