// A program that must not be put to sleep: it is said why, and nothing has changed.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "sleep/sleeping.h"

using namespace sleeping;

namespace {

void is_refused(const Blocks& blocks, const std::string& why) {
  const std::uint64_t before = held();
  const Told told = sleep();
  CHECK_FALSE(told.is_done);
  INFO(told.text);
  CHECK(told.text.find(why) != std::string::npos);
  CHECK(held() == before);
  (void)blocks;
}

}  // namespace

TEST_CASE("while a stream is being captured", "[plain]") {
  const OwnContext context;
  const Blocks blocks;
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  is_refused(blocks, "is being captured");
  CUgraph graph = nullptr;
  must(cuStreamEndCapture(stream, &graph));
  must(cuGraphDestroy(graph));
  must(cuStreamDestroy(stream));
  CHECK(sleep().is_done);
  CHECK(blocks.are_whole());
}

TEST_CASE("while work on the GPU does not end", "[plain]") {
  const OwnContext context;
  const Blocks blocks;
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  REQUIRE(standin_hold_stream(stream) == 1);
  must(cuMemsetD8Async(blocks.all[0].address, blocks.all[0].fill, 10, stream));
  is_refused(blocks, "work on the GPU has not ended");
  standin_release_stream(stream);
  must(cuStreamSynchronize(stream));
  CHECK(sleep().is_done);
  CHECK(blocks.are_whole());
  must(cuStreamDestroy(stream));
}

TEST_CASE("while a device is open by which others reach the memory", "[plain]") {
  const OwnContext context;
  const Blocks blocks;
  const std::string folder =
      std::filesystem::temp_directory_path() / ("cubfc-sleep-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder + "/dev/infiniband");
  const int file = open((folder + "/dev/infiniband/uverbs0").c_str(), O_CREAT | O_RDWR, 0600);
  REQUIRE(file >= 0);
  is_refused(blocks, "/dev/infiniband/uverbs0 open");
  close(file);
  std::filesystem::remove_all(folder);
  CHECK(sleep().is_done);
  CHECK(blocks.are_whole());
}

TEST_CASE("while it has no memory of an arena", "[plain]") {
  const OwnContext context;
  const Told told = sleep();
  CHECK_FALSE(told.is_done);
  CHECK(told.text.find("no memory of an arena") != std::string::npos);
}

TEST_CASE("from inside a call of the driver's", "[plain]") {
  const OwnContext context;
  const Blocks blocks;
  static bool was_done;
  was_done = true;
  standin_watch([](const struct standin_call* /*call*/) {
    standin_watch(nullptr);  // once
    was_done = sleep().is_done;
  });
  must(cuMemsetD8(blocks.all[0].address, blocks.all[0].fill, 1));
  standin_watch(nullptr);
  CHECK_FALSE(was_done);
  CHECK(blocks.are_whole());
}
