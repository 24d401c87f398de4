// SPDX-License-Identifier: Apache-2.0
#include "captioning/tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <any>
#include <cstring>

#include "captioning/data/collate.h"
#include "captioning/metrics/tokens.h"
#include "captioning/page.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/contact_sheet.h"

namespace lockstep::captioning {
namespace {

constexpr std::int64_t kOnPage = 12;   // images in captions.png
constexpr std::int64_t kInReport = 3;  // captions reported after an evaluation

void put(std::string& bytes, std::int64_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// Reads a number written by put(). The bytes need not be portable, because all ranks run the same program.
std::int64_t take(std::string_view& bytes) {
  if (bytes.size() < sizeof(std::int64_t)) throw InternalError("the captions received from another rank are truncated");
  std::int64_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  bytes.remove_prefix(sizeof number);
  return number;
}

void merge(std::string_view bytes, std::map<std::int64_t, Ids>& said) {
  while (!bytes.empty()) {
    const std::int64_t index = take(bytes);
    Ids words(static_cast<std::size_t>(take(bytes)));
    for (std::int64_t& word : words) word = take(bytes);
    if (!said.emplace(index, std::move(words)).second) {
      throw InternalError(fmt::format("image {} was evaluated twice", index));
    }
  }
}

std::vector<std::vector<std::string>> worded(const std::vector<std::string>& captions) {
  std::vector<std::vector<std::string>> words;
  for (const std::string& caption : captions) words.push_back(words_of(caption));
  return words;
}

/// The JSON for an id: a number if it looks like one, as COCO's ids do, otherwise a string.
std::string id_json(const std::string& id) {
  const bool number = !id.empty() && id.size() < 18 && id.find_first_not_of("0123456789") == std::string::npos &&
                      (id == "0" || id.front() != '0');
  return number ? id : text::json_quote(id);
}

}  // namespace

CaptionTally::CaptionTally(std::shared_ptr<const Vocabulary> vocabulary, std::shared_ptr<const CaptionDataset> set)
    : vocabulary_(std::move(vocabulary)), set_(std::move(set)) {}

void CaptionTally::add(const Outputs& outputs, const Batch& batch) {
  const auto& captions = std::any_cast<const CaptionBatch&>(batch.extra);
  const at::Tensor words = outputs.at("words").to(at::kCPU, at::kLong).contiguous();
  const std::int64_t columns = words.size(1);
  const auto* row = words.data_ptr<std::int64_t>();
  for (const auto& image : captions.images) {
    said_[image->index] = Ids(row, std::find(row, row + columns, 0));
    row += columns;
  }
}

std::string CaptionTally::bytes() const {
  std::string bytes;
  for (const auto& [index, words] : said_) {
    put(bytes, index);
    put(bytes, static_cast<std::int64_t>(words.size()));
    for (const std::int64_t word : words) put(bytes, word);
  }
  return bytes;
}

std::vector<Metric> CaptionTally::metrics(const std::vector<std::string>& parts) {
  said_.clear();
  for (const std::string& part : parts) merge(part, said_);
  if (said_.empty()) throw DataError("there is no image to evaluate");
  std::vector<WordedCaption> captions;
  for (const auto& [index, words] : said_) {
    WordedCaption caption{.index = index, .hypothesis = {}, .references = worded(set_->captions(index).captions)};
    for (const std::int64_t word : words) caption.hypothesis.push_back(vocabulary_->word(word));
    captions.push_back(std::move(caption));
  }
  scores_ = score_captions(std::move(captions));
  const auto further = [](const char* name, double value) {
    return Metric{.name = name, .value = value, .in_table = false};
  };
  return {{"cider_d", scores_.cider_d},       {"bleu_4", scores_.bleu[3]},
          {"rouge_l", scores_.rouge_l},       further("meteor_exact", scores_.meteor_exact),
          further("bleu_1", scores_.bleu[0]), further("bleu_2", scores_.bleu[1]),
          further("bleu_3", scores_.bleu[2]), further("cider", scores_.cider)};
}

/// The table of COCO's scores, and the captions of a few images.
std::string CaptionTally::report() const {
  std::string text =
      fmt::format(" CIDEr-D {:.4f}   BLEU-1..4 {:.4f} {:.4f} {:.4f} {:.4f}   ROUGE-L {:.4f}   {} images\n",
                  scores_.cider_d, scores_.bleu[0], scores_.bleu[1], scores_.bleu[2], scores_.bleu[3], scores_.rouge_l,
                  text::thousands(std::ssize(said_)));
  std::int64_t shown = 0;
  for (const auto& [index, words] : said_) {
    if (shown++ == kInReport) break;
    text += fmt::format(" {}: {}\n", set_->captions(index).id, vocabulary_->text_of(words.data(), std::ssize(words)));
  }
  return text;
}

std::map<std::string, std::string> CaptionTally::results(std::int64_t epoch) const {
  std::vector<std::string> lines;
  for (const auto& [index, words] : said_) {
    lines.push_back(fmt::format("{{\"image_id\": {}, \"caption\": {}}}", id_json(set_->captions(index).id),
                                text::json_quote(vocabulary_->text_of(words.data(), std::ssize(words)))));
  }
  const std::string name = epoch == 0 ? "captions.json" : fmt::format("result_val_{}.json", epoch);
  return {{name, "[" + text::join(lines, ",\n ") + "]\n"}};
}

std::vector<std::filesystem::path> CaptionTally::draw(const std::filesystem::path& folder) const {
  if (set_->feature_width() > 0) return {};
  const auto count = std::ssize(said_);
  const std::int64_t shown = std::min<std::int64_t>(kOnPage, count);
  std::vector<CaptionedPicture> pictures;
  std::int64_t place = 0;
  for (const auto& [index, words] : said_) {
    // The images are spread evenly over the set, not cherry-picked.
    if (place++ != std::ssize(pictures) * count / std::max<std::int64_t>(shown, 1)) continue;
    const ImageCaptions& captions = set_->captions(index);
    pictures.push_back({.picture = set_->picture(index),
                        .caption = vocabulary_->text_of(words.data(), std::ssize(words)),
                        .reference = captions.captions.front(),
                        .cider_d = scores_.cider_d_each.at(static_cast<std::size_t>(place - 1))});
    if (std::ssize(pictures) == shown) break;
  }
  const auto path = folder / "captions.png";
  write_png(caption_page(pictures, {.legend = true}), path);
  return {path};
}

}  // namespace lockstep::captioning
