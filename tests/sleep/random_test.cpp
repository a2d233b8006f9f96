// Random programs that sleep at any moment do what they do without: from their own threads, and
// from outside. CUBFC_TEST_SEEDS=N: so many of them.
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "sleep/sleeping.h"

using namespace sleeping;

namespace {

// One thread's blocks. Each word of a block is as the model says.
class Program {
 public:
  explicit Program(unsigned seed) : random_(seed) {
    must_(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }
  ~Program() {
    for (const auto& [address, words] : blocks_) {
      cuMemFree(address);
    }
    cuStreamDestroy(stream_);
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
    must_(cuMemsetD32Async(block, value, words, stream_));
    is_right = is_right && blocks_.emplace(block, std::vector<unsigned>(words, value)).second;
  }
  void free_one() {
    const auto block = any();
    must_(cuMemFree(block->first));
    blocks_.erase(block);
  }
  void set() {
    const auto block = any();
    const std::size_t from = random_() % block->second.size();
    const std::size_t words = 1 + random_() % (block->second.size() - from);
    const auto value = static_cast<unsigned>(random_());
    must_(cuMemsetD32Async(block->first + 4 * from, value, words, stream_));
    std::fill_n(block->second.begin() + static_cast<std::ptrdiff_t>(from), words, value);
    if (random_() % 2 == 0) {
      must_(cuStreamSynchronize(stream_));
    }
  }
  void copy() {
    const auto to = any();
    const auto from = any();
    if (to == from) {
      return;
    }
    const std::size_t words = std::min(to->second.size(), from->second.size());
    must_(cuMemcpyDtoDAsync(to->first, from->first, words * 4, stream_));
    std::copy_n(from->second.begin(), words, to->second.begin());
  }
  void check(Map::iterator block) {
    std::vector<unsigned> read(block->second.size());
    must_(cuMemcpyDtoHAsync(read.data(), block->first, read.size() * 4, stream_));
    must_(cuStreamSynchronize(stream_));
    is_right = is_right && read == block->second;
  }

  std::minstd_rand random_;
  CUstream stream_ = nullptr;
  Map blocks_;
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
          // Calls nothing until that was tried once more, or nobody would ever sleep.
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
