// A recording's numbers as the page holds them: columns of small numbers, deflated, in base64.
// recording.js reads them. Knows nothing of what the numbers mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace cubfc::report {

// Numbers of seven bits a byte, the lowest first; the last byte of each is below 128.
void add_varint(std::string& column, std::uint64_t value);
// Four bytes, the lowest first.
void add_u32(std::string& column, std::uint32_t value);

// Deflates (zlib's format, RFC 1950) what it is given, and writes base64.
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
