// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/host_name.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

#include "lockstep/base/clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/base/wait_notice.h"

namespace lockstep {
namespace {

constexpr auto kTry = std::chrono::seconds(1);

// Returns the reason why the name cannot be resolved yet; empty if it can be, or if waiting does not help.
std::string why_not_yet(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int problem = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (problem == 0) ::freeaddrinfo(found);
  const bool may_come = problem == EAI_AGAIN || problem == EAI_NONAME || problem == EAI_NODATA;
  return may_come ? ::gai_strerror(problem) : "";
}

}  // namespace

void await_name(const std::string& host, const std::function<bool()>& is_asked_to_end,
                std::optional<std::chrono::milliseconds> given) {
  if (host.empty()) return;
  const Seconds limit = given ? *given : env::collective_timeout();
  // Not AwakeClock, which does not count the seconds that the resolver may block.
  const TimePoint begin = SystemClock::instance().now();
  WaitNotice notice(begin);
  for (std::string why = why_not_yet(host); !why.empty(); why = why_not_yet(host)) {
    const TimePoint now = SystemClock::instance().now();
    const Seconds left = limit - (now - begin);
    if (left.count() <= 0 || (is_asked_to_end && is_asked_to_end())) return;
    if (const auto waited = notice.due(now)) {
      log::note("waiting until the name {} can be resolved ({} so far: {}); {} ends the wait after {}", host,
                text::duration(waited->count()), why, env::timeout_variable(), text::duration(limit.count()));
    }
    std::this_thread::sleep_for(std::min<Seconds>(kTry, left));
  }
}

}  // namespace lockstep
