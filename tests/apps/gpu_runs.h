// SPDX-License-Identifier: Apache-2.0
// What the tests of the programs on a GPU share.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "apps/command.h"
#include "lockstep/data/contact_sheet.h"
#include "support/gpu.h"
#include "support/temp_dir.h"

namespace lockstep::test {

using Words = std::vector<std::string>;

inline Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Captchas of four digits as bars of different heights: the machine with the GPU may have no fonts to draw others.
inline void draw_digits(const std::filesystem::path& folder, int count) {
  std::filesystem::create_directories(folder);
  for (int i = 0; i < count; ++i) {
    const std::string label = fmt::format("{:04}", i * 7919 % 10'000);
    Image image{.size = {160, 60}, .channels = 1, .pixels = std::vector<std::uint8_t>(160 * 60, 255)};
    for (std::size_t place = 0; place < label.size(); ++place) {
      const int height = 5 * (label[place] - '0' + 1);
      for (int y = 60 - height; y < 60; ++y) {
        std::fill_n(image.pixels.begin() + y * 160 + static_cast<int>(place) * 40 + 8, 24, std::uint8_t{0});
      }
    }
    write_png(image, folder / fmt::format("{}_{}.png", label, i));
  }
}

/// The mean loss of each epoch, from the run's log.
inline std::vector<double> epoch_losses(const std::filesystem::path& run) {
  constexpr std::string_view kKey = "\"loss\": ";
  std::vector<double> losses;
  std::ifstream log(run / "log.jsonl");
  for (std::string line; std::getline(log, line);) {
    const std::size_t at = line.find(kKey);
    if (line.find("\"event\": \"epoch\"") != std::string::npos && at != std::string::npos) {
      losses.push_back(std::stod(line.substr(at + kKey.size())));
    }
  }
  return losses;
}

}  // namespace lockstep::test
