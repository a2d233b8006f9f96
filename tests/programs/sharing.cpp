// Device memory shared with another process by cuIpcGetMemHandle. The program starts itself a
// second time as its peer, which opens what it is told to; the first process drives both and prints
// what each driver answers.
//   program_sharing [--bytes N] [--bare-peer] [--kill-owner] [--close-descriptors]
// With the last, it closes all but the way to its peer before anything is opened there.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "driver.h"
#include "pattern.h"

namespace {

using programs::Driver;
using programs::must;
using programs::print_result;
using programs::print_truth;

enum class Do { kOpen, kOpenByThreads, kClose, kFree, kWrite, kCount, kRange };

struct Request {
  Do what;
  CUipcMemHandle handle;
  CUdeviceptr address;
  std::size_t bytes;
  std::uint32_t seed;
};

struct Answer {
  CUresult result;
  CUdeviceptr address;
  std::size_t number;
};

// Threads that open, read and close one block again and again, at the same moment. How often that
// went wrong.
std::size_t open_by_threads(const Driver& driver, const Request& request) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::atomic<std::size_t> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      programs::use_device(driver, 0);
      for (int round = 0; round < kRounds; ++round) {
        CUdeviceptr block = 0;
        const bool is_open =
            driver.cuIpcOpenMemHandle(&block, request.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ==
            CUDA_SUCCESS;
        if (!is_open ||
            (round % 20 == 0 &&
             programs::count_mismatches(driver, block, request.bytes, request.seed) > 0) ||
            driver.cuIpcCloseMemHandle(block) != CUDA_SUCCESS) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return wrong;
}

Answer carry_out(const Driver& driver, const Request& request) {
  Answer answer{CUDA_SUCCESS, request.address, 0};
  switch (request.what) {
    case Do::kOpen:
      answer.result = driver.cuIpcOpenMemHandle(&answer.address, request.handle,
                                                CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
      break;
    case Do::kOpenByThreads:
      answer.number = open_by_threads(driver, request);
      break;
    case Do::kClose:
      answer.result = driver.cuIpcCloseMemHandle(request.address);
      break;
    case Do::kFree:
      answer.result = driver.cuMemFree(request.address);
      break;
    case Do::kWrite:
      programs::write_pattern(driver, request.address, request.bytes, request.seed);
      break;
    case Do::kCount:
      answer.number =
          programs::count_mismatches(driver, request.address, request.bytes, request.seed);
      break;
    case Do::kRange:
      answer.result = driver.cuMemGetAddressRange(&answer.address, &answer.number, request.address);
      break;
  }
  return answer;
}

// The second process: answers until the first one is gone.
int serve(const Driver& driver, int socket) {
  programs::use_device(driver, 0);
  Request request{};
  while (read(socket, &request, sizeof(request)) == sizeof(request)) {
    const Answer answer = carry_out(driver, request);
    if (write(socket, &answer, sizeof(answer)) != sizeof(answer)) {
      return 1;
    }
  }
  return 0;
}

// The second process as the first one sees it.
class Peer {
 public:
  // Before the first use of the driver: a child of a process that used it could not use it.
  Peer(const char* program, bool bare) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0) {
      std::perror("socketpair");
      std::exit(1);
    }
    process_ = fork();
    if (process_ == 0) {
      if (bare) {
        unsetenv("LD_PRELOAD");
      }
      close(sockets[0]);
      const std::string socket = std::to_string(sockets[1]);
      execl(program, program, "--serve", socket.c_str(), nullptr);
      _exit(127);
    }
    close(sockets[1]);
    socket_ = sockets[0];
  }
  ~Peer() {
    close(socket_);
    int status = 0;
    waitpid(process_, &status, 0);
    std::printf("the peer ended with %d\n", status);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  Answer ask(const Request& request) {
    Answer answer{};
    if (write(socket_, &request, sizeof(request)) != sizeof(request) ||
        read(socket_, &answer, sizeof(answer)) != sizeof(answer)) {
      std::fprintf(stderr, "the peer is gone\n");
      std::exit(1);
    }
    return answer;
  }
  void close_all_other_descriptors() const {
    for (int descriptor = 3; descriptor < 1024; ++descriptor) {
      if (descriptor != socket_) {
        close(descriptor);
      }
    }
  }
  Answer open(const CUipcMemHandle& handle) { return ask({Do::kOpen, handle, 0, 0, 0}); }
  Answer at(Do what, CUdeviceptr address, std::size_t bytes = 0, std::uint32_t seed = 0) {
    return ask({what, {}, address, bytes, seed});
  }

 private:
  int socket_ = -1;
  pid_t process_ = 0;
};

CUdeviceptr allocate(const Driver& driver, std::size_t bytes, std::uint32_t seed) {
  CUdeviceptr block = 0;
  must(driver, "cuMemAlloc", driver.cuMemAlloc(&block, bytes));
  programs::write_pattern(driver, block, bytes, seed);
  return block;
}

CUipcMemHandle handle_of(const Driver& driver, CUdeviceptr address) {
  CUipcMemHandle handle{};
  print_result(driver, "cuIpcGetMemHandle", driver.cuIpcGetMemHandle(&handle, address));
  return handle;
}

bool same(const CUipcMemHandle& one, const CUipcMemHandle& other) {
  return std::memcmp(&one, &other, sizeof(one)) == 0;
}

void share_neighbours(const Driver& driver, Peer& peer, std::size_t bytes, bool close_all) {
  const CUdeviceptr before = allocate(driver, bytes, 1);
  const CUdeviceptr first = allocate(driver, bytes, 2);
  const CUdeviceptr second = allocate(driver, bytes, 3);
  const CUdeviceptr after = allocate(driver, bytes, 4);
  const CUipcMemHandle of_first = handle_of(driver, first);
  const CUipcMemHandle of_second = handle_of(driver, second);
  print_truth("the handle of an address inside is the block's",
              same(of_first, handle_of(driver, first + bytes / 2)));
  print_truth("two blocks have two handles", !same(of_first, of_second));
  CUdeviceptr here = 0;
  print_result(driver, "open in the process that made it",
               driver.cuIpcOpenMemHandle(&here, of_first, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  if (close_all) {
    peer.close_all_other_descriptors();
  }

  const Answer one = peer.open(of_first);
  const Answer two = peer.open(of_second);
  print_result(driver, "open the first", one.result);
  print_result(driver, "open the second", two.result);
  if (one.result != CUDA_SUCCESS || two.result != CUDA_SUCCESS) {
    return;
  }
  std::printf("wrong bytes: %zu and %zu\n", peer.at(Do::kCount, one.address, bytes, 2).number,
              peer.at(Do::kCount, two.address, bytes, 3).number);
  const Answer range = peer.at(Do::kRange, one.address + bytes / 2);
  print_result(driver, "range of an address inside", range.result);
  print_truth("it is the block's", range.address == one.address && range.number == bytes);

  peer.at(Do::kWrite, one.address, bytes, 5);
  peer.at(Do::kWrite, two.address, bytes, 6);
  std::printf("wrong bytes: %zu and %zu, of the neighbours %zu and %zu\n",
              programs::count_mismatches(driver, first, bytes, 5),
              programs::count_mismatches(driver, second, bytes, 6),
              programs::count_mismatches(driver, before, bytes, 1),
              programs::count_mismatches(driver, after, bytes, 4));

  const Answer again = peer.open(of_first);
  print_result(driver, "open the first again", again.result);
  print_truth("it is where it was", again.address == one.address);
  print_result(driver, "free of what was opened", peer.at(Do::kFree, one.address).result);
  print_result(driver, "close", peer.at(Do::kClose, one.address).result);
  std::printf("wrong bytes: %zu\n", peer.at(Do::kCount, one.address, bytes, 5).number);
  print_result(driver, "close once more", peer.at(Do::kClose, one.address).result);
  print_result(driver, "range of what was closed", peer.at(Do::kRange, one.address).result);
  print_result(driver, "and once too often", peer.at(Do::kClose, one.address).result);
  print_result(driver, "close of what was never opened",
               peer.at(Do::kClose, two.address + bytes / 2).result);
  std::printf("wrong bytes: %zu\n", peer.at(Do::kCount, two.address, bytes, 6).number);
  std::printf("opened by threads, went wrong: %zu, %zu\n",
              peer.ask({Do::kOpenByThreads, of_first, 0, bytes, 5}).number,
              peer.ask({Do::kOpenByThreads, of_second, 0, bytes, 6}).number);
  const Answer third = peer.open(of_first);
  print_result(driver, "open the first after all was closed", third.result);
  std::printf("wrong bytes: %zu\n", peer.at(Do::kCount, third.address, bytes, 5).number);
  print_result(driver, "close", peer.at(Do::kClose, third.address).result);
  print_result(driver, "close the second", peer.at(Do::kClose, two.address).result);
  for (const CUdeviceptr block : {before, first, second, after}) {
    print_result(driver, "free", driver.cuMemFree(block));
  }
}

// A block that takes a shared one's place has a handle of its own.
void share_successor(const Driver& driver, Peer& peer, std::size_t bytes) {
  const CUdeviceptr old = allocate(driver, bytes, 7);
  const Answer opened = peer.open(handle_of(driver, old));
  print_result(driver, "open", opened.result);
  if (opened.result != CUDA_SUCCESS) {
    return;
  }
  print_result(driver, "close", peer.at(Do::kClose, opened.address).result);
  print_result(driver, "free", driver.cuMemFree(old));
  const CUdeviceptr fresh = allocate(driver, bytes / 2, 8);
  const Answer successor = peer.open(handle_of(driver, fresh));
  print_result(driver, "open the successor", successor.result);
  const Answer range = peer.at(Do::kRange, successor.address);
  print_truth("it has its own size", range.number == bytes / 2);
  std::printf("wrong bytes: %zu\n", peer.at(Do::kCount, successor.address, bytes / 2, 8).number);
  print_result(driver, "close", peer.at(Do::kClose, successor.address).result);
  print_result(driver, "free", driver.cuMemFree(fresh));
}

// Handles that are none: bytes of chance, and a good one with one bit changed in each byte of it.
void open_garbage(const Driver& driver, Peer& peer, std::size_t bytes) {
  CUipcMemHandle garbage{};
  std::memset(&garbage, 0x5a, sizeof(garbage));
  print_result(driver, "open garbage", peer.open(garbage).result);
  const CUdeviceptr block = allocate(driver, bytes, 9);
  handle_of(driver, block);
  print_result(driver, "free", driver.cuMemFree(block));
  CUipcMemHandle handle{};
  print_result(driver, "handle of what was freed", driver.cuIpcGetMemHandle(&handle, block));
  print_result(driver, "handle of NULL", driver.cuIpcGetMemHandle(&handle, 0));
}

int main_of_owner(const Driver& driver, Peer& peer, std::size_t bytes, bool kill, bool close_all) {
  programs::use_device(driver, 0);
  if (kill) {
    // Once its peer has a file of its own: who makes one removes those of the dead.
    peer.open(handle_of(driver, allocate(driver, bytes, 1)));
    std::fflush(stdout);
    raise(SIGKILL);
  }
  share_neighbours(driver, peer, bytes, close_all);
  share_successor(driver, peer, bytes);
  open_garbage(driver, peer, bytes);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Driver driver = programs::open_driver(programs::take_via(argc, argv));
  std::size_t bytes = 300'000;
  bool bare_peer = false;
  bool kill = false;
  bool close_all = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--serve" && has_value) {
      return serve(driver, static_cast<int>(programs::number_argument(argument, argv[i + 1])));
    }
    if (argument == "--bytes" && has_value) {
      bytes = programs::number_argument(argument, argv[++i]);
    } else if (argument == "--bare-peer") {
      bare_peer = true;
    } else if (argument == "--kill-owner") {
      kill = true;
    } else if (argument == "--close-descriptors") {
      close_all = true;
    } else {
      std::fprintf(stderr, "program_sharing: unknown argument '%s'\n", argv[i]);
      return 2;
    }
  }
  Peer peer(argv[0], bare_peer);
  return main_of_owner(driver, peer, bytes, kill, close_all);
}
