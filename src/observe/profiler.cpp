// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/profiler.h"
#include "lockstep/base/text.h"

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/observe/clock_offset.h"
#include "lockstep/observe/machine_rates.h"
#include "lockstep/view/profile.h"
#include "lockstep/view/trace_file.h"
#include "observe/recorder.h"

namespace lockstep::observe {
namespace {

/// The recorder of a GPU's kernels: one per process, used by one thread. On a CPU it does nothing.
class KernelRecorder {
 public:
  explicit KernelRecorder(c10::Device device) : device_(device) {}
  /// Stops recording, and drops the records.
  ~KernelRecorder();
  KernelRecorder(const KernelRecorder&) = delete;
  KernelRecorder& operator=(const KernelRecorder&) = delete;

  void start();
  /// Waits for the current stream of the device, and returns the kernels, copies and fills since start().
  [[nodiscard]] std::vector<view::DeviceCall> stop();

 private:
  c10::Device device_;
  bool on_ = false;
};

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

const torch::profiler::impl::ProfilerConfig& config() {
  static const torch::profiler::impl::ProfilerConfig kConfig(torch::profiler::impl::ProfilerState::KINETO);
  return kConfig;
}

/// Newer libtorch versions give nanoseconds, older versions microseconds.
template <class Event>
view::DeviceCall call_of(const Event& event) {
  if constexpr (requires { event.startNs(); }) {
    const auto begin = static_cast<std::int64_t>(event.startNs());
    return {event.name(), begin, begin + static_cast<std::int64_t>(event.durationNs())};
  } else {
    const auto begin = static_cast<std::int64_t>(event.startUs()) * 1000;
    return {event.name(), begin, begin + static_cast<std::int64_t>(event.durationUs()) * 1000};
  }
}

KernelRecorder::~KernelRecorder() {
  if (on_) (void)kineto::disableProfiler();
}

void KernelRecorder::start() {
  if (!device_.is_cuda()) return;
  kineto::prepareProfiler(config(), {ActivityType::CUDA});
  kineto::enableProfiler(config(), {ActivityType::CUDA});
  on_ = true;
}

std::vector<view::DeviceCall> KernelRecorder::stop() {
  if (!on_) return {};
  c10::impl::VirtualGuardImpl(device_.type()).getStream(device_).synchronize();
  on_ = false;
  const auto recorded = kineto::disableProfiler();
  std::vector<view::DeviceCall> calls;
  for (const kineto::KinetoEvent& event : recorded->events()) {
    // The events include the host's CUDA calls and synchronisation marks.
    if (event.deviceType() == device_.type() && event.name().find("Sync") == std::string::npos) {
      calls.push_back(call_of(event));
    }
  }
  return calls;
}

constexpr std::int64_t kCopiedBytes = std::int64_t{64} << 20;
constexpr std::int64_t kCopies = 5;
constexpr double kPeakSeconds = 0.3;
constexpr std::int64_t kDeviceSize = 8192;  // rows and columns of matrices that fill a GPU

std::string type_name(at::ScalarType type) { return type == at::kBFloat16 ? "bfloat16" : "float32"; }

/// If bfloat16 products are slower than float32 products, Lockstep's layers compute in float32.
view::MachineRates measure_machine(at::ScalarType type, c10::Device device) {
  view::MachineRates rates{.copied_bytes_per_s = copied_bytes_per_s(kCopiedBytes, kCopies)};
  for (const at::ScalarType each : {at::kFloat, type}) {
    PeakOptions options{.type = each, .seconds = kPeakSeconds, .device = device};
    if (device.is_cuda()) options.size = kDeviceSize;
    const double rate = peak_flops_per_s(options);
    if (rate > rates.flops_per_s) rates = {rates.copied_bytes_per_s, rate, type_name(each)};
    if (type == at::kFloat) break;
  }
  return rates;
}

}  // namespace

class Profiler::Impl {
 public:
  Impl(Job job, ProfilerOptions options) : job_(std::move(job)), options_(std::move(options)), kernels_(job_.device()) {
    if (options_.steps < 1 || options_.warmup < 1) {
      throw UsageError(fmt::format("cannot profile {} steps after {} warm-up steps", options_.steps, options_.warmup),
                       "choose at least 1 of each");
    }
  }
  ~Impl() {
    if (state_ == State::kRecording) Recorder::instance().stop();
  }

  void step() {
    if (state_ == State::kFinished) return;
    if (state_ == State::kWarmup) {
      if (++warm_ == options_.warmup) start();
      return;
    }
    last_end_ns_ = monotonic_ns();
    if (++profile.steps == options_.steps) finish();
  }

  void finish() {
    if (state_ == State::kFinished) return;
    const bool recorded = state_ == State::kRecording;
    state_ = State::kFinished;
    if (!recorded) {
      if (job_.is_main()) {
        log::note("there is no profile: the training ended after {} steps, but the first {} are only for warm-up",
                  warm_, options_.warmup);
      }
      return;
    }
    Recorder::instance().stop();
    profile.device = kernels_.stop();
    if (profile.steps == 0) return;
    collect();
    if (job_.is_main() && options_.prints) job_.print("\n{}", view::profile_text(profile, rates));
    write();
  }

  [[nodiscard]] bool is_finished() const noexcept { return state_ == State::kFinished; }

  view::Profile profile;
  view::MachineRates rates;

 private:
  enum class State { kWarmup, kRecording, kFinished };

  void start() {
    if (job_.is_main() && options_.prints) {
      log::note("the profiler now records {}, after {} for warm-up", text::counted(options_.steps, "step"),
                options_.warmup);
    }
    const ClockOffset clock = measure_clock_offset(job_);
    job_.barrier();  // so that all ranks put load on the machine at the same time
    if (options_.prints) rates = measure_machine(options_.type, job_.device());
    profile.rank = job_.rank();
    profile.world_size = job_.world_size();
    profile.host = job_.host();
    profile.clock_offset_ns = clock.offset_ns;
    profile.clock_error_ns = clock.error_ns;
    job_.barrier();
    kernels_.start();
    Recorder::instance().start(options_.parameters,
                               {.inputs = options_.inputs, .memory = !options_.inputs && !job_.device().is_cuda()});
    state_ = State::kRecording;
    profile.begin_ns = last_end_ns_ = monotonic_ns();
  }

  /// A call that is still open at the end of the last step counts up to that time.
  void collect() {
    profile.end_ns = last_end_ns_;
    Recorder::instance().take(profile);
    std::erase_if(profile.calls, [&](const view::ProfiledCall& call) {
      return call.begin_ns < profile.begin_ns || call.begin_ns >= profile.end_ns;
    });
    for (view::ProfiledCall& call : profile.calls) call.end_ns = std::min(call.end_ns, profile.end_ns);
    for (const view::ProfiledCall& call : profile.calls) {
      if (call.kind == view::CallKind::kEngine) thread_of(call).runs_steps = true;
    }
    for (view::ProfiledThread& thread : profile.threads) {
      if (thread.id == ::gettid()) thread = {.name = "training loop", .id = thread.id, .runs_steps = true};
    }
  }

  view::ProfiledThread& thread_of(const view::ProfiledCall& call) {
    return profile.threads.at(static_cast<std::size_t>(call.thread));
  }

  void write() {
    if (options_.folder.empty()) return;
    FileSystem& files = FileSystem::system();
    files.make_folder(options_.folder);
    const auto file = options_.folder / view::trace_file_name(job_.rank());
    write_file_atomically(files, file, view::trace_text(profile));
    if (!job_.is_main()) return;
    if (job_.world_size() == 1) {
      log::note("the trace is {}: open it in https://ui.perfetto.dev", file.string());
    } else {
      log::note(
          "the trace of this rank is {}, next to those of the other ranks; lockstep trace merge {} combines them into "
          "one that https://ui.perfetto.dev opens",
          file.string(), options_.folder.parent_path().string());
    }
  }

  Job job_;
  ProfilerOptions options_;
  KernelRecorder kernels_;
  State state_ = State::kWarmup;
  std::int64_t warm_ = 0;
  std::int64_t last_end_ns_ = 0;
};

Profiler::Profiler(Job job, ProfilerOptions options)
    : impl_(std::make_unique<Impl>(std::move(job), std::move(options))) {}
Profiler::~Profiler() = default;

void Profiler::step() { impl_->step(); }
void Profiler::finish() { impl_->finish(); }
bool Profiler::is_finished() const noexcept { return impl_->is_finished(); }
const view::Profile& Profiler::profile() const noexcept { return impl_->profile; }
const view::MachineRates& Profiler::rates() const noexcept { return impl_->rates; }

}  // namespace lockstep::observe
