// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event files with the curves, images, text and histograms of a run. `tensorboard --logdir` shows them
// while the run writes them.
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

/// The values at one step, by tag. TensorBoard groups tags that have the same prefix before the first '/'.
using Scalars = std::vector<std::pair<std::string, double>>;

/// The distribution of some values. Bucket i counts the values above limits[i - 1], up to limits[i]. Non-finite values
/// are not in any bucket.
struct Histogram {
  double min = 0;                   ///< smallest value
  double max = 0;                   ///< largest value
  double count = 0;                 ///< number of values
  double sum = 0;                   ///< sum of the values
  double sum_squares = 0;           ///< sum of their squares
  std::vector<double> limits = {};  ///< upper limit of each bucket, ascending
  std::vector<double> counts = {};  ///< number of values in each bucket
};

/// Sorts `size` values into the buckets that TensorBoard's own writers use: limits of 1e-12 * 1.1^k on both sides of 0.
/// Cost: about 10 ns per value.
[[nodiscard]] Histogram histogram_of(const float* values, std::size_t size);

/// One setting of a run, as TensorBoard's HPARAMS page lists it.
using HyperParameters = std::vector<std::pair<std::string, std::variant<double, bool, std::string>>>;

/// The options of an EventFile.
struct EventFileOptions {
  /// The step after which the run continues: TensorBoard drops later points of older files in the folder, because the
  /// run will write them again. 0: it drops all points of older files.
  std::int64_t after_step = 0;
  Seconds write_every = Seconds(1);  ///< how long points are gathered before being written
  FileSystem* files = nullptr;       ///< null: the machine's
  const Clock* clock = nullptr;      ///< null: the machine's
};

/// Writes one event file, which has no other writer. Points are gathered until a call comes `write_every` or more after
/// the last write; that call writes them, without a thread or fsync. If the process is killed, the gathered points are
/// lost and at most the last record is torn.
///
/// Cost:        about 100 ns per point, and a write of a few microseconds every second.
/// Thread-safe: no.
/// Throws:      IoError from every function if a write fails. It then accepts no more events, because no reader could
///              read events after a torn record.
class EventFile {
 public:
  /// Creates `folder`, and in it a file whose name sorts after the names of the existing event files.
  explicit EventFile(const std::filesystem::path& folder, const EventFileOptions& options = {});
  ~EventFile();  ///< Writes the gathered points, as far as the disk allows.
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// Adds the points of a step.
  void scalars(std::int64_t step, const Scalars& points);
  /// Adds the distribution of values at a step.
  void histogram(std::int64_t step, std::string_view tag, const Histogram& histogram);
  /// Adds `encoded`, a PNG or JPEG file. Returns false, and adds nothing, if it is neither.
  bool image(std::int64_t step, std::string_view tag, std::string_view encoded);
  /// Adds text, which is shown as Markdown; as_is() keeps its line breaks and spaces.
  void text(std::int64_t step, std::string_view tag, std::string_view markdown);

  /// Adds the run's settings; call it at the start. `group` is a name for the runs of an experiment; may be empty.
  void start_session(const HyperParameters& settings, std::string_view group);
  /// Adds the run's results; call it at the end. `metrics` are the tags of scalars whose last points are the results.
  void end_session(const HyperParameters& settings, const std::vector<std::string>& metrics, bool success);

  /// Writes the gathered points.
  void flush();
  /// Returns the path of the file.
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

/// Returns `text` as a block that TensorBoard shows with its own line breaks and spaces.
[[nodiscard]] std::string as_is(std::string_view text);

}  // namespace lockstep::view

#pragma GCC visibility pop
