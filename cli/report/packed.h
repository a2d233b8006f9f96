// Packs a recording's numbers for the page: columns of numbers, deflated, in base64. recording.js
// unpacks them. Knows nothing of what the numbers mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace cubfc::report {

// Adds a number as bytes with seven bits each, the lowest first; its last byte is below 128.
void add_varint(std::string& column, std::uint64_t value);
// Adds a number as four bytes, the lowest first.
void add_u32(std::string& column, std::uint32_t value);

// Deflates all bytes that are added (zlib's format, RFC 1950), and writes them in base64. finish()
// must be called after the last.
class Packer {
 public:
  using Write = std::function<void(std::string_view)>;
  explicit Packer(Write write);
  ~Packer();
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  void add(std::string_view bytes);
  void finish();

 private:
  struct Stream;
  void deflate_all(std::string_view bytes, bool last);
  void encode(std::string_view bytes);

  Write write_;
  std::unique_ptr<Stream> stream_;
  std::string rest_;  // fewer than three bytes, not written yet
};

}  // namespace cubfc::report
