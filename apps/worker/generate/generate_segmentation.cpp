// SPDX-License-Identifier: Apache-2.0
// `lockstep generate segmentation|scribbles|pseudo-labels|distance-maps|weak-labels`: sets for segmentation, drawn or
// derived from full masks, with the same bytes for the same seed.
#include "worker/commands.h"

#include <fmt/format.h>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "segmentation/data/weak_folders.h"
#include "segmentation/synthetic/generate.h"
#include "worker/writing.h"

namespace lockstep::worker {
namespace {

std::string share_text(const segmentation::MapCounts& counts) {
  return fmt::format("{:.1f} % of the pixels have a class", 100.0 * counts.labelled_share());
}

constexpr const char* kScribblesHelp = "a folder of PNGs whose pixels are class ids, or 255 for no class";

/// Adds the scribble options, for three commands.
void add_scribble_options(CLI::App& app, segmentation::ScribbleOptions& options) {
  constexpr const char* kGroup = "Scribbles";
  app.add_option("--coverage", options.coverage, "the share of the regions that get a scribble")
      ->type_name("SHARE")
      ->group(kGroup);
  app.add_option("--thickness", options.thickness, "the thickness of a line, 1 to 3 pixels")
      ->check(cli::whole({1, 3}))
      ->type_name("N")
      ->group(kGroup);
  app.add_option("--shrink", options.shrink, "the share of a line to omit at its ends")
      ->type_name("SHARE")
      ->group(kGroup);
}

void say_maps(const char* what, const segmentation::MapCounts& counts, const std::string& out,
              const std::string& time) {
  print_to(stdout, "{} {} in {} ({})\n", text::thousands(counts.maps), what, out, time);
}

}  // namespace

int generate_segmentation(const Arguments& arguments) {
  segmentation::GenerateOptions options;
  std::string out;
  std::string size = "128";
  CLI::App app;
  cli::prepare(app,
               {.name = "lockstep generate segmentation",
                .description = "Draw scenes with shapes of 4 classes and write a data set in VOC's layout.\n\nIt has "
                               "images, masks, scribbles, pseudo-labels, distance maps, and the lists train and val.",
                .examples = {"lockstep generate segmentation --out data/shapes --count 400 --seed 1 --size 96-128"}});
  add_set_options(app, options, out, kNewFolderHelp, kSeedHelp);
  app.add_option("--size", size, "side length in pixels, or a range such as 96-128")->type_name("N|MIN-MAX");
  app.add_option("--val-share", options.val_share, "the share of the images, taken from the end, for the list val")
      ->type_name("SHARE");
  add_scribble_options(app, options.weak.scribbles);
  if (!cli::parse(app, arguments)) return 0;
  options.out = out;
  options.size = common::parse_sides(size, segmentation::kSides);
  Writing writing("drawing");
  const segmentation::GeneratedSet set = segmentation::generate_set(options, writing.progress());
  const std::string time = writing.done();
  print_to(stdout, "{} images in {}: {} to train, {} to validate ({})\n", text::thousands(options.count), out,
           text::thousands(set.train), text::thousands(set.val), time);
  return 0;
}

int generate_scribbles(const Arguments& arguments) {
  segmentation::ScribbleFolderOptions options;
  std::string masks;
  std::string out;
  CLI::App app;
  cli::prepare(app,
               {.name = "lockstep generate scribbles",
                .description = "Draw a thin line along the middle of each region of full masks.\n\nAll other pixels "
                               "are 255. In a folder named instances, each pixel value is one object of class 1.",
                .examples = {"lockstep generate scribbles --masks data/set/masks --out data/set/scribbles --seed 1"}});
  app.add_option("--masks", masks, "a folder of PNGs whose pixels are class ids")->required()->type_name("FOLDER");
  app.add_option("--out", out, kNewFolderHelp)->required()->type_name("FOLDER");
  app.add_option("--seed", options.seed, kSeedHelp)->required()->type_name("N");
  add_scribble_options(app, options.scribbles);
  if (!cli::parse(app, arguments)) return 0;
  options.masks = masks;
  options.out = out;
  Writing writing("drawing");
  const segmentation::MapCounts counts = segmentation::write_scribbles(options, writing.progress());
  say_maps("scribble maps", counts, out, writing.done());
  print_to(stdout, "{}\n", share_text(counts));
  return 0;
}

int generate_pseudo_labels(const Arguments& arguments) {
  segmentation::PseudoFolderOptions options;
  std::string images;
  std::string scribbles;
  std::string masks;
  std::string out;
  std::string method = "watershed";
  CLI::App app;
  cli::prepare(
      app,
      {.name = "lockstep generate pseudo-labels",
       .description = "Guess a class for nearly every pixel.\n\nThe method watershed floods the images from their "
                      "scribbles; coarse blurs full masks into what a weak classifier would predict.",
       .examples = {"lockstep generate pseudo-labels --images data/set/images --scribbles data/set/scribbles --out "
                    "data/set/pseudo_labels",
                    "lockstep generate pseudo-labels --method coarse --masks data/set/masks --out data/coarse"}});
  app.add_option("--method", method, "how to guess the labels")->type_name("watershed|coarse");
  app.add_option("--out", out, kNewFolderHelp)->required()->type_name("FOLDER");
  app.add_option("--images", images, "the folder of the images")->type_name("FOLDER")->group("Watershed");
  app.add_option("--scribbles", scribbles, kScribblesHelp)->type_name("FOLDER")->group("Watershed");
  app.add_option("--masks", masks, "a folder of PNGs whose pixels are class ids")->type_name("FOLDER")->group("Coarse");
  app.add_option("--seed", options.seed, kSeedHelp)->type_name("N")->group("Coarse");
  app.add_option("--cell", options.coarse.cell, "side length of a cell, in pixels")
      ->check(cli::whole({1, 8192}))
      ->type_name("N")
      ->group("Coarse");
  if (!cli::parse(app, arguments)) return 0;
  options.method = segmentation::parse_pseudo_method(method);
  const bool coarse = options.method == segmentation::PseudoMethod::kCoarse;
  if (coarse ? masks.empty() : images.empty() || scribbles.empty()) {
    throw UsageError(fmt::format("--method {} needs {}", method, coarse ? "--masks" : "--images and --scribbles"),
                     "lockstep generate pseudo-labels --help");
  }
  options.images = images;
  options.scribbles = scribbles;
  options.masks = masks;
  options.out = out;
  Writing writing("guessing");
  const segmentation::MapCounts counts = segmentation::write_pseudo_labels(options, writing.progress());
  say_maps("pseudo-label maps", counts, out, writing.done());
  print_to(stdout, "{}\n", share_text(counts));
  return 0;
}

int generate_distance_maps(const Arguments& arguments) {
  segmentation::DistanceFolderOptions options;
  std::string scribbles;
  std::string pseudo_labels;
  std::string out;
  CLI::App app;
  cli::prepare(
      app,
      {.name = "lockstep generate distance-maps",
       .description =
           "Compute how far each pixel is from a scribble or from a border between pseudo-labels.\n\nA pixel "
           "at distance d has the value min(sqrt(L d^2), 255), where L is --lambda; for scribbles it is 255 "
           "minus that, so that 255 lies on the scribble.",
       .examples = {
           "lockstep generate distance-maps --scribbles data/set/scribbles --out data/set/distance_scribble",
           "lockstep generate distance-maps --pseudo-labels data/set/pseudo_labels --out data/set/distance_class"}});
  app.add_option("--scribbles", scribbles, kScribblesHelp)->type_name("FOLDER");
  app.add_option("--pseudo-labels", pseudo_labels,
                 "instead of --scribbles, a folder of PNGs whose pixels are class ids")
      ->type_name("FOLDER");
  app.add_option("--out", out, kNewFolderHelp)->required()->type_name("FOLDER");
  app.add_option("--lambda", options.lambda, "how steeply values change with the distance, above 0")
      ->type_name("NUMBER")
      ->default_str("e for scribbles, e^6 for pseudo-labels");
  if (!cli::parse(app, arguments)) return 0;
  if (scribbles.empty() == pseudo_labels.empty()) {
    throw UsageError("pass either --scribbles or --pseudo-labels", "lockstep generate distance-maps --help");
  }
  options.scribbles = !scribbles.empty();
  options.labels = options.scribbles ? scribbles : pseudo_labels;
  options.out = out;
  Writing writing("measuring");
  const segmentation::MapCounts counts = segmentation::write_distance_maps(options, writing.progress());
  say_maps("distance maps", counts, out, writing.done());
  return 0;
}

int generate_weak_labels(const Arguments& arguments) {
  segmentation::WeakFolderOptions options;
  std::string from;
  std::string out;
  std::string method = "watershed";
  CLI::App app;
  cli::prepare(app,
               {.name = "lockstep generate weak-labels",
                .description = "Create a data set with scribbles, pseudo-labels and distance maps from one with full "
                               "masks.\n\nThe result has VOC's layout. The full masks may be in VOC's layout, in "
                               "images/ with masks/ or instances/, or in such folders under train/ and val/.",
                .examples = {"lockstep generate weak-labels --from data/nuclei --out data/nuclei-weak --seed 1"}});
  app.add_option("--from", from, "the data set with full masks")->required()->type_name("FOLDER");
  app.add_option("--masks", options.masks, "the folder of the masks, if its name is not the usual one")
      ->type_name("FOLDER");
  app.add_option("--out", out, kNewFolderHelp)->required()->type_name("FOLDER");
  app.add_option("--seed", options.weak.seed, kSeedHelp)->required()->type_name("N");
  app.add_option("--method", method, "how to guess the pseudo-labels")->type_name("watershed|coarse");
  add_scribble_options(app, options.weak.scribbles);
  if (!cli::parse(app, arguments)) return 0;
  options.from = from;
  options.out = out;
  options.weak.method = segmentation::parse_pseudo_method(method);
  Writing writing("deriving");
  const segmentation::WeakSet set = segmentation::write_weak_set(options, writing.progress());
  const std::string time = writing.done();
  for (const auto& [split, count] : set.splits) print_to(stdout, "{}: {} images\n", split, text::thousands(count));
  print_to(stdout, "scribbles: {}\n", share_text(set.scribbles));
  print_to(stdout, "pseudo-labels: {}, mean IoU {:.3f} with the full masks\n", share_text(set.pseudo_labels),
           set.pseudo_labels.mean_iou());
  print_to(stdout, "{} ({})\n", out, time);
  return 0;
}

}  // namespace lockstep::worker
