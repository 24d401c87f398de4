// SPDX-License-Identifier: Apache-2.0
// `lockstep generate segmentation|scribbles|pseudo-labels|distance-maps|weak-labels`: sets for segmentation, drawn or
// derived from full masks; the same bytes for the same seed.
#include "worker/generate/generate_segmentation.h"

#include <fmt/format.h>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "segmentation/data/weak_folders.h"
#include "segmentation/synthetic/generate.h"
#include "worker/writing.h"

namespace lockstep::worker {
namespace {

std::string share_text(const segmentation::MapCounts& counts) {
  return fmt::format("{:.1f} % of the pixels have a class", 100.0 * counts.labelled_share());
}

/// How scribbles are drawn; of two commands.
void add_scribble_options(CLI::App& app, segmentation::ScribbleOptions& options) {
  app.add_option("--coverage", options.coverage, "share of the regions that get a scribble (default: 1)");
  app.add_option("--thickness", options.thickness, "pixels of a line, 1 .. 3 (default: 2)")->check(cli::whole({1, 3}));
  app.add_option("--shrink", options.shrink, "share of a line that is left out at its ends (default: 0.3)");
}

void say_maps(const char* what, const segmentation::MapCounts& counts, const std::string& out,
              const std::string& time) {
  fmt::print("{} {} in {} ({})\n", text::thousands(counts.maps), what, out, time);
}

}  // namespace

int generate_segmentation(const Arguments& arguments) {
  segmentation::GenerateOptions options;
  std::string out;
  std::string size = "128";
  CLI::App app;
  cli::prepare(app,
               {.name = "lockstep generate segmentation",
                .description = "Draws scenes with shapes of 4 classes on a ground and writes a set in the layout of "
                               "VOC: pictures, masks, scribbles, pseudo-labels, distance maps and lists.",
                .example = "  lockstep generate segmentation --out data/shapes --count 400 --seed 1 --size 96-128"});
  app.add_option("--out", out, "the folder; it must be empty or absent")->required();
  app.add_option("--count", options.count, "how many pictures")->required()->check(cli::whole({1, 1'000'000'000}));
  app.add_option("--seed", options.seed, "the same seed gives the same bytes")->required();
  app.add_option("--size", size, "pixels of each side, or a range such as 96-128 (default: 128)");
  app.add_option("--val-share", options.val_share, "of the pictures, the last ones, for the list val (default: 0.2)");
  add_scribble_options(app, options.weak.scribbles);
  if (!cli::parse(app, arguments)) return 0;
  options.out = out;
  options.size = segmentation::parse_sides(size);
  Writing writing("drawing");
  const segmentation::GeneratedSet set = segmentation::generate_set(options, writing.progress());
  const std::string time = writing.done();
  fmt::print("{} pictures in {}: {} to train, {} to validate ({})\n", text::thousands(options.count), out,
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
                .description = "Draws a thin line along the middle of each region of full masks; everything else "
                               "is 255. In a folder named instances each number is a thing of class 1.",
                .example = "  lockstep generate scribbles --masks data/set/masks --out data/set/scribbles --seed 1"});
  app.add_option("--masks", masks, "PNGs of class ids")->required();
  app.add_option("--out", out, "the folder; it must be empty or absent")->required();
  app.add_option("--seed", options.seed, "the same seed gives the same bytes")->required();
  add_scribble_options(app, options.scribbles);
  if (!cli::parse(app, arguments)) return 0;
  options.masks = masks;
  options.out = out;
  Writing writing("drawing");
  const segmentation::MapCounts counts = segmentation::write_scribbles(options, writing.progress());
  say_maps("maps of scribbles", counts, out, writing.done());
  fmt::print("{}\n", share_text(counts));
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
       .description = "Guesses a class for nearly every pixel: by flooding pictures from their scribbles, or from "
                      "full masks as a weak classifier would see them.",
       .example = "  lockstep generate pseudo-labels --images data/set/images --scribbles data/set/scribbles --out "
                  "data/set/pseudo_labels\n"
                  "  lockstep generate pseudo-labels --method coarse --masks data/set/masks --out data/coarse"});
  app.add_option("--method", method, "watershed or coarse (default: watershed)");
  app.add_option("--images", images, "the pictures, for watershed");
  app.add_option("--scribbles", scribbles, "PNGs of class ids, 255 where there is none, for watershed");
  app.add_option("--masks", masks, "PNGs of class ids, for coarse");
  app.add_option("--out", out, "the folder; it must be empty or absent")->required();
  app.add_option("--seed", options.seed, "of coarse ones (default: 0)");
  app.add_option("--cell", options.coarse.cell, "pixels of a coarse cell (default: 8)")->check(cli::whole({1, 8192}));
  if (!cli::parse(app, arguments)) return 0;
  options.method = segmentation::parse_pseudo_method(method);
  const bool coarse = options.method == segmentation::PseudoMethod::kCoarse;
  if (coarse ? masks.empty() : images.empty() || scribbles.empty()) {
    throw UsageError(
        fmt::format("pseudo-labels by {} need {}", method, coarse ? "--masks" : "--images and --scribbles"),
        "lockstep generate pseudo-labels --help");
  }
  options.images = images;
  options.scribbles = scribbles;
  options.masks = masks;
  options.out = out;
  Writing writing("guessing");
  const segmentation::MapCounts counts = segmentation::write_pseudo_labels(options, writing.progress());
  say_maps("maps of pseudo-labels", counts, out, writing.done());
  fmt::print("{}\n", share_text(counts));
  return 0;
}

int generate_distance_maps(const Arguments& arguments) {
  segmentation::DistanceFolderOptions options;
  std::string scribbles;
  std::string pseudo_labels;
  std::string out;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep generate distance-maps",
                     .description = "Writes how far each pixel is from the next scribble (255 on it, falling), or from "
                                    "the next border of the pseudo-labels (0 on it, rising): min(sqrt(lambda d^2), "
                                    "255), d in pixels.",
                     .example = "  lockstep generate distance-maps --scribbles data/set/scribbles --out "
                                "data/set/distance_scribble\n"
                                "  lockstep generate distance-maps --pseudo-labels data/set/pseudo_labels --out "
                                "data/set/distance_class"});
  app.add_option("--scribbles", scribbles, "PNGs of class ids, 255 where there is none");
  app.add_option("--pseudo-labels", pseudo_labels, "PNGs of class ids");
  app.add_option("--out", out, "the folder; it must be empty or absent")->required();
  app.add_option("--lambda", options.lambda, "how steep, above 0 (default: e for scribbles, e^6 for pseudo-labels)");
  if (!cli::parse(app, arguments)) return 0;
  if (scribbles.empty() == pseudo_labels.empty()) {
    throw UsageError("distance maps are made of either --scribbles or --pseudo-labels",
                     "lockstep generate distance-maps --help");
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
                .description = "Makes a set with scribbles, pseudo-labels and distance maps, in the layout of VOC, "
                               "of a set with full masks: VOC's layout, images/ with masks/ or instances/, or "
                               "folders train/ and val/ of such.",
                .example = "  lockstep generate weak-labels --from data/nuclei --out data/nuclei-weak --seed 1"});
  app.add_option("--from", from, "the set with full masks")->required();
  app.add_option("--masks", options.masks, "its folder of masks, where it has another name than usual");
  app.add_option("--out", out, "the folder; it must be empty or absent")->required();
  app.add_option("--seed", options.weak.seed, "the same seed gives the same bytes")->required();
  app.add_option("--method", method, "of pseudo-labels: watershed or coarse (default: watershed)");
  add_scribble_options(app, options.weak.scribbles);
  if (!cli::parse(app, arguments)) return 0;
  options.from = from;
  options.out = out;
  options.weak.method = segmentation::parse_pseudo_method(method);
  Writing writing("deriving");
  const segmentation::WeakSet set = segmentation::write_weak_set(options, writing.progress());
  const std::string time = writing.done();
  for (const auto& [split, count] : set.splits) fmt::print("{}: {} pictures\n", split, text::thousands(count));
  fmt::print("scribbles: {}\n", share_text(set.scribbles));
  fmt::print("pseudo-labels: {}, a mean IoU of {:.3f} with the full masks\n", share_text(set.pseudo_labels),
             set.pseudo_labels.mean_iou());
  fmt::print("{} ({})\n", out, time);
  return 0;
}

}  // namespace lockstep::worker
