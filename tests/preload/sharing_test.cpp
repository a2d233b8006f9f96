// Memory that one process shares with another by cuIpcGetMemHandle, each with and without cubfc.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "catch.h"
#include "preload/launch.h"

using namespace cubfc::test;

namespace {

std::vector<std::string> sharing(std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), program("program_sharing"));
  return arguments;
}

// The files of this kind by which processes of this user find each other.
std::vector<std::filesystem::path> published(std::string_view kind = "blocks-") {
  std::vector<std::filesystem::path> files;
  const std::filesystem::path folder = runtime_folder() + "/cubfc";
  if (std::filesystem::exists(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().filename().string().starts_with(kind)) {
        files.push_back(entry.path());
      }
    }
  }
  return files;
}

// Whether the files of this folder are its user's alone. A process of the test that has lost its
// parent may still be at its end, so a file that is listed may be gone a moment later.
bool private_to_the_user(const std::vector<std::filesystem::path>& files) {
  const auto permissions = [](const std::filesystem::path& path) -> std::optional<unsigned> {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
      return std::nullopt;
    }
    return status.st_mode & 0777U;
  };
  return std::all_of(files.begin(), files.end(), [&](const std::filesystem::path& path) {
    return permissions(path).value_or(0600) == 0600 && permissions(path.parent_path()) == 0700;
  });
}

}  // namespace

TEST_CASE("two processes share memory as they do without cubfc") {
  for (const char* bytes : {"700", "300000", "5000000"}) {
    const auto command = sharing({"--bytes", bytes});
    const Outcome bare = run(command);
    REQUIRE(bare.status == 0);
    for (const Environment& mode : std::vector<Environment>{
             {},
             {{"CUBFC_PREALLOCATE", "false"}},
             {{"CUBFC_FREE", "deferred"}},
             {{"CUBFC_ALLOCATOR", "platform"}},
             {{"CUBFC_DISABLE", "1"}},
         }) {
      const Outcome preloaded = run_preloaded(command, mode);
      INFO(bytes << " bytes, " << (mode.empty() ? "default" : mode.begin()->first));
      INFO(preloaded.err);
      CHECK(preloaded.out == bare.out);
      CHECK(preloaded.status == bare.status);
    }
  }
}

// Some drivers count how often a region is opened, some refuse (208), as other projects report.
TEST_CASE("a driver that opens nothing twice makes no difference") {
  for (const char* bytes : {"700", "300000", "5000000"}) {
    const auto command = sharing({"--bytes", bytes});
    const Environment refuses{{"STANDIN_ANSWERS", "cuIpcOpenMemHandle.already_open=208"}};
    CHECK(run(command, refuses).out.find("open the first again: CUDA_ERROR_ALREADY_MAPPED") !=
          std::string::npos);
    const Outcome counting = run(command);
    const Outcome preloaded = run_preloaded(command, refuses);
    INFO(bytes << " bytes; " << preloaded.err);
    CHECK(preloaded.out == counting.out);
    CHECK(preloaded.status == 0);
  }
}

TEST_CASE("a process that closes all descriptors keeps what it shares") {
  const auto command = sharing({"--close-descriptors"});
  const Outcome bare = run(command);
  const Outcome preloaded = run_preloaded(command);
  INFO(preloaded.err);
  CHECK(bare.status == 0);
  CHECK(preloaded.out == bare.out);
  CHECK(preloaded.status == bare.status);
}

TEST_CASE("where no file can be shared, the error is its own and names the folder") {
  // In mounts of its own, each place for the folder is a folder that everybody may enter.
  std::string runtime = "/var/tmp/cubfc-test-XXXXXX";
  REQUIRE(mkdtemp(runtime.data()) != nullptr);
  std::ofstream(runtime + "/cubfc") << "no folder";
  const std::string script =
      "for f in /run/user/$(id -u)/cubfc /dev/shm/cubfc-$(id -u) /tmp/cubfc-$(id -u); do "
      "mkdir -m 700 -p $f 2>/dev/null && mount -t tmpfs -o size=4k,mode=777 none $f; done; "
      "exec \"$@\"";
  std::vector<std::string> command{"unshare", "-m", "sh", "-c", script, "sh"};
  const auto program = sharing();
  command.insert(command.end(), program.begin(), program.end());
  if (run({"unshare", "-m", "sh", "-c", "mount -t tmpfs none /dev/shm"}).status != 0) {
    WARN("no rights for a mount of its own: not tried");
    std::filesystem::remove_all(runtime);
    return;
  }
  const Outcome outcome = run_preloaded(command, {{"XDG_RUNTIME_DIR", runtime}});
  std::filesystem::remove_all(runtime);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.out.find("cuIpcGetMemHandle: CUDA_ERROR_OPERATING_SYSTEM") != std::string::npos);
  CHECK(outcome.out.find("OUT_OF_MEMORY") == std::string::npos);
  CHECK(outcome.err.find(runtime + "/cubfc is no folder") != std::string::npos);
  CHECK(outcome.err.find("/dev/shm/cubfc-") != std::string::npos);
  CHECK(outcome.err.find("is open to other users") != std::string::npos);
  CHECK(outcome.err.find("cannot be shared") == outcome.err.rfind("cannot be shared"));
}

TEST_CASE("a peer without cubfc gets the driver's error, and not a neighbour's memory") {
  const Outcome outcome = run_preloaded(sharing({"--bare-peer"}));
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  CHECK(outcome.out.find("open the first: CUDA_ERROR_INVALID_VALUE\n") != std::string::npos);
}

TEST_CASE("under CUBFC_IPC=driver a peer needs no cubfc, and small blocks have no handle") {
  const Environment mode{{"CUBFC_IPC", "driver"}};
  const auto large = sharing({"--bytes", "5000000", "--bare-peer"});
  const Outcome preloaded = run_preloaded(large, mode);
  INFO(preloaded.err);
  CHECK(preloaded.out == run(large).out);
  const Outcome small = run_preloaded(sharing({"--bytes", "300000", "--bare-peer"}), mode);
  CHECK(small.out.find("cuIpcGetMemHandle: CUDA_ERROR_NOT_SUPPORTED\n") != std::string::npos);
  CHECK(small.err.find("CUBFC_IPC=driver") != std::string::npos);
}

TEST_CASE("nothing stays behind, and what a killed process left is removed by the next one") {
  const std::size_t before = published().size();
  const Outcome killed = run_preloaded(sharing({"--kill-owner"}));
  CHECK(killed.status == 128 + 9);
  CHECK(private_to_the_user(published("")));
  CHECK(published().size() == before + 1);
  CHECK(run_preloaded(sharing()).status == 0);
  CHECK(published().size() <= before);
}
