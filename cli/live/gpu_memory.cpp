#include "cli/live/gpu_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <sstream>

#include "cli/live/nvml_memory.h"
#include "cli/run/child_process.h"

namespace cubfc::live {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostAnswer = 1 << 16;

GpuMemories unknown(const std::vector<std::string>& uuids, const std::string& why) {
  GpuMemories none;
  for (const std::string& uuid : uuids) {
    none.unknown[uuid] = why;
  }
  return none;
}

}  // namespace

GpuMemories read_gpu_memories(const std::string& answer) {
  GpuMemories memories;
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string uuid;
    GpuMemory memory{};
    if (words >> uuid >> memory.total_bytes >> memory.used_bytes) {
      memories.known[uuid] = memory;
    } else if (const auto why = line.find(" - "); why != std::string::npos) {
      memories.unknown[uuid] = line.substr(why + 3);
    }
  }
  return memories;
}

GpuMemoryAsker::~GpuMemoryAsker() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, WNOHANG);  // does not wait for one that hangs in the driver
  }
}

// Starts the child. It ends when the socket is closed, or when this process ends.
bool GpuMemoryAsker::start() {
  was_started_ = true;
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return false;
  }
  socket_ = Descriptor(ends[0]);
  const Descriptor other(ends[1]);
  const cli::CommandAgain command{{"top", "--child=gpu-memory"},
                                  {{"CUBFC_DISABLE", "1"}, {"LD_PRELOAD", ""}}};
  child_ = cli::fork_with_this();
  if (child_ == 0) {
    dup2(other.get(), STDIN_FILENO);
    dup2(other.get(), STDOUT_FILENO);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDERR_FILENO);  // its messages would spoil the screen
    command.execute();
  }
  return child_ > 0;
}

void GpuMemoryAsker::send(const std::vector<std::string>& uuids) {
  std::string line;
  for (const std::string& uuid : uuids) {
    line += uuid + ' ';
  }
  line += '\n';
  is_asked_ = ::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
              static_cast<ssize_t>(line.size());
  came_.clear();
}

// Reads the answer, which ends with an empty line. False where its end does not come in time, or
// the child has ended: `socket_` is empty then.
bool GpuMemoryAsker::has_answer(std::chrono::milliseconds patience) {
  const auto until = Clock::now() + patience;
  while (!came_.ends_with("\n\n")) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd file{socket_.get(), POLLIN, 0};
    const int ready = poll(&file, 1, static_cast<int>(std::max<long>(left, 0)));
    if (ready < 0 && errno == EINTR && left > 0) {
      continue;
    }
    if (ready <= 0) {
      return false;
    }
    std::array<char, 4096> buffer{};
    const ssize_t got = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
      continue;
    }
    if (got <= 0 || came_.size() > kMostAnswer) {
      socket_ = Descriptor();
      return false;
    }
    came_.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return true;
}

GpuMemories GpuMemoryAsker::ask(const std::vector<std::string>& uuids,
                                std::chrono::milliseconds patience) {
  if (uuids.empty()) {
    return {};  // no GPU is in use: none is to be woken
  }
  struct stat status {};
  if (stat(kGpusOfDriver, &status) != 0) {
    return unknown(uuids, std::string("there is no ") + kGpusOfDriver);
  }
  if (!was_started_ && !start()) {
    socket_ = Descriptor();
  }
  if (!socket_) {
    return unknown(uuids, "the process that asks NVML has ended");
  }
  if (is_asked_) {
    patience = patience.zero();  // the child is late, and is not waited for twice
  } else {
    send(uuids);
  }
  if (!is_asked_ || !has_answer(patience)) {
    return unknown(uuids,
                   socket_ ? "NVML has not answered" : "the process that asks NVML has ended");
  }
  is_asked_ = false;
  GpuMemories memories = read_gpu_memories(came_);
  for (const std::string& uuid : uuids) {
    if (!memories.known.contains(uuid) && !memories.unknown.contains(uuid)) {
      memories.unknown[uuid] = "it has not been asked for yet";
    }
  }
  return memories;
}

}  // namespace cubfc::live
