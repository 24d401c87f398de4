// SPDX-License-Identifier: Apache-2.0
// A list of images as a source.
#include <fmt/format.h>

#include "data/sources/annotations/list_parse.h"
#include "data/sources/files/files.h"
#include "lockstep/base/error.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/data/sources/inside.h"
#include "lockstep/data/sources/text_files.h"

namespace lockstep {

namespace fs = std::filesystem;

ImageList::ImageList(const fs::path& list, const fs::path& images, bool allow_outside)
    : folder_(images.empty() ? list.parent_path() : images) {
  const std::string text = read_text(list);
  Result<data::ParsedList> parsed =
      data::lower_case(list.extension().string()) == ".csv" ? data::parse_csv_list(text) : data::parse_json_list(text);
  if (!parsed) throw DataError(fmt::format("cannot read the list {}: {}", list.string(), parsed.error()));
  if (parsed->entries.empty()) throw DataError(fmt::format("the list {} contains no images", list.string()));
  data::note_numbered_classes(list.string(), parsed->classes);
  for (data::ListEntry& entry : parsed->entries) entry.path = name_inside(folder_, entry.path, list, allow_outside);
  list_ = std::make_shared<const data::ParsedList>(std::move(parsed).value());
}

std::int64_t ImageList::size() const { return std::ssize(list_->entries); }

AnnotatedImage ImageList::get(std::int64_t index) const {
  const data::ListEntry& entry = list_->entries[static_cast<std::size_t>(index)];
  AnnotatedImage picture = data::picture_of(folder_ / entry.path, index);
  picture.label = entry.label;
  picture.captions = entry.captions;
  picture.objects = entry.objects;
  picture.values = entry.values;
  if (list_->label_count > 0) {
    const std::size_t first = picture.values.size();
    picture.values.resize(first + static_cast<std::size_t>(list_->label_count), 0.0F);
    for (const std::int64_t label : entry.labels) picture.values[first + static_cast<std::size_t>(label)] = 1.0F;
  }
  return picture;
}

const std::vector<std::string>& ImageList::class_names() const { return list_->classes; }
const std::vector<std::string>& ImageList::value_names() const noexcept { return list_->value_names; }

}  // namespace lockstep
