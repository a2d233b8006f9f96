// Running peer.cpp, the tests' second process.
#pragma once

#include <array>
#include <cstdio>
#include <string>

#include "test_device.h"

namespace standin_test {

// The bytes of a handle, as the peer takes them.
template <typename Handle>
std::string Hexadecimal(const Handle& handle) {
  std::string text;
  for (const auto byte : handle.reserved) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(byte));
    text += digits.data();
  }
  return text;
}

// A peer that was started; it goes on while the test does.
class Peer {
 public:
  explicit Peer(const std::string& arguments, const std::string& shared_file = SharedFile())
      : pipe_(
            popen((SharedVariable(shared_file) + " " STANDIN_PEER " " + arguments).c_str(), "r")) {}
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() { pclose(pipe_); }

  // The next line that it prints; empty at its end.
  std::string Line() {
    std::array<char, 256> line{};
    return std::fgets(line.data(), static_cast<int>(line.size()), pipe_) ? line.data() : "";
  }

 private:
  FILE* const pipe_;
};

inline std::string RunPeer(const std::string& arguments,
                           const std::string& shared_file = SharedFile()) {
  return Peer(arguments, shared_file).Line();
}

}  // namespace standin_test
