// SPDX-License-Identifier: Apache-2.0
// `lockstep generate captcha|detection|...`: synthetic images, with the same bytes for the same seed.
#include <fmt/format.h>

#include "captcha/synthetic/generate.h"
#include "common/cli.h"
#include "detection/synthetic/generate.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "worker/commands.h"
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
                     .description = "Draw captcha images as LABEL_INDEX.png, half of them in each of two styles.",
                     .examples = {"lockstep generate captcha --out data/train --count 8000 --seed 1 --charset 0-9"}});
  add_set_options(app, options, out, "the folder to write, which must not contain PNG files", kSeedHelp);
  app.add_option("--charset", charset, "the characters to use, as ranges and single characters")
      ->type_name("CHARACTERS");
  app.add_option("--length", options.length, "characters in an image")->check(cli::whole({1, 1000}))->type_name("N");
  app.add_option("--width", options.width, "the width of an image, in pixels")
      ->check(cli::whole({1, 16384}))
      ->type_name("N");
  app.add_option("--height", options.height, "the height of an image, in pixels")
      ->check(cli::whole({1, 16384}))
      ->type_name("N");
  app.add_option("--style", style, "drawing style; mixed alternates between the other two")
      ->type_name("mixed|simple|custom");
  if (!cli::parse(app, arguments)) return 0;
  options.out = out;
  options.charset = captcha::expand_charset(charset);
  options.style = captcha::parse_style(style);
  Writing writing("drawing");
  captcha::generate_captchas(options, writing.progress());
  print_to(stdout, "{} images in {} ({})\n", text::thousands(options.count), out, writing.done());
  return 0;
}

int generate_detection(const Arguments& arguments) {
  detection::GenerateOptions options;
  std::string out;
  std::string size = "160";
  std::string objects = "many";
  CLI::App app;
  cli::prepare(
      app,
      {.name = "lockstep generate detection",
       .description = "Draw scenes with shapes of 8 classes, as images/INDEX.png with a COCO file, annotations.json.",
       .examples = {"lockstep generate detection --out data/train --count 4000 --seed 1 --size 128-192",
                    "lockstep inspect data data/train"}});
  add_set_options(app, options, out, "the folder to write, which must not contain a data set", kSeedOfSetHelp);
  app.add_option("--size", size, "side length in pixels, or a range such as 128-192")->type_name("N|MIN-MAX");
  app.add_option("--objects", objects, "many: 5 to 30, some of them small or half hidden; few: 1 to 3 large ones")
      ->type_name("many|few");
  if (!cli::parse(app, arguments)) return 0;
  options.out = out;
  options.size = common::parse_sides(size, detection::kSides);
  options.objects = detection::parse_scene_objects(objects);
  Writing writing("drawing");
  detection::generate_scenes(options, writing.progress());
  print_to(stdout, "{} images in {} ({})\n", text::thousands(options.count), out, writing.done());
  return 0;
}

}  // namespace

int cmd_generate(const Arguments& arguments) {
  return cli::dispatch(
      {.name = "lockstep generate",
       .description = "Generate a synthetic data set; the same seed gives the same bytes.",
       .examples = {"lockstep generate captcha --out data/train --count 8000 --seed 1 --charset 0-9",
                    "lockstep generate segmentation --out data/shapes --count 400 --seed 1"}},
      {{"captcha", "draw captcha images with their labels in the file names", generate_captcha},
       {"detection", "draw scenes of shapes, with a COCO file", generate_detection},
       {"captioning", "draw scenes of shapes, with five captions for each", generate_captioning},
       {"segmentation", "draw scenes of shapes, with masks and weak labels", generate_segmentation},
       {"weak-labels", "create a data set with weak labels from one with full masks", generate_weak_labels},
       {"scribbles", "draw scribbles from full masks", generate_scribbles},
       {"pseudo-labels", "guess labels from images and scribbles, or from full masks", generate_pseudo_labels},
       {"distance-maps", "compute distance maps from scribbles or pseudo-labels", generate_distance_maps}},
      arguments);
}

}  // namespace lockstep::worker
