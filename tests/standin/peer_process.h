// Running peer.cpp, the tests' second process.
#pragma once

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <stdexcept>
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
  explicit Peer(const std::string& arguments, const std::string& shared_file = SharedFile()) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      throw std::runtime_error("no socket for a peer");
    }
    std::string command = SharedVariable(shared_file) + " exec " STANDIN_PEER " " + arguments;
    std::array<std::string, 2> words{"sh", "-c"};
    const std::array<char*, 4> line{words[0].data(), words[1].data(), command.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int error = posix_spawn(&pid_, "/bin/sh", &actions, nullptr, line.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    socket_ = fdopen(ends[0], "r+");
    if (error != 0 || socket_ == nullptr) throw std::runtime_error("a peer cannot be started");
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() {
    std::fclose(socket_);
    waitpid(pid_, nullptr, 0);
  }

  // The next line that it prints; empty at its end.
  std::string Line() {
    std::array<char, 256> line{};
    return std::fgets(line.data(), static_cast<int>(line.size()), socket_) ? line.data() : "";
  }
  // It waits for that.
  void GoOn() {
    std::fputs("\n", socket_);
    std::fflush(socket_);
  }

 private:
  pid_t pid_ = -1;
  FILE* socket_ = nullptr;
};

inline std::string RunPeer(const std::string& arguments,
                           const std::string& shared_file = SharedFile()) {
  return Peer(arguments, shared_file).Line();
}

}  // namespace standin_test
