// SPDX-License-Identifier: Apache-2.0
#include "common/set_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "common/sketch.h"
#include "lockstep/base/control_group.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/png_writer.h"

namespace lockstep::common {
namespace {

constexpr int kCompression = 4;            // fixed, because the bytes of a file depend on it
constexpr std::int64_t kReportEvery = 16;  // indices

/// The state that the threads share: the next index, the first error, the number of indices done.
class IndexWork {
 public:
  explicit IndexWork(const IndexLoop& loop) : loop_(loop) {}

  void run() {
    const std::int64_t wanted = loop_.threads > 0 ? loop_.threads : usable_cpus();
    std::vector<std::thread> helpers;
    try {
      for (std::int64_t i = 1; i < std::min(wanted, loop_.count); ++i) helpers.emplace_back([this] { take_all(); });
    } catch (const std::system_error&) {
      // The system cannot start another thread: the running threads do the work.
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
      next_ = loop_.count;  // stops the other threads
    }
  }

  void report() {
    const std::lock_guard lock(mutex_);
    const bool now = ++done_ % kReportEvery == 0 || done_ == loop_.count;
    if (now && loop_.progress) loop_.progress(done_, loop_.count);
  }

  const IndexLoop& loop_;
  std::atomic<std::int64_t> next_{0};
  std::mutex mutex_;
  std::int64_t done_ = 0;
  std::exception_ptr error_;
};

}  // namespace

void run_indices(const IndexLoop& loop) { IndexWork(loop).run(); }

void run_indices(std::int64_t count, std::int64_t threads, const std::function<void(std::int64_t)>& work,
                 const IndexProgress& progress) {
  run_indices({.count = count, .threads = threads, .make_worker = [&] { return work; }, .progress = progress});
}

void write_set_picture(const PixelView& pixels, const std::filesystem::path& file) {
  const PngFilter filter = pixels.channels == 1 ? PngFilter::kNone : PngFilter::kSub;
  const std::string bytes = encode_png(pixels, {.compression = kCompression, .filter = filter});
  FileSystem::system().create(file)->append(bytes.data(), bytes.size());
}

void refuse_file(const std::filesystem::path& folder) {
  std::error_code fault;
  if (std::filesystem::exists(folder, fault) && !std::filesystem::is_directory(folder, fault)) {
    throw UsageError(fmt::format("{} is not a folder", folder.string()));
  }
}

void make_empty_folder(const std::filesystem::path& folder) {
  refuse_file(folder);
  if (const auto names = FileSystem::system().list(folder); !names.empty()) {
    throw UsageError(fmt::format("folder {} is not empty: it holds {}", folder.string(), names.front()),
                     "choose another folder, or empty this one first");
  }
  FileSystem::system().make_folder(folder);
}

SideRange parse_sides(const std::string& text, const SideRange& limits) {
  const auto number = [&](const char* begin, const char* end) {
    std::int64_t value = 0;
    const auto read = std::from_chars(begin, end, value);
    if (read.ec != std::errc() || read.ptr != end || value < limits.least || value > limits.most) {
      throw UsageError(fmt::format("'{}' is not a size", text),
                       fmt::format("use a side length or a range such as 128-192, within {} .. {} pixels", limits.least,
                                   limits.most));
    }
    return value;
  };
  const char* end = text.data() + text.size();
  const std::size_t dash = text.find('-');
  const char* first_end = dash == std::string::npos ? end : text.data() + dash;
  SideRange range{number(text.data(), first_end), 0};
  range.most = dash == std::string::npos ? range.least : number(first_end + 1, end);
  if (range.most < range.least) throw UsageError(fmt::format("size '{}' is reversed", text), "for example 128-192");
  return range;
}

void require_within(std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return;
  throw UsageError(fmt::format("generate {} is {}, must be {} .. {}", name, value, low, high));
}

void require_scene_size(ImageSize size) {
  for (const std::int64_t side : {size.width, size.height}) {
    if (side < 32 || side > 4096)
      throw UsageError(fmt::format("a side of a scene is {} pixels, must be 32 .. 4096", side));
  }
}

}  // namespace lockstep::common
