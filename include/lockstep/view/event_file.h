// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event files: the points of curves, pictures, texts and histograms of a run, which `tensorboard
// --logdir` shows while the run writes them.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/file_system.h"

#pragma GCC visibility push(default)

namespace lockstep::view {

/// The points of one step, by tag. TensorBoard puts tags with the same text before the first '/' into one group.
using Scalars = std::vector<std::pair<std::string, double>>;

/// The distribution of some values. Bucket i counts the values above limits[i - 1], up to limits[i]. Values that are
/// not finite are in no bucket.
struct Histogram {
  double min = 0;                   ///< least value
  double max = 0;                   ///< largest value
  double count = 0;                 ///< number of values
  double sum = 0;                   ///< sum of the values
  double sum_squares = 0;           ///< sum of their squares
  std::vector<double> limits = {};  ///< upper limit of each bucket, ascending
  std::vector<double> counts = {};  ///< number of values in each bucket
};

/// Counts `size` values in the buckets that TensorBoard's own writers use: limits of 1e-12 * 1.1^k on both sides of 0.
/// Cost: some 10 ns a value.
[[nodiscard]] Histogram histogram_of(const float* values, std::size_t size);

/// One setting of a run, as TensorBoard's page HPARAMS lists it.
using HyperParameters = std::vector<std::pair<std::string, std::variant<double, bool, std::string>>>;

/// The beginning of a file, and how often it is written.
struct EventFileOptions {
  /// The run goes on after this step: TensorBoard then drops the later points of older files in the folder, which the
  /// run will write again. 0: it drops all of them.
  std::int64_t after_step = 0;
  Seconds write_every = Seconds(1);  ///< a point waits at most this long for the next one before both are written
  FileSystem* files = nullptr;       ///< none: the machine's
  const Clock* clock = nullptr;      ///< none: the machine's
};

/// Writes one event file, which no other writer has. Points are gathered and written by the call that finds the last
/// write older than `write_every`; no thread, no fsync. A kill loses the gathered points and tears at most the last
/// record.
///
/// Cost:        some 100 ns a point, and a write of some microseconds a second.
/// Thread-safe: no.
/// Throws:      IoError from every function if the disk refuses. It then takes no more events, since no reader could
///              read those behind a torn record.
class EventFile {
 public:
  /// Makes `folder`, and in it a file whose name sorts after those of the event files that are there.
  explicit EventFile(const std::filesystem::path& folder, const EventFileOptions& options = {});
  ~EventFile();  ///< Writes the gathered points, as far as the disk takes them.
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// Adds the points of a step.
  void scalars(std::int64_t step, const Scalars& points);
  /// Adds the distribution of values at a step.
  void histogram(std::int64_t step, std::string_view tag, const Histogram& histogram);
  /// Adds `encoded`, a PNG or JPEG file, and leaves out anything else. Returns true if it was one of these.
  bool image(std::int64_t step, std::string_view tag, std::string_view encoded);
  /// `markdown` is shown as Markdown; indent a text by four spaces to show it as it is.
  void text(std::int64_t step, std::string_view tag, std::string_view markdown);

  /// Call it at the start of a run. `group` is a common name of the runs of one experiment; may be empty.
  void start_session(const HyperParameters& settings, std::string_view group);
  /// Call it at the end. `metrics` are the tags of scalars whose last points are the run's results.
  void end_session(const HyperParameters& settings, const std::vector<std::string>& metrics, bool success);

  /// Writes the gathered points.
  void flush();
  /// Returns the file.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  void add(std::int64_t step, int field, std::string_view message);

  std::filesystem::path path_;
  const Clock& clock_;
  Seconds write_every_;
  std::unique_ptr<WritableFile> file_;
  std::string gathered_;  ///< whole records
  TimePoint written_;
  bool is_broken_ = false;
};

/// Returns `text` as a block that TensorBoard shows with its own line ends and spaces.
[[nodiscard]] std::string as_is(std::string_view text);

}  // namespace lockstep::view

#pragma GCC visibility pop
