// SPDX-License-Identifier: Apache-2.0
// The progress bar that every `lockstep generate` shows while it writes, and the elapsed time at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/cli.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/text.h"
#include "lockstep/view/progress.h"

namespace lockstep::worker {

/// The --help texts of the options that all `lockstep generate` verbs share.
inline constexpr const char* kSeedHelp = "the seed; the same seed gives the same bytes";
inline constexpr const char* kSeedOfSetHelp =
    "the seed; the same seed gives the same bytes, so use a different one for a test set";
inline constexpr const char* kNewFolderHelp = "the folder to write, which must be new or empty";

/// Adds --out, --count and --seed, the options of every verb that draws images.
template <class Options>
void add_set_options(CLI::App& app, Options& options, std::string& out, const char* folder_help,
                     const char* seed_help) {
  app.add_option("--out", out, folder_help)->required()->type_name("FOLDER");
  app.add_option("--count", options.count, "how many images to draw")
      ->required()
      ->check(cli::whole({1, 1'000'000'000}))
      ->type_name("N");
  app.add_option("--seed", options.seed, seed_help)->required()->type_name("N");
}

/// A progress bar on stderr from construction to done(). Lifetime: outlives the result of progress().
class Writing {
 public:
  /// `label` is printed before the bar; it must outlive this object.
  explicit Writing(const char* label)
      : label_(label),
        bar_(view::ProgressBar::for_stderr(), SystemClock::instance()),
        begin_(SystemClock::instance().now()) {}

  [[nodiscard]] std::function<void(std::int64_t done, std::int64_t count)> progress() {
    return
        [this](std::int64_t done, std::int64_t count) { bar_.update({.label = label_, .step = done, .steps = count}); };
  }
  /// Clears the bar. Returns the elapsed time as text.
  [[nodiscard]] std::string done() {
    bar_.clear();
    return text::duration(Seconds(SystemClock::instance().now() - begin_).count());
  }

 private:
  const char* label_;
  view::ProgressBar bar_;
  TimePoint begin_;
};

}  // namespace lockstep::worker
