// SPDX-License-Identifier: Apache-2.0
#include "segmentation/synthetic/map_files.h"

#include <fmt/format.h>
#include <spng.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep::segmentation {
namespace {

constexpr int kMapCompression = 4;           // fixed: it is part of the bytes
constexpr std::int64_t kReportedEvery = 16;  // files

struct MapEncoderDone {
  void operator()(spng_ctx* context) const noexcept { spng_ctx_free(context); }
};
struct MapBufferDone {
  void operator()(void* buffer) const noexcept { std::free(buffer); }
};

/// The threads' shared list of work: the next index, the first error, the count of what is done.
class IndexWork {
 public:
  IndexWork(std::int64_t count, const std::function<void(std::int64_t)>& work, const WriteProgress& progress)
      : count_(count), work_(work), progress_(progress) {}

  void run(std::int64_t threads) {
    const std::int64_t wanted = threads > 0 ? threads : std::thread::hardware_concurrency();
    std::vector<std::thread> helpers;
    for (std::int64_t i = 1; i < std::min(std::max<std::int64_t>(wanted, 1), count_); ++i) {
      helpers.emplace_back([this] { take_all(); });
    }
    take_all();
    for (std::thread& helper : helpers) helper.join();
    if (error_) std::rethrow_exception(error_);
    if (progress_) progress_(count_, count_);
  }

 private:
  void take_all() noexcept {
    try {
      for (std::int64_t index = next_++; index < count_; index = next_++) {
        work_(index);
        report();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_ = count_;  // the others stop
    }
  }

  void report() {
    const std::int64_t done = ++done_;
    if (!progress_ || done % kReportedEvery != 0) return;
    const std::lock_guard lock(mutex_);
    progress_(done, count_);
  }

  std::int64_t count_;
  const std::function<void(std::int64_t)>& work_;
  const WriteProgress& progress_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<std::int64_t> done_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

void run_indices(std::int64_t count, std::int64_t threads, const std::function<void(std::int64_t)>& work,
                 const WriteProgress& progress) {
  IndexWork(count, work, progress).run(threads);
}

void write_map(const Image& image, const std::filesystem::path& file) {
  const std::unique_ptr<spng_ctx, MapEncoderDone> context(spng_ctx_new(SPNG_CTX_ENCODER));
  spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_set_option(context.get(), SPNG_IMG_COMPRESSION_LEVEL, kMapCompression);
  spng_set_option(context.get(), SPNG_FILTER_CHOICE,
                  image.channels == 1 ? SPNG_FILTER_CHOICE_NONE : SPNG_FILTER_CHOICE_SUB);
  spng_ihdr header{};
  header.width = static_cast<std::uint32_t>(image.size.width);
  header.height = static_cast<std::uint32_t>(image.size.height);
  header.bit_depth = 8;
  header.color_type = image.channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
  spng_set_ihdr(context.get(), &header);
  int fault =
      spng_encode_image(context.get(), image.pixels.data(), image.pixels.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  std::size_t size = 0;
  const std::unique_ptr<void, MapBufferDone> bytes(fault == 0 ? spng_get_png_buffer(context.get(), &size, &fault)
                                                              : nullptr);
  if (fault != 0) throw InternalError(fmt::format("cannot encode {}: {}", file.string(), spng_strerror(fault)));
  FileSystem::system().create(file)->append(bytes.get(), size);
}

void make_empty_folder(const std::filesystem::path& folder) {
  std::error_code fault;
  if (std::filesystem::exists(folder, fault) && !std::filesystem::is_directory(folder, fault)) {
    throw UsageError(fmt::format("{} is no folder", folder.string()));
  }
  if (const auto names = FileSystem::system().list(folder); !names.empty()) {
    throw UsageError(fmt::format("folder {} is not empty: it holds {}", folder.string(), names.front()),
                     "give another folder, or empty it first");
  }
  FileSystem::system().make_folder(folder);
}

}  // namespace lockstep::segmentation
