// Random programs that are put to sleep at any moment, by their own threads or from outside,
// compute what they compute without. CUBFC_TEST_SEEDS=N: so many of them.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <map>
#include <random>
#include <string_view>
#include <thread>

#include "sleep/sleeping.h"
#include "sleep/touching.h"

using namespace sleeping;

namespace {

// One thread's blocks. Each block must have the words that `blocks_` has for it.
class Program {
 public:
  explicit Program(unsigned seed) : random_(seed), tools_(touching::make_tools()) {
    is_right = tools_.fill != nullptr;
  }
  ~Program() {
    for (const auto& [address, words] : blocks_) {
      cuMemFree(address);
    }
    touching::destroy_tools(tools_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void step() {
    const unsigned what = random_() % 16;
    if (blocks_.size() < 2 || (what < 4 && blocks_.size() < 40)) {
      allocate();
    } else if (what < 7) {
      free_one();
    } else if (what < 10) {
      set();
    } else if (what < 13) {
      copy();
    } else {
      check(any());
    }
  }
  bool check_all() {
    for (auto each = blocks_.begin(); each != blocks_.end(); ++each) {
      check(each);
    }
    return is_right;
  }

  bool is_right = true;

 private:
  using Map = std::map<CUdeviceptr, std::vector<unsigned>>;

  void must_(CUresult result) { is_right = is_right && result == CUDA_SUCCESS; }
  Map::iterator any() {
    auto found = blocks_.begin();
    std::advance(found, random_() % blocks_.size());
    return found;
  }
  void allocate() {
    const std::size_t words = 1 + random_() % (random_() % 4 == 0 ? 900'000 : 3000);
    CUdeviceptr block = 0;
    const CUresult result = cuMemAlloc(&block, words * 4);
    if (result != CUDA_SUCCESS) {
      must_(result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result);
      return;
    }
    const auto value = static_cast<unsigned>(random_());
    must_(cuMemsetD32Async(block, value, words, tools_.stream));
    is_right = is_right && blocks_.emplace(block, std::vector<unsigned>(words, value)).second;
  }
  void free_one() {
    const auto block = any();
    must_(cuMemFree(block->first));
    blocks_.erase(block);
  }
  void set() {
    const auto block = any();
    const touching::Set& how = one_of(touching::sets());
    const std::size_t from = random_() % block->second.size();
    const std::size_t words = how.only_one ? 1 : 1 + random_() % (block->second.size() - from);
    const auto value = static_cast<unsigned>(random_());
    in_order(how.function, [&] { return how.call(tools_, block->first + 4 * from, value, words); });
    std::fill_n(block->second.begin() + static_cast<std::ptrdiff_t>(from), words, value);
    if (random_() % 2 == 0) {
      must_(cuStreamSynchronize(tools_.stream));
    }
  }
  void copy() {
    const auto to = any();
    const auto from = any();
    if (to == from) {
      return;
    }
    const touching::Copy& how = one_of(touching::copies());
    const std::size_t words = std::min(to->second.size(), from->second.size());
    in_order(how.function, [&] { return how.call(tools_, to->first, from->first, words * 4); });
    std::copy_n(from->second.begin(), words, to->second.begin());
  }
  void check(Map::iterator block) {
    std::vector<unsigned> read(block->second.size());
    const touching::Read& how = one_of(touching::reads());
    in_order(how.function,
             [&] { return how.call(tools_, read.data(), block->first, read.size() * 4); });
    is_right = is_right && read == block->second;
  }
  // A function without a stream works in the legacy stream. That and the program's stream, which is
  // non-blocking, do not wait for each other.
  template <typename Call>
  void in_order(std::string_view function, Call call) {
    const bool has_stream = function.ends_with("Async") || function.starts_with("cuLaunch") ||
                            function.starts_with("cuStream") || function == "cuGraphLaunch";
    must_(has_stream ? CUDA_SUCCESS : cuStreamSynchronize(tools_.stream));
    must_(call());
    must_(has_stream ? CUDA_SUCCESS : cuCtxSynchronize());
  }
  template <typename List>
  const typename List::value_type& one_of(const List& list) {
    return list[random_() % list.size()];
  }

  std::minstd_rand random_;
  touching::Tools tools_;
  Map blocks_;
};

// Puts this process to sleep by the command (CUBFC_TEST_COMMAND), over and over, from a shell,
// which writes down what is answered.
class PutToSleepFromOutside {
 public:
  PutToSleepFromOutside() {
    const char* const command = std::getenv("CUBFC_TEST_COMMAND");
    const int made = mkstemp(answers_.data());
    REQUIRE(command != nullptr);
    REQUIRE(made >= 0);
    close(made);
    const std::string pid = std::to_string(getpid());
    std::string loop = "while kill -0 " + pid + "; do '" + command + "' sleep " + pid + "; done";
    std::vector<char*> environment;
    for (char** each = environ; *each != nullptr; ++each) {
      if (!std::string_view(*each).starts_with("LD_PRELOAD=")) {
        environment.push_back(*each);
      }
    }
    environment.push_back(nullptr);
    std::array<std::string, 2> words{"sh", "-c"};
    std::array<char*, 4> arguments{words[0].data(), words[1].data(), loop.data(), nullptr};
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, answers_.c_str(), O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const int error =
        posix_spawn(&shell_, "/bin/sh", &files, nullptr, arguments.data(), environment.data());
    posix_spawn_file_actions_destroy(&files);
    REQUIRE(error == 0);
  }
  ~PutToSleepFromOutside() {
    kill(shell_, SIGKILL);
    waitpid(shell_, nullptr, 0);
    unlink(answers_.c_str());
  }
  PutToSleepFromOutside(const PutToSleepFromOutside&) = delete;
  PutToSleepFromOutside& operator=(const PutToSleepFromOutside&) = delete;

  bool is_running() const { return waitpid(shell_, nullptr, WNOHANG) == 0; }
  // How often this process has been put to sleep.
  int times() const {
    std::ifstream file(answers_);
    int count = 0;
    for (std::string line; std::getline(file, line);) {
      count += line.find(": asleep: ") != std::string::npos ? 1 : 0;
    }
    return count;
  }

 private:
  std::string answers_ = "/tmp/cubfc-sleep-XXXXXX";
  pid_t shell_ = 0;
};

}  // namespace

TEST_CASE("a program that sleeps at every n-th call computes what it computes without",
          "[random]") {
  for (unsigned seed = 1; seed <= seeds(); ++seed) {
    const OwnContext context;
    Program program(seed);
    int slept = 0;
    for (unsigned i = 0; i < 400; ++i) {
      program.step();
      if (i % (3 + seed % 17) == 0) {
        slept += sleep().is_done ? 1 : 0;
      }
      INFO("seed " << seed << ", step " << i);
      REQUIRE(program.is_right);
    }
    CHECK(slept > 10);
    CHECK(program.check_all());
  }
}

TEST_CASE(
    "threads that work while another puts the program to sleep compute what they compute without",
    "[random]") {
  for (unsigned seed = 1; seed <= seeds(); ++seed) {
    const OwnContext context;
    std::atomic<int> working{3};
    std::atomic<int> tries{0};  // to put the program to sleep
    std::atomic<bool> are_right{true};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        cuCtxSetCurrent(context.handle);
        Program program(100 * seed + i);
        for (int step = 0; step < 300; ++step) {
          program.step();
          // Calls nothing until one more sleep was tried, or none would ever succeed.
          for (const int before = tries; step % 50 == 0 && tries == before;) {
            std::this_thread::yield();
          }
        }
        if (!program.check_all()) {
          are_right = false;
        }
        --working;
      });
    }
    while (working > 0) {
      sleep();
      ++tries;
      std::this_thread::yield();
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    INFO("seed " << seed);
    REQUIRE(are_right);
  }
}

TEST_CASE("a program that is put to sleep from outside computes what it computes without",
          "[random]") {
  const PutToSleepFromOutside outside;
  const OwnContext context;
  Program program(1);
  for (unsigned round = 0; round < 3 * seeds(); ++round) {
    for (int step = 0; step < 200; ++step) {
      program.step();
    }
    // Calls nothing until it sleeps.
    for (const int before = outside.times(); outside.times() == before;) {
      REQUIRE(outside.is_running());
      std::this_thread::yield();
    }
    REQUIRE(program.is_right);
  }
  CHECK(program.check_all());
}
