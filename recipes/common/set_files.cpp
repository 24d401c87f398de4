// SPDX-License-Identifier: Apache-2.0
#include "common/set_files.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "lockstep/base/control_group.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/png_writer.h"

namespace lockstep::common {
namespace {

constexpr int kCompression = 4;  // fixed: it is part of the bytes

/// The threads' shared list of work: the next index, the first error, the count of what is done.
class IndexWork {
 public:
  explicit IndexWork(const IndexLoop& loop) : loop_(loop) {}

  void run() {
    const std::int64_t wanted = loop_.threads > 0 ? loop_.threads : usable_cpus();
    std::vector<std::thread> helpers;
    try {
      for (std::int64_t i = 1; i < std::min(wanted, loop_.count); ++i) helpers.emplace_back([this] { take_all(); });
    } catch (const std::system_error&) {
      // The system gives no more threads: those that run do the work.
    }
    take_all();
    for (std::thread& helper : helpers) helper.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void take_all() noexcept {
    try {
      const auto work = loop_.make_worker();
      for (std::int64_t index = next_++; index < loop_.count; index = next_++) {
        work(index);
        report();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_ = loop_.count;  // the others stop
    }
  }

  void report() {
    const std::lock_guard lock(mutex_);
    if (++done_ % loop_.report_every == 0 && loop_.progress) loop_.progress(done_, loop_.count);
  }

  const IndexLoop& loop_;
  std::atomic<std::int64_t> next_{0};
  std::mutex mutex_;
  std::int64_t done_ = 0;
  std::exception_ptr error_;
};

}  // namespace

void run_indices(const IndexLoop& loop) { IndexWork(loop).run(); }

void write_set_picture(const PixelView& pixels, const std::filesystem::path& file) {
  const PngFilter filter = pixels.channels == 1 ? PngFilter::kNone : PngFilter::kSub;
  const std::string bytes = encode_png(pixels, {.compression = kCompression, .filter = filter});
  FileSystem::system().create(file)->append(bytes.data(), bytes.size());
}

}  // namespace lockstep::common
