// A baseline: best fit in an ordered set by XLA's rule. A chunk is split only if it is at least
// twice the request or if 128 MiB would be left; otherwise the request gets all of it. Sizes are
// rounded to 256 bytes, as XLA rounds them. Not its code, nor its bins: they find the same chunk.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace cubfc::bench {

class XlaBestFit {
 public:
  struct Chunk {
    std::uint64_t bytes;
    bool free;
  };
  using Chunks = std::map<std::uint64_t, Chunk>;  // by address
  using Handle = Chunks::iterator;

  explicit XlaBestFit(std::uint64_t capacity) {
    const std::uint64_t bytes = capacity / kAlignment * kAlignment;
    chunks_.emplace(kBase, Chunk{bytes, true});
    holes_.emplace(bytes, kBase);
  }
  // Handles point into the map.
  XlaBestFit(const XlaBestFit&) = delete;
  XlaBestFit& operator=(const XlaBestFit&) = delete;
  ~XlaBestFit() = default;

  Handle allocate(std::uint64_t request) {
    const std::uint64_t bytes = (request + kAlignment - 1) / kAlignment * kAlignment;
    const auto hole = holes_.lower_bound({bytes, 0});
    if (hole == holes_.end()) {
      return chunks_.end();
    }
    const Handle chunk = chunks_.find(hole->second);
    holes_.erase(hole);
    chunk->second.free = false;
    const std::uint64_t left = chunk->second.bytes - bytes;
    if (chunk->second.bytes >= 2 * bytes || left >= kLargestWaste) {
      chunk->second.bytes = bytes;
      chunks_.emplace_hint(std::next(chunk), chunk->first + bytes, Chunk{left, true});
      holes_.emplace(left, chunk->first + bytes);
    }
    return chunk;
  }

  void free(Handle chunk) {
    chunk->second.free = true;
    if (const Handle next = std::next(chunk); next != chunks_.end() && next->second.free) {
      absorb_next(chunk, next);
    }
    if (chunk != chunks_.begin() && std::prev(chunk)->second.free) {
      const Handle previous = std::prev(chunk);
      holes_.erase({previous->second.bytes, previous->first});
      previous->second.bytes += chunk->second.bytes;
      chunks_.erase(chunk);
      chunk = previous;
    }
    holes_.emplace(chunk->second.bytes, chunk->first);
  }

  bool failed(Handle chunk) { return chunk == chunks_.end(); }
  static std::uint64_t address(Handle chunk) { return chunk->first; }

 private:
  static constexpr std::uint64_t kAlignment = 256;
  static constexpr std::uint64_t kLargestWaste = 128ULL << 20;
  static constexpr std::uint64_t kBase = 0x7F0000000000;

  void absorb_next(Handle chunk, Handle next) {
    holes_.erase({next->second.bytes, next->first});
    chunk->second.bytes += next->second.bytes;
    chunks_.erase(next);
  }

  Chunks chunks_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> holes_;  // size, address
};

}  // namespace cubfc::bench
