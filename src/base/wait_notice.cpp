// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/wait_notice.h"

namespace lockstep {

constexpr auto kFirstNotice = std::chrono::seconds(3);
constexpr auto kNoticeEvery = std::chrono::seconds(30);

WaitNotice::WaitNotice(TimePoint begin) : begin_(begin), next_(begin + kFirstNotice) {}

std::optional<Seconds> WaitNotice::due(TimePoint now) {
  if (now < next_) return std::nullopt;
  while (next_ <= now) next_ += kNoticeEvery;
  return Seconds(now - begin_);
}

}  // namespace lockstep
