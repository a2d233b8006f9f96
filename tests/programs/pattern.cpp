// Patterns in pieces of a mebibyte, so that a block of any size needs little host memory.
#include "pattern.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace programs {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;
constexpr std::size_t kWordBytes = sizeof(std::uint32_t);

// Word i of a block is a number that depends on the block and, in every bit, on i: memory of
// another block, or the right block's at a wrong distance, is not taken for it.
void make_piece(std::vector<std::uint32_t>& words, std::size_t first_word, std::uint32_t seed) {
  constexpr std::uint32_t kSpread = 2654435761U;  // 2^32 by the golden ratio
  std::uint32_t value = seed * 0x9e3779b1U + static_cast<std::uint32_t>(first_word) * kSpread;
  for (std::uint32_t& word : words) {
    word = value ^ seed;
    value += kSpread;
  }
}

std::vector<std::uint32_t>& piece_buffer(std::size_t bytes) {
  thread_local std::vector<std::uint32_t> words;
  words.resize((std::min(bytes, kPieceBytes) + kWordBytes - 1) / kWordBytes);
  return words;
}

template <class Copy>
void in_pieces(std::size_t bytes, std::uint32_t seed, const Copy& copy) {
  std::vector<std::uint32_t>& words = piece_buffer(bytes);
  for (std::size_t offset = 0; offset < bytes; offset += kPieceBytes) {
    make_piece(words, offset / kWordBytes, seed);
    copy(offset, std::min(kPieceBytes, bytes - offset), words.data());
  }
}

}  // namespace

void write_pattern(const Driver& driver, CUdeviceptr block, std::size_t bytes, std::uint32_t seed) {
  in_pieces(bytes, seed, [&](std::size_t offset, std::size_t length, const void* piece) {
    must(driver, "cuMemcpyHtoD", driver.cuMemcpyHtoD(block + offset, piece, length));
  });
  // CUDA driver API, API synchronization behavior: the call may return as soon as pageable memory
  // is in the driver's hands. A stream that does not wait for the legacy one would be too early
  // (seen on an H200: memory of a moment before was copied on).
  must(driver, "cuStreamSynchronize", driver.cuStreamSynchronize(CU_STREAM_LEGACY));
}

void write_pattern(const Driver& driver, CUdeviceptr block, std::size_t bytes, std::uint32_t seed,
                   CUstream stream) {
  in_pieces(bytes, seed, [&](std::size_t offset, std::size_t length, const void* piece) {
    must(driver, "cuMemcpyHtoDAsync",
         driver.cuMemcpyHtoDAsync(block + offset, piece, length, stream));
    must(driver, "cuStreamSynchronize", driver.cuStreamSynchronize(stream));
  });
}

std::size_t count_mismatches(const Driver& driver, CUdeviceptr block, std::size_t bytes,
                             std::uint32_t seed) {
  thread_local std::vector<unsigned char> read;
  read.resize(std::min(bytes, kPieceBytes));
  std::size_t mismatches = 0;
  in_pieces(bytes, seed, [&](std::size_t offset, std::size_t length, const void* piece) {
    must(driver, "cuMemcpyDtoH", driver.cuMemcpyDtoH(read.data(), block + offset, length));
    if (std::memcmp(read.data(), piece, length) != 0) {
      const auto* const wanted = static_cast<const unsigned char*>(piece);
      for (std::size_t i = 0; i < length; ++i) {
        mismatches += read[i] == wanted[i] ? 0 : 1;
      }
    }
  });
  return mismatches;
}

}  // namespace programs
