// SPDX-License-Identifier: Apache-2.0
#include "comm/device_path.h"

#include <array>
#include <functional>
#include <utility>

#include "comm/failure.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

/// A collective that was enqueued. `finish`: what the stream that waits has to do then; may be empty.
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
  /// A device that failed says so at once and for ever: the watch gives its verdict, and wait() throws it.
  bool has_ended() const noexcept {
    try {
      return event_->is_done();
    } catch (const std::exception&) {
      (void)watch_->look(std::chrono::steady_clock::now());
      return true;
    }
  }

  std::shared_ptr<DeviceEvent> event_;
  std::shared_ptr<Operation> meeting_;
  std::shared_ptr<DeviceWatch> watch_;
  std::function<void()> finish_;
};

}  // namespace

DevicePath::DevicePath(std::unique_ptr<DeviceTransport> transport, std::shared_ptr<OperationQueue> queue, World world,
                       std::chrono::milliseconds timeout)
    : transport_(std::move(transport)), queue_(std::move(queue)), timeout_(timeout) {
  DeviceWatch::Hooks hooks;
  hooks.problem = [this] { return transport_->problem(); };
  if (queue_ != nullptr) hooks.check_group = [this](const Collective& under_way) { queue_->runner().check(under_way); };
  hooks.failed = [this](const std::exception_ptr& error) { fail(error); };
  watch_ = std::make_shared<DeviceWatch>(std::move(world), std::move(hooks));
  watch_->start();
}

DevicePath::~DevicePath() { watch_->stop(); }

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
  collective.on_device = true;
  collective.timeout = timeout_;
  collective.deadline = std::chrono::steady_clock::now() + timeout_;
  DeviceWatch::Entry entry{.event = transport_->enqueue(collective, from, to), .collective = collective};
  entry.tensors = {from, to};
  if (queue_ != nullptr) {
    auto meeting = std::make_shared<QueuedOperation>(collective, std::array<at::Tensor, 2>{}, nullptr);
    queue_->submit(meeting);
    entry.collective.what.sequence = meeting->sequence();
    entry.meeting = std::move(meeting);
  }
  std::function<void()> finish;
  if (output.defined() && to.data_ptr() != output.data_ptr()) {
    finish = [output, to] { output.detach().copy_(to); };
  }
  auto operation = std::make_shared<DeviceOperation>(entry, watch_, std::move(finish));
  watch_->add(std::move(entry));
  return Work(std::move(operation));
}

void DevicePath::fail(const std::exception_ptr& error) noexcept {
  transport_->abort();
  if (queue_ == nullptr) return;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& reason) {
    queue_->abort(typed_text(reason));
  }
}

void DevicePath::abort(const std::string& reason) noexcept {
  (void)watch_->note(std::make_exception_ptr(PeerError("the group was aborted: " + reason)));
  transport_->abort();
}

}  // namespace lockstep::comm
