// SPDX-License-Identifier: Apache-2.0
// `lockstep generate captcha|detection|...`: synthetic images, the same bytes for the same seed.
#include <fmt/format.h>

#include "captcha/synthetic/generate.h"
#include "common/cli.h"
#include "detection/synthetic/generate.h"
#include "lockstep/base/text.h"
#include "worker/commands.h"
#include "worker/generate/generate_captioning.h"
#include "worker/generate/generate_segmentation.h"
#include "worker/writing.h"

namespace lockstep::worker {
namespace {

int generate_captcha(const Arguments& arguments) {
  captcha::GenerateOptions options;
  std::string out;
  std::string charset = "0-9A-Z";
  std::string style = "mixed";
  CLI::App app;
  cli::prepare(app, {.name = "lockstep generate captcha",
                     .description = "Draws captcha images as LABEL_<index>.png, half in each of two styles.",
                     .example = "  lockstep generate captcha --out data/train --count 8000 --seed 1 --charset 0-9"});
  app.add_option("--out", out, "the folder; it must hold no PNG file yet")->required();
  app.add_option("--count", options.count, "how many images")->required()->check(cli::whole({1, 1'000'000'000}));
  app.add_option("--seed", options.seed, "the same seed gives the same bytes")->required();
  app.add_option("--charset", charset, "ranges and single characters (default: 0-9A-Z)");
  app.add_option("--length", options.length, "characters per image (default: 4)")->check(cli::whole({1, 1000}));
  app.add_option("--width", options.width, "pixels (default: 160)")->check(cli::whole({1, 16384}));
  app.add_option("--height", options.height, "pixels (default: 60)")->check(cli::whole({1, 16384}));
  app.add_option("--style", style, "mixed, simple or custom (default: mixed)");
  if (!cli::parse(app, arguments)) return 0;
  options.out = out;
  options.charset = captcha::expand_charset(charset);
  options.style = captcha::parse_style(style);
  Writing writing("drawing");
  captcha::generate_captchas(options, writing.progress_of(options.count));
  const std::string time = writing.done();
  fmt::print("{} images in {} ({})\n", text::thousands(options.count), out, time);
  return 0;
}

int generate_detection(const Arguments& arguments) {
  detection::GenerateOptions options;
  std::string out;
  std::string size = "160";
  CLI::App app;
  cli::prepare(app, {.name = "lockstep generate detection",
                     .description = "Draws scenes with shapes of 8 classes and writes COCO's JSON about them: "
                                    "images/<index>.png and annotations.json.",
                     .example = "  lockstep generate detection --out data/train --count 4000 --seed 1 --size 128-192\n"
                                "  lockstep inspect data data/train"});
  app.add_option("--out", out, "the folder; it must hold no set yet")->required();
  app.add_option("--count", options.count, "how many pictures")->required()->check(cli::whole({1, 1'000'000'000}));
  app.add_option("--seed", options.seed, "the same seed gives the same bytes; a test set needs another one")
      ->required();
  app.add_option("--size", size, "pixels of each side, or a range such as 128-192 (default: 160)");
  if (!cli::parse(app, arguments)) return 0;
  options.out = out;
  options.size = detection::parse_sides(size);
  Writing writing("drawing");
  detection::generate_scenes(options, writing.progress_of(options.count));
  const std::string time = writing.done();
  fmt::print("{} pictures in {} ({})\n", text::thousands(options.count), out, time);
  return 0;
}

}  // namespace

int cmd_generate(const Arguments& arguments) {
  return cli::dispatch("lockstep generate",
                       {{"captcha", "captcha images with labels in their names", generate_captcha},
                        {"detection", "scenes with shapes, and COCO's JSON about them", generate_detection},
                        {"captioning", "scenes with shapes, and five captions of each", generate_captioning},
                        {"segmentation", "scenes with shapes, masks and weak labels", generate_segmentation},
                        {"weak-labels", "a set with full masks as one with weak labels", generate_weak_labels},
                        {"scribbles", "of full masks", generate_scribbles},
                        {"pseudo-labels", "of pictures and scribbles, or of full masks", generate_pseudo_labels},
                        {"distance-maps", "of scribbles or pseudo-labels", generate_distance_maps}},
                       arguments);
}

}  // namespace lockstep::worker
