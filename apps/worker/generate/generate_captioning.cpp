// SPDX-License-Identifier: Apache-2.0
#include "worker/commands.h"

#include <fmt/format.h>

#include "captioning/synthetic/generate.h"
#include "common/cli.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "worker/writing.h"

namespace lockstep::worker {

int generate_captioning(const Arguments& arguments) {
  captioning::GenerateOptions options;
  std::string out;
  std::string format = "text";
  CLI::App app;
  cli::prepare(app, {.name = "lockstep generate captioning",
                     .description = "Draw scenes of two to four shapes and write five captions for each.\n\nThe images "
                                    "are images/INDEX.png; the captions are in captions.txt, or with --format coco in "
                                    "captions.json.",
                     .examples = {"lockstep generate captioning --out data/scenes --count 2000 --seed 1"}});
  add_set_options(app, options, out, kNewFolderHelp, kSeedOfSetHelp);
  app.add_option("--size", options.size, "side length in pixels")->check(cli::whole({1, 8192}))->type_name("N");
  app.add_option("--format", format, "the format of the captions")->type_name("text|coco");
  if (!cli::parse(app, arguments)) return 0;
  options.out = out;
  options.format = captioning::parse_caption_format(format);
  Writing writing("drawing");
  captioning::generate_captioned_scenes(options, writing.progress());
  print_to(stdout, "{} images in {} ({})\n", text::thousands(options.count), out, writing.done());
  return 0;
}

}  // namespace lockstep::worker
