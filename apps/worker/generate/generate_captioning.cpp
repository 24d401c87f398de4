// SPDX-License-Identifier: Apache-2.0
#include "worker/generate/generate_captioning.h"

#include <fmt/format.h>

#include "captioning/synthetic/generate.h"
#include "common/cli.h"
#include "lockstep/base/text.h"
#include "worker/writing.h"

namespace lockstep::worker {

int generate_captioning(const Arguments& arguments) {
  captioning::GenerateOptions options;
  std::string out;
  std::string format = "text";
  CLI::App app;
  cli::prepare(app, {.name = "lockstep generate captioning",
                     .description = "Draws scenes of two to four shapes and writes five captions about each: "
                                    "images/<index>.png and captions.txt, or COCO's captions.json.",
                     .example = "  lockstep generate captioning --out data/scenes --count 2000 --seed 1"});
  app.add_option("--out", out, "the folder; it must be empty or absent")->required();
  app.add_option("--count", options.count, "how many pictures")->required()->check(cli::whole({1, 1'000'000'000}));
  app.add_option("--seed", options.seed, "the same seed gives the same bytes; a test set needs another one")
      ->required();
  app.add_option("--size", options.size, "pixels of each side (default: 128)")->check(cli::whole({1, 8192}));
  app.add_option("--format", format, "text or coco (default: text)");
  if (!cli::parse(app, arguments)) return 0;
  options.out = out;
  options.format = captioning::parse_caption_format(format);
  Writing writing("drawing");
  captioning::generate_captioned_scenes(options, writing.progress());
  const std::string time = writing.done();
  fmt::print("{} pictures in {} ({})\n", text::thousands(options.count), out, time);
  return 0;
}

}  // namespace lockstep::worker
