// SPDX-License-Identifier: Apache-2.0
// `lockstep pack`: packs a data set in any layout that open_source() supports into one file; --check verifies one.
#include <fmt/format.h>

#include <charconv>

#include "common/cli.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/sources/open_source.h"
#include "lockstep/data/sources/pack.h"
#include "lockstep/view/progress.h"
#include "worker/commands.h"

namespace lockstep::worker {
namespace {

struct PackWords {
  std::string input;
  std::string out;
  std::string type = "auto";
  std::string images;
  std::string split;
  std::string check;
  std::string format = "packed";
  std::string shard_size;
  std::int64_t max_pixels = 0;
  bool allow_outside = false;
  bool gray = false;
  bool lenient = false;
};

view::ProgressBar& progress_bar() {
  static view::ProgressBar bar(view::ProgressBar::for_stderr(), SystemClock::instance());
  return bar;
}

double seconds_since(TimePoint begin) { return Seconds(SystemClock::instance().now() - begin).count(); }

std::function<void(std::int64_t)> progress_of(const char* label, std::int64_t steps) {
  return [=, meter = view::RateMeter(SystemClock::instance()), last = std::int64_t{0}](std::int64_t done) mutable {
    meter.add(done - last);
    last = done;
    const auto rate = meter.rate();
    progress_bar().update({.label = label, .step = done, .steps = steps, .rate = rate});
  };
}

PackFormat parse_format(const std::string& name) {
  if (name == "packed") return PackFormat::kPacked;
  if (name == "tar") return PackFormat::kTar;
  throw UsageError(fmt::format("--format is '{}'{}", name, text::did_you_mean(name, {"packed", "tar"})),
                   "use --format packed or --format tar");
}

// Parses a size such as "500M", in powers of 1000, as in printed sizes.
std::uint64_t parse_bytes(const std::string& word) {
  if (word.empty()) return 0;
  std::uint64_t count = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), count);
  const std::string unit(read.ptr, word.data() + word.size());
  constexpr std::string_view kUnits = "KMG";
  const std::size_t place = unit.empty() ? 0 : kUnits.find(unit) + 1;
  const bool good = read.ec == std::errc() && count > 0 && count < 1'000'000'000 && unit.size() <= 1 && place <= 3 &&
                    (unit.empty() || place > 0);
  if (!good) throw UsageError(fmt::format("--shard-size is '{}', not a size", word), "use a size such as 500M");
  for (std::size_t i = 0; i < place; ++i) count *= 1000;
  return count;
}

int check_file(const std::string& path) {
  const TimePoint begin = SystemClock::instance().now();
  const PackedImages images(path);
  images.check(progress_of("checking", images.size()));
  progress_bar().clear();
  print_to(stdout, "{}: whole ({} samples, {})\n", path, text::thousands(images.size()),
           text::duration(seconds_since(begin)));
  return 0;
}

void print_report(const PackReport& report, const std::string& out, double seconds) {
  print_to(stdout, "{} samples in {} ({}, {})\n", text::thousands(report.samples), out, text::bytes(report.bytes),
           text::duration(seconds));
  if (report.bad.empty()) return;
  print_to(stdout, "{} skipped:\n", report.bad.size());
  for (const std::string& why : report.bad) cli::print(fmt::format("  {}\n", why));
}

int pack(const PackWords& words, PackOptions options) {
  if (words.input.empty() || words.out.empty()) {
    throw UsageError("lockstep pack needs INPUT and --out", "lockstep pack data/train --out train.pack");
  }
  const TimePoint begin = SystemClock::instance().now();
  if (words.max_pixels != 0) set_max_pixels(words.max_pixels);
  const auto source = open_source({.path = words.input,
                                   .kind = parse_source_kind(words.type),
                                   .images = words.images,
                                   .split = words.split,
                                   .recursive = true,
                                   .masks = true,
                                   .allow_outside = words.allow_outside,
                                   .strict = !words.lenient});
  options.out = words.out;
  options.format = parse_format(words.format);
  options.shard_bytes = parse_bytes(words.shard_size);
  options.packed.color = words.gray ? ColorMode::kGray : ColorMode::kRgb;
  options.progress = progress_of("packing", source->size());
  const PackReport report = pack_images(*source, options);
  progress_bar().clear();
  print_report(report, words.out, seconds_since(begin));
  return 0;
}

void add_input_options(CLI::App& app, PackWords& words) {
  constexpr const char* kGroup = "Input";
  app.add_option("INPUT", words.input,
                 "a folder of images, a folder per class, a list, a COCO .json, a VOC folder, tar shards or IDX files");
  app.add_option("--type", words.type, "the layout of INPUT")->type_name(cli::kSourceKinds)->group(kGroup);
  app.add_option("--images", words.images, "the folder with the images that a list or a COCO .json names")
      ->type_name("FOLDER")
      ->group(kGroup);
  app.add_option("--split", words.split, "for VOC, a list in ImageSets/Main; for IDX, the start of the file names")
      ->type_name("NAME")
      ->group(kGroup);
  app.add_flag("--lenient", words.lenient, "skip entries with bad boxes or unknown images, and count them")
      ->group(kGroup);
  app.add_flag("--allow-outside", words.allow_outside, cli::kAllowOutside)->group(kGroup);
  app.add_option("--max-pixels", words.max_pixels, cli::kMaxPixels)
      ->check(cli::whole({1, 10'000'000'000}))
      ->type_name("N")
      ->default_str(cli::kMaxPixelsDefault)
      ->group(kGroup);
}

void add_output_options(CLI::App& app, PackWords& words, PackOptions& options) {
  constexpr const char* kGroup = "Output";
  app.add_option("--out", words.out, "the file to write")->type_name("FILE")->group(kGroup);
  app.add_option("--format", words.format, "tar writes shards that WebDataset reads")
      ->type_name("packed|tar")
      ->group(kGroup);
  app.add_option("--shard-size", words.shard_size, "with --format tar, the size of a shard, such as 500M")
      ->type_name("SIZE")
      ->default_str("one shard for all")
      ->group(kGroup);
  app.add_flag("--encoded", options.packed.encoded, "keep the bytes of the files instead of decoded pixels")
      ->group(kGroup);
  app.add_flag("--gray", words.gray, "decode to one channel")->group(kGroup);
  app.add_flag("--skip-bad", options.skip_bad, "skip images that cannot be read, and list them")->group(kGroup);
  app.add_option("--max-side", options.packed.max_side, "shrink larger images until their longer side has N pixels")
      ->check(cli::whole({0, 65536}))
      ->type_name("N")
      ->default_str("as they are")
      ->group(kGroup);
  app.add_option("--workers", options.workers, "decoder threads")
      ->check(cli::whole({0, 4096}))
      ->type_name("N")
      ->group(kGroup);
  app.add_option("--check", words.check, "do not pack; check every sample of a packed file against its hash")
      ->type_name("FILE");
}

}  // namespace

int cmd_pack(const Arguments& arguments) {
  PackWords words;
  PackOptions options;
  CLI::App app;
  cli::prepare(app,
               {.name = "lockstep pack",
                .description = "Pack a data set into one file, with every image decoded once and for all.\n\nThe file "
                               "also holds labels, boxes, masks and captions, and is memory-mapped for reading.",
                .examples = {"lockstep pack data/bccd --split train --out bccd.pack",
                             "lockstep pack annotations.json --images val2017 --max-side 512 --out coco.pack",
                             "lockstep pack --check bccd.pack"}});
  add_input_options(app, words);
  add_output_options(app, words, options);
  if (!cli::parse(app, arguments)) return 0;
  return words.check.empty() ? pack(words, options) : check_file(words.check);
}

}  // namespace lockstep::worker
