// Which sizes of blocks have been freed before.
#pragma once

#include <array>
#include <cstdint>

namespace cubfc::arena {

// One bit for each hash of a size: has() may return true for a size that was never freed.
class FreedSizes {
 public:
  void add(std::uint32_t granules) { words_[word_of(granules)] |= bit_of(granules); }
  bool has(std::uint32_t granules) const {
    return (words_[word_of(granules)] & bit_of(granules)) != 0;
  }
  void clear() noexcept { words_.fill(0); }

 private:
  static constexpr std::uint32_t kHashBits = 12;
  static std::uint32_t hash_of(std::uint32_t granules) {
    return (granules * 0x9E3779B1U) >> (32 - kHashBits);
  }
  static std::uint32_t word_of(std::uint32_t granules) { return hash_of(granules) / 64; }
  static std::uint64_t bit_of(std::uint32_t granules) {
    return std::uint64_t{1} << (hash_of(granules) % 64);
  }

  std::array<std::uint64_t, (1U << kHashBits) / 64> words_{};
};

}  // namespace cubfc::arena
