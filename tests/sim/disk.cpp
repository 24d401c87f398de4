// SPDX-License-Identifier: Apache-2.0
#include "sim/disk.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::sim {
namespace {

int refuse(int code) {
  errno = code;
  return -1;
}

void apply(std::map<int, Disk::Node>& nodes, int folder, const std::string& name, int node, bool is_there) {
  auto& names = nodes.at(folder).on_disk;
  const auto found = names.find(name);
  if (is_there) {
    names[name] = node;
  } else if (found != names.end() && found->second == node) {
    names.erase(found);
  }
}

}  // namespace

Disk*& disk() {
  static Disk* instance = nullptr;
  return instance;
}

Disk::Disk() { nodes_[0].is_folder = true; }

std::uint64_t Disk::next_version() {
  static std::uint64_t last = 0;
  return ++last;
}

bool Disk::has(const char* path) {
  const std::string_view text(path);
  return disk() != nullptr && text.starts_with(kRoot) && (text.size() == kRoot.size() || text[kRoot.size()] == '/');
}

std::optional<Disk::Place> Disk::locate(int folder, std::string_view path) const {
  if (path.starts_with('/')) {
    path.remove_prefix(kRoot.size());
    folder = 0;
  }
  Place place{.folder = folder, .name = ".", .node = folder};
  while (!path.empty()) {
    const auto slash = std::min(path.find('/'), path.size());
    const std::string name(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (name.empty() || name == ".") continue;
    if (place.node < 0) return errno = ENOENT, std::nullopt;
    const Node& in = nodes_.at(place.node);
    if (!in.is_folder) return errno = ENOTDIR, std::nullopt;
    const auto found = in.names.find(name);
    place = {place.node, name, found == in.names.end() ? -1 : found->second};
  }
  return place;
}

int Disk::find(int folder, std::string_view path) const {
  const auto place = locate(folder, path);
  return place && place->node < 0 ? refuse(ENOENT) : place ? place->node : -1;
}

bool Disk::fails(double chance, const char* kind) {
  if (chance <= 0 || !kernel()->dice().chance(chance)) return false;
  ++failures[kind];
  errno = EIO;
  return true;
}

void Disk::changed(const std::string& from, const std::string& to) {
  if (on_change) on_change(from, to);
}

int Disk::add(const Place& place, bool is_folder) {
  if (state.room != SIZE_MAX && used() >= state.room) return ++failures["no space"], refuse(ENOSPC);
  const int number = next_++;
  nodes_[number].is_folder = is_folder;
  touch(nodes_[number]);
  nodes_.at(place.folder).names[place.name] = number;
  note({.to = place.folder, .new_name = place.name, .node = number});
  changed({}, place.name);
  return number;
}

void Disk::note(Change change) { pending_.push_back(std::move(change)); }

int Disk::open(int folder, std::string_view path, int flags) {
  const auto place = locate(folder, path);
  if (!place) return -1;
  if (place->node < 0) return (flags & O_CREAT) == 0 ? refuse(ENOENT) : add(*place, false);
  const Node& node = nodes_.at(place->node);
  if ((flags & O_DIRECTORY) != 0 && !node.is_folder) return refuse(ENOTDIR);
  if (node.is_folder && (flags & O_ACCMODE) != O_RDONLY) return refuse(EISDIR);
  if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) return refuse(EEXIST);
  if ((flags & O_TRUNC) != 0 && !node.is_folder) truncate(place->node, 0);
  return place->node;
}

int Disk::make_folder(std::string_view path) {
  const auto place = locate(0, path);
  if (!place) return -1;
  if (place->node >= 0) return refuse(EEXIST);
  if (fails(state.fails_name, "name")) return -1;
  return add(*place, true) < 0 ? -1 : 0;
}

int Disk::rename(std::string_view from, std::string_view to) {
  const auto source = locate(0, from);
  const auto target = locate(0, to);
  if (!source || !target) return -1;
  if (source->node < 0) return refuse(ENOENT);
  const bool is_folder = nodes_.at(source->node).is_folder;
  if (target->node >= 0) {
    const Node& replaced = nodes_.at(target->node);
    if (replaced.is_folder != is_folder) return refuse(is_folder ? ENOTDIR : EISDIR);
    if (!replaced.names.empty()) return refuse(ENOTEMPTY);
  }
  if (fails(state.fails_name, "name")) return -1;
  nodes_.at(source->folder).names.erase(source->name);
  nodes_.at(target->folder).names[target->name] = source->node;
  note({source->folder, source->name, target->folder, target->name, source->node});
  changed(source->name, target->name);
  return 0;
}

int Disk::remove(int folder, std::string_view path, bool is_folder) {
  const auto place = locate(folder, path);
  if (!place) return -1;
  if (place->node < 0) return refuse(ENOENT);
  const Node& node = nodes_.at(place->node);
  if (node.is_folder != is_folder) return refuse(is_folder ? ENOTDIR : EISDIR);
  if (!node.names.empty()) return refuse(ENOTEMPTY);
  if (fails(state.fails_name, "name")) return -1;
  nodes_.at(place->folder).names.erase(place->name);
  note({.from = place->folder, .old_name = place->name, .node = place->node});
  changed(place->name);
  return 0;
}

int Disk::sync(int number) {
  Node& node = nodes_.at(number);
  if (fails(state.fails_sync, "sync")) {
    node.dirty.clear();  // the pages count as clean but never reach the disk
    return -1;
  }
  for (const std::size_t block : node.dirty) {
    const std::size_t begin = block * kBlock;
    if (begin >= node.bytes.size()) continue;
    node.durable.resize(std::max(node.durable.size(), std::min(begin + kBlock, node.bytes.size())));
    node.durable.replace(begin, std::min(kBlock, node.bytes.size() - begin), node.bytes.substr(begin, kBlock));
  }
  node.durable.resize(node.bytes.size());
  node.dirty.clear();
  const auto touches = [number](const Change& change) { return change.from == number || change.to == number; };
  for (const Change& change : pending_) {
    if (!touches(change)) continue;
    if (change.from >= 0) apply(nodes_, change.from, change.old_name, change.node, false);
    if (change.to >= 0) apply(nodes_, change.to, change.new_name, change.node, true);
  }
  std::erase_if(pending_, touches);
  changed();
  return 0;
}

ssize_t Disk::write(int number, std::size_t offset, std::string_view bytes) {
  if (fails(state.fails_write, "write")) return -1;
  Node& node = nodes_.at(number);
  const std::size_t grows = std::max(offset + bytes.size(), node.bytes.size()) - node.bytes.size();
  const std::size_t left = state.room == SIZE_MAX ? SIZE_MAX : state.room - std::min(used(), state.room);
  if (grows > left && grows - left >= bytes.size()) return ++failures["no space"], refuse(ENOSPC);
  if (grows > left) bytes = bytes.substr(0, bytes.size() - (grows - left));
  if (offset + bytes.size() > node.bytes.size()) node.bytes.resize(offset + bytes.size());
  node.bytes.replace(offset, bytes.size(), bytes);
  for (std::size_t at = offset / kBlock; at * kBlock < offset + bytes.size(); ++at) node.dirty.insert(at);
  node.writer = kernel()->current()->process->host->number;
  touch(node);
  changed();
  return static_cast<ssize_t>(bytes.size());
}

ssize_t Disk::read(int number, std::size_t offset, char* to, std::size_t size) {
  const Node& node = nodes_.at(number);
  if (node.is_folder) return refuse(EISDIR);
  if (fails(state.fails_read, "read")) return -1;
  const std::size_t count = std::min(size, node.bytes.size() - std::min(offset, node.bytes.size()));
  std::memcpy(to, node.bytes.data() + offset, count);
  return static_cast<ssize_t>(count);
}

int Disk::truncate(int number, std::size_t size) {
  Node& node = nodes_.at(number);
  for (std::size_t at = size / kBlock; at * kBlock < node.bytes.size(); ++at) node.dirty.insert(at);
  node.bytes.resize(size);
  node.writer = kernel()->current()->process->host->number;
  touch(node);
  changed();
  return 0;
}

/// Decides what remains of an unsynced file after a power cut: everything, nothing, some blocks, or only its size,
/// filled with zeros.
void Disk::settle(Node& node, Dice& dice) {
  if (node.bytes == node.durable) return node.dirty.clear();
  const auto kind = dice.between(0, 3);
  if (kind > 0 && (kind == 3 || dice.chance(0.7))) node.durable.resize(node.bytes.size());
  for (const std::size_t block : node.dirty) {
    const std::size_t begin = block * kBlock;
    const bool is_written = kind == 3 || (kind == 2 && dice.chance(0.5));
    if (!is_written || begin >= std::min(node.bytes.size(), node.durable.size())) continue;
    const std::size_t size = std::min({kBlock, node.bytes.size() - begin, node.durable.size() - begin});
    node.durable.replace(begin, size, node.bytes.substr(begin, size));
  }
  node.dirty.clear();
  node.bytes = node.durable;
  touch(node);
}

void Disk::lose_host(int host, Dice& dice) {
  for (auto& [number, node] : nodes_) {
    if (!node.is_folder && node.writer == host && !node.dirty.empty()) settle(node, dice);
  }
}

void Disk::lose_power(Dice& dice) {
  const auto kind = dice.between(0, 3);
  const auto kept = static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(pending_.size())));
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    const bool is_kept = kind == 0 || (kind == 1 && i < kept) || (kind == 2 && dice.chance(0.5));
    const Change& change = pending_[i];
    if (is_kept && change.from >= 0) apply(nodes_, change.from, change.old_name, change.node, false);
    if (is_kept && change.to >= 0) apply(nodes_, change.to, change.new_name, change.node, true);
  }
  pending_.clear();
  for (auto& [number, node] : nodes_) {
    if (!node.is_folder) settle(node, dice);
    if (node.names != node.on_disk) touch(node);
    node.names = node.on_disk;
  }
  const std::set<int> left = named();
  std::erase_if(nodes_, [&](const auto& entry) { return left.count(entry.first) == 0; });
}

std::set<int> Disk::named() const {
  std::set<int> found = {0};
  std::vector<int> left = {0};
  while (!left.empty()) {
    const Node& node = nodes_.at(left.back());
    left.pop_back();
    for (const auto& [name, inside] : node.names) {
      if (found.insert(inside).second) left.push_back(inside);
    }
  }
  return found;
}

std::size_t Disk::used() const {
  std::size_t sum = 0;
  for (const int node : named()) sum += nodes_.at(node).bytes.size();
  return sum;
}

Locks& locks() {
  static Locks all;
  return all;
}

bool Locks::take(int node, const void* descriptor, int host) {
  const auto found = holders_.find(node);
  if (found != holders_.end()) return found->second.descriptor == descriptor;
  holders_[node] = {descriptor, host};
  return true;
}

void Locks::release(int node, const void* descriptor) {
  const auto found = holders_.find(node);
  if (found != holders_.end() && found->second.descriptor == descriptor) holders_.erase(found);
}

void Locks::expire(int host) {
  std::erase_if(holders_, [host](const auto& entry) { return entry.second.host == host; });
}

}  // namespace lockstep::sim
