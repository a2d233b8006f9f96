// Where messages go, and where they never do.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "catch.h"
#include "preload/launch.h"

using namespace cubfc::test;

namespace {

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// An allocation that works and one that fails, each with messages at the level trace.
const std::string kUseCuda =
    "import ctypes, os, sys\n"
    "cu, here, at = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p(), ctypes.c_uint64()\n"
    "cu.cuInit(0); cu.cuDevicePrimaryCtxRetain(ctypes.byref(here), 0); cu.cuCtxSetCurrent(here)\n"
    "def speak():\n"
    "    cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(1 << 20))\n"
    "    cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(1 << 40))\n"
    "speak()\n";

Outcome python(const std::string& script, Environment environment) {
  environment.emplace("CUBFC_LOG_LEVEL", "trace");
  return run_preloaded({"python3", "-c", kUseCuda + script}, environment);
}

}  // namespace

TEST_CASE("a log that cannot be opened is said on stderr, once") {
  const std::string link = scratch("link");
  const std::string target = scratch("target");
  std::filesystem::create_symlink(target, link);
  const std::string folder = scratch("folder");
  std::filesystem::create_directory(folder);
  const std::pair<std::string, const char*> paths[] = {
      {link, "is a symbolic link, which is not followed"},
      {folder, "Is a directory"},
      {"/proc/no-such-folder/log", "No such file or directory"}};
  for (const auto& [path, why] : paths) {
    const Outcome outcome = run_preloaded({"python3", "-c", kUseCuda}, {{"CUBFC_LOG_FILE", path}});
    INFO(path << "\n" << outcome.err);
    CHECK(outcome.status == 0);
    const std::string said = "CUBFC_LOG_FILE: " + path + ": " + why + "; logging to stderr";
    CHECK(outcome.err.find(said) != std::string::npos);
    CHECK(outcome.err.find(said) == outcome.err.rfind(said));
    CHECK(outcome.err.find("out of memory") != std::string::npos);  // it goes there instead
  }
  CHECK_FALSE(std::filesystem::exists(target));  // a link is not followed
}

TEST_CASE("the log's descriptor does not go to programs that are started") {
  const std::string log = scratch("inherited");
  const Outcome outcome =
      python("os.execvp('ls', ['ls', '-l', '/proc/self/fd'])", {{"CUBFC_LOG_FILE", log}});
  CHECK(outcome.out.find("/proc/") != std::string::npos);
  CHECK(outcome.out.find(log) == std::string::npos);
  CHECK(content_of(log).find("out of memory") != std::string::npos);
}

TEST_CASE("no message lands in a descriptor that the program has closed and opened again") {
  for (const char* first_closed : {"3", "2"}) {  // 2: stderr, too
    const std::string log = std::string(first_closed) == "3" ? scratch("log") : "";
    const std::string data = scratch(std::string("data") + first_closed);
    const Outcome outcome = python("os.closerange(" + std::string(first_closed) +
                                       ", 100)\n"
                                       "files = [os.open('" +
                                       data +
                                       "', os.O_RDWR | os.O_CREAT) for _ in range(60)]\n"
                                       "speak(); speak()\n"
                                       "print(os.path.getsize('" +
                                       data + "'))\n",
                                   {{"CUBFC_LOG_FILE", log}});
    INFO(first_closed << "\n" << outcome.out << outcome.err);
    CHECK(outcome.status == 0);
    CHECK(outcome.out == "0\n");
    CHECK(content_of(data).empty());
    if (!log.empty()) {  // and none is lost
      const std::string text = content_of(log);
      std::size_t allocations = 0;
      for (std::size_t at = text.find("cuMemAlloc 1048576 bytes"); at != std::string::npos;
           at = text.find("cuMemAlloc 1048576 bytes", at + 1)) {
        ++allocations;
      }
      CHECK(allocations == 3);
    }
  }
}

TEST_CASE("where stderr is closed at first, what is opened as it later is not written to") {
  const std::string data = scratch("late");
  const std::string script = scratch("script.py");
  std::ofstream(script) << kUseCuda << "os.open('" << data
                        << "', os.O_WRONLY | os.O_CREAT)\nspeak()\n";
  const Outcome outcome = run_preloaded({"bash", "-c", "exec python3 " + script + " 2>&-"},
                                        {{"CUBFC_LOG_LEVEL", "trace"}});
  CHECK(outcome.status == 0);
  CHECK(std::filesystem::exists(data));
  CHECK(content_of(data).empty());
}

TEST_CASE("where the program points stderr elsewhere, messages follow") {
  const std::string other = scratch("other");
  const Outcome outcome = python(
      "os.dup2(os.open('" + other + "', os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2); speak()", {});
  CHECK(outcome.status == 0);
  CHECK(content_of(other).find("cuMemAlloc 1048576 bytes") != std::string::npos);
}
