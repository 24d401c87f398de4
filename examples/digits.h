// The images that several examples learn from: MNIST if it is in $LOCKSTEP_DATA/mnist, otherwise synthetic digits.
#pragma once

#include <lockstep/data.h>
#include <lockstep/data/sources/idx_dataset.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

// A digit as 7 rows of 5 dots, with random position, size and slant, plus noise. `part` seeds the random numbers.
inline lockstep::Sample drawn_digit(int64_t index, uint64_t part) {
  static constexpr int kRows[10][7] = {
      {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},    {14, 17, 1, 2, 4, 8, 31},   {31, 2, 4, 2, 1, 17, 14},
      {2, 6, 10, 18, 31, 2, 2},     {31, 16, 30, 1, 1, 17, 14}, {6, 8, 16, 30, 17, 17, 14}, {31, 1, 2, 4, 8, 8, 8},
      {14, 17, 17, 14, 17, 17, 14}, {14, 17, 17, 15, 1, 2, 12}};
  lockstep::SampleRandom random(1, part, static_cast<uint64_t>(index));
  const int64_t digit = index % 10;
  const double size = random.uniform(2, 3), left = random.uniform(4, 10), top = random.uniform(2, 6);
  const double slant = random.uniform(-0.2, 0.2);
  at::Tensor picture = at::empty({1, 28, 28}, at::kFloat);
  float* pixel = picture.data_ptr<float>();
  for (int y = 0; y < 28; ++y) {
    for (int x = 0; x < 28; ++x) {
      const int column = static_cast<int>(std::floor((x - left - slant * (y - 14)) / size));
      const int row = static_cast<int>(std::floor((y - top) / size));
      const bool is_in = column >= 0 && column < 5 && row >= 0 && row < 7;
      const bool is_dot = is_in && (kRows[digit][row] >> (4 - column) & 1) != 0;
      *pixel++ = static_cast<float>(random.uniform(0, 0.4) + (is_dot ? 0.6 : 0));
    }
  }
  return {picture, at::scalar_tensor(digit, at::kLong)};
}

// `part` is "train" (8,000 images) or "test" (2,000). A sample is an image, float [1, 28, 28] in 0 .. 1, and its digit.
inline std::shared_ptr<lockstep::Dataset> digits(const std::string& part) {
  const char* root = std::getenv("LOCKSTEP_DATA");
  const std::filesystem::path folder = std::filesystem::path(root != nullptr ? root : ".") / "mnist";
  if (std::filesystem::is_directory(folder)) {
    return std::make_shared<lockstep::IdxDataset>(lockstep::find_idx(folder, part));
  }
  const bool is_test = part == "test";
  return lockstep::make_dataset(is_test ? 2000 : 8000, [is_test](int64_t i) { return drawn_digit(i, is_test); });
}
