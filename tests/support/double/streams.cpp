// SPDX-License-Identifier: Apache-2.0
#include "support/double/streams.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep::testing::make_believe {

DeviceStream::DeviceStream(const c10::Stream& stream)
    : number_(Ledger::instance().add_stream(stream.device().str() + "'s stream " + std::to_string(stream.id()))) {}

void DeviceStream::enqueue(const std::string& name, const std::vector<Access>& accesses, std::function<void()> work) {
  if (const auto recorded = recording()) return recorded->add(*this, name, accesses, std::move(work));
  Ledger::instance().run(number_, name, accesses);
  lane_.push([work = std::move(work)] {
    if (ordered_delay().count() > 0) std::this_thread::sleep_for(ordered_delay());
    work();
  });
}

void DeviceStream::enqueue_or_run(const std::string& name, const std::vector<Access>& accesses,
                                  std::function<void()> work) {
  if (ordered_delay().count() > 0 || !lane_.is_idle() || is_recording())
    return enqueue(name, accesses, std::move(work));
  Ledger::instance().run(number_, name, accesses);
  const Lane::Turn turn(lane_);
  work();
}

void DeviceStream::record(std::shared_ptr<Recording> recording) {
  const std::lock_guard lock(mutex_);
  recording_ = std::move(recording);
}

std::shared_ptr<Recording> DeviceStream::recording() {
  const std::lock_guard lock(mutex_);
  return recording_;
}

Marker DeviceStream::mark() {
  if (auto recorded = recording()) {
    const std::size_t at = recorded->mark(*this);
    return {.stream = this, .at = at, .recording = std::move(recorded)};
  }
  const std::uint64_t at = lane_.pushed();
  return {.stream = this, .at = at, .clock = Ledger::instance().record(number_)};
}

void DeviceStream::hold(const Marker& marker) {
  if (marker.recording) return marker.recording->hold(*this, marker.at);
  if (marker.stream == nullptr) return;
  if (const auto own = recording()) own->refuse("dependency created on uncaptured work in another stream");
  if (marker.stream == this) return;
  Ledger::instance().hold(number_, marker.clock);
  if (marker.stream->lane_.reached(marker.at)) return;
  lane_.push([stream = marker.stream, at = marker.at] { stream->lane_.wait(at); });
}

void DeviceStream::wait() {
  if (const auto own = recording()) own->refuse_to_wait();
  const Marker now = mark();
  lane_.wait(now.at);
  Ledger::instance().waited(now.clock);
}

DeviceStream& stream_of(const c10::Stream& stream) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::pair<int, std::int64_t>, DeviceStream*>;
  const std::lock_guard lock(mutex);
  DeviceStream*& found = (*all)[{stream.device_index(), stream.id()}];
  if (found == nullptr) found = new DeviceStream(stream);
  return *found;
}

bool is_done(const Marker& marker) {
  if (marker.recording)
    marker.recording->refuse("operation not permitted on an event last recorded in a capturing stream");
  if (marker.stream != nullptr && !marker.stream->lane().reached(marker.at)) return false;
  Ledger::instance().seen(marker.clock);
  return true;
}

std::chrono::microseconds ordered_delay() {
  const char* text = std::getenv("LOCKSTEP_DOUBLE_DELAY_US");  // NOLINT(concurrency-mt-unsafe)
  return std::chrono::microseconds(text == nullptr ? 0 : std::atoi(text));
}

}  // namespace lockstep::testing::make_believe
