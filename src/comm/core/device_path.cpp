// SPDX-License-Identifier: Apache-2.0
#include "comm/core/device_path.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/core/failure.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"
#include "lockstep/flight/recorder.h"
#include "lockstep/tensor/device.h"
#include "lockstep/tensor/device_graph.h"

namespace lockstep::comm {
namespace {

// The hosts notice a death by a closed socket, and so does NCCL; a busy host may notice it this much later.
constexpr auto kNaming = std::chrono::seconds(1);
// The time limit for a transport's abort, which may hang, as NCCL's does if a peer is stopped.
constexpr auto kAbortLimit = std::chrono::seconds(1);
constexpr auto kDrainLimit = std::chrono::seconds(10);
constexpr auto kDrainLook = std::chrono::milliseconds(1);

/// The event of a collective that is still being enqueued, which may wait for peers; until then it is not done.
class LateEvent final : public DeviceEvent {
 public:
  void set(std::shared_ptr<DeviceEvent> event) {
    const std::lock_guard lock(mutex_);
    event_ = std::move(event);
  }
  /// Marks that there will be no event.
  void give_up() {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
  }
  void hold_stream() override {
    if (const auto event = get()) event->hold_stream();
  }
  bool is_done() override {
    if (const auto event = get()) return event->is_done();
    const std::lock_guard lock(mutex_);
    return given_up_;
  }

 private:
  std::shared_ptr<DeviceEvent> get() {
    const std::lock_guard lock(mutex_);
    return event_;
  }

  std::mutex mutex_;
  std::shared_ptr<DeviceEvent> event_;
  bool given_up_ = false;
};

/// An enqueued collective. `finish` enqueues later work on the waiting stream; it may be null.
class DeviceOperation final : public Operation {
 public:
  DeviceOperation(const DeviceWatch::Entry& entry, std::shared_ptr<DeviceWatch> watch, std::function<void()> finish)
      : event_(entry.event), meeting_(entry.meeting), watch_(std::move(watch)), finish_(std::move(finish)) {}

  void wait() override {
    if (const auto error = watch_->failure()) std::rethrow_exception(error);
    if (meeting_ != nullptr && meeting_->is_done()) meeting_->wait();
    event_->hold_stream();
    if (const auto finish = std::exchange(finish_, nullptr)) finish();
  }
  bool is_done() const noexcept override { return watch_->failure() != nullptr || has_ended(); }

 private:
  /// A failed device throws on every call; the watch finds that failure, and wait() throws it.
  bool has_ended() const noexcept {
    try {
      return event_->is_done();
    } catch (const std::exception&) {
      (void)watch_->look(AwakeClock::instance().now());
      return true;
    }
  }

  std::shared_ptr<DeviceEvent> event_;
  std::shared_ptr<Operation> meeting_;
  std::shared_ptr<DeviceWatch> watch_;
  std::function<void()> finish_;
};

/// A recorded collective: each replay runs it. CUDA does not allow querying its event.
class RecordedOperation final : public Operation {
 public:
  RecordedOperation(std::shared_ptr<DeviceEvent> event, std::array<at::Tensor, 2> tensors, std::function<void()> finish)
      : event_(std::move(event)), tensors_(std::move(tensors)), finish_(std::move(finish)) {}

  void wait() override {
    event_->hold_stream();
    tensors_ = {};  // from now on, the tensors' memory may be reused by later work in the recording
    if (const auto finish = std::exchange(finish_, nullptr)) finish();
  }
  bool is_done() const noexcept override { return true; }

 private:
  std::shared_ptr<DeviceEvent> event_;
  std::array<at::Tensor, 2> tensors_;
  std::function<void()> finish_;
};

}  // namespace

DevicePath::DevicePath(std::unique_ptr<DeviceBackend> transport, std::shared_ptr<OperationQueue> queue, World world,
                       std::chrono::milliseconds timeout)
    : transport_(std::move(transport)), queue_(std::move(queue)), timeout_(timeout) {
  DeviceWatch::Hooks hooks;
  hooks.problem = [this] { return transport_->problem(); };
  if (queue_ != nullptr) hooks.check_group = [this](const Collective& under_way) { queue_->runner().check(under_way); };
  if (queue_ != nullptr)
    hooks.on_long_wait = [group = queue_->number()](const Collective& collective, bool ends) {
      flight::note_on_device({.name = name_of(collective.call.kind),
                              .sequence = collective.call.sequence,
                              .bytes = collective.bytes,
                              .group = group,
                              .bucket = collective.bucket,
                              .buckets = collective.buckets},
                             ends);
    };
  hooks.naming = kNaming;
  hooks.failed = [this](const std::exception_ptr& error) { fail(error); };
  watch_ = std::make_shared<DeviceWatch>(std::move(world), std::move(hooks));
  watch_->start();
}

DevicePath::~DevicePath() { close(false); }

bool DevicePath::takes(const Collective& collective, const at::Tensor& input, const at::Tensor& output) const {
  const auto here = [&](const at::Tensor& tensor) {
    return !tensor.defined() || tensor.device() == transport_->device();
  };
  return (input.defined() || output.defined()) && here(input) && here(output) && transport_->takes(collective);
}

Work DevicePath::submit(Collective collective, const at::Tensor& input, const at::Tensor& output) {
  if (const auto error = watch_->failure()) std::rethrow_exception(error);
  const at::Tensor from = input.defined() ? input.detach().contiguous() : input;
  const bool in_place = input.is_same(output);
  at::Tensor to = in_place ? from : output;
  if (to.defined() && !to.is_contiguous()) to = output.detach().contiguous();
  if (from.defined()) collective.data = static_cast<const std::byte*>(from.data_ptr());
  if (to.defined()) collective.output = static_cast<std::byte*>(to.data_ptr());
  std::function<void()> finish;
  if (output.defined() && to.data_ptr() != output.data_ptr()) {
    finish = [output, to] {
      const c10::InferenceMode mode(output.is_inference());  // wait() may be called in the other mode
      output.detach().copy_(to);
    };
  }
  if (tensor::is_recording()) {
    const std::lock_guard order(order_);
    auto end = transport_->enqueue(collective, from, to);
    return Work(std::make_shared<RecordedOperation>(std::move(end), std::array{from, to}, std::move(finish)));
  }
  DeviceWatch::Entry entry{.event = nullptr, .meeting = nullptr, .collective = collective, .tensors = {from, to}};
  watch(entry, [&] { return transport_->enqueue(entry.collective, from, to); });
  return Work(std::make_shared<DeviceOperation>(entry, watch_, std::move(finish)));
}

void DevicePath::replay(std::uint64_t recorded, const std::function<void()>& launch) {
  if (const auto error = watch_->failure()) std::rethrow_exception(error);
  DeviceWatch::Entry entry;
  entry.collective.call.kind = Kind::kStepGraph;
  entry.collective.call.counts_digest = recorded;
  watch(entry, [&] {
    launch();
    return transport_->mark();
  });
}

/// Starts the hosts' meeting. The watch observes the work that `enqueue` puts on a stream, until its event is done.
void DevicePath::watch(DeviceWatch::Entry& entry, const std::function<std::shared_ptr<DeviceEvent>()>& enqueue) {
  const auto event = std::make_shared<LateEvent>();
  entry.event = event;
  entry.collective.on_device = true;
  entry.collective.timeout = timeout_;
  entry.collective.deadline = AwakeClock::instance().now() + timeout_;
  const std::lock_guard order(order_);
  meet(entry);
  watch_->add(entry);
  try {
    event->set(enqueue());
  } catch (...) {
    event->give_up();
    // The peers have compared this call and would wait for it. An earlier failure is kept.
    watch_->fail(watch_->named(entry.collective, std::current_exception()));
    std::rethrow_exception(watch_->failure());
  }
}

/// Starts the hosts' meeting before the transport gets the call. The transport may first connect to peers, and only the
/// meeting knows which rank is missing.
void DevicePath::meet(DeviceWatch::Entry& entry) {
  if (queue_ == nullptr) return;
  auto meeting = std::make_shared<QueuedOperation>(entry.collective, std::array<at::Tensor, 2>{}, nullptr);
  queue_->submit(meeting);
  entry.collective.call.sequence = meeting->sequence();
  {
    const std::lock_guard lock(mutex_);
    last_meeting_ = meeting;
  }
  entry.meeting = std::move(meeting);
}

bool DevicePath::is_idle() const {
  const std::lock_guard lock(mutex_);
  return watch_->under_way() == 0 && (last_meeting_ == nullptr || last_meeting_->is_done());
}

void DevicePath::close(bool orderly) noexcept {
  const auto end = AwakeClock::instance().now() + std::min<std::chrono::milliseconds>(timeout_, kDrainLimit);
  while (orderly && !is_idle() && watch_->failure() == nullptr && AwakeClock::instance().now() < end) {
    std::this_thread::sleep_for(kDrainLook);
  }
  if (!is_idle()) abort("a rank left the job while its own collectives were under way");
  watch_->stop();
}

/// Reports the error to the peers before the abort, so that they do not wait for it.
void DevicePath::fail(const std::exception_ptr& error) noexcept {
  if (queue_ != nullptr) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& reason) {
      queue_->abort(words_of(record_of(reason)));
    }
  }
  abort_transport();
}

/// Aborts on a separate thread, which is abandoned if the transport does not return.
void DevicePath::abort_transport() noexcept {
  try {
    const auto ended = std::make_shared<std::promise<void>>();
    const std::future<void> end = ended->get_future();
    start_thread("that aborts the GPU's collectives", [transport = transport_, ended] {
      tensor::adopt_device();
      transport->abort();
      ended->set_value();
    }).detach();
    (void)end.wait_for(kAbortLimit);
  } catch (const std::exception&) {
    transport_->abort();  // there is no memory for a thread
  }
}

void DevicePath::abort(const std::string& reason) noexcept {
  (void)watch_->note(std::make_exception_ptr(PeerError("the group was aborted: " + reason)));
  abort_transport();
}

}  // namespace lockstep::comm
