// SPDX-License-Identifier: Apache-2.0
#include "train/step/bad_batch.h"

#include <fmt/format.h>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/safetensors.h"

namespace lockstep::train {

namespace fs = std::filesystem;

fs::path write_bad_batch(const Task& task, const Dataset& dataset, const Batch& batch, const BadBatch& bad,
                         const fs::path& folder) {
  FileSystem& files = FileSystem::system();
  files.make_folder(folder);
  const fs::path path =
      folder / fmt::format("step-{:08}-replica-{}-batch-{}.safetensors", bad.step, bad.replica, batch.step);
  SafetensorsMetadata words = {{"fault", bad.fault}, {"epoch", std::to_string(batch.epoch + 1)}};
  for (std::size_t i = 0; i < batch.indices.size(); ++i) {
    words[fmt::format("sample.{:04}", i)] = dataset.describe(batch.indices[i]);
  }
  (void)write_safetensors(files, path, task.batch_state(batch), words);
  return path;
}

}  // namespace lockstep::train
