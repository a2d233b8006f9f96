// A library that lives in every child process: what it costs and shows where CUDA is not used, and
// what it needs to be loaded.
#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "catch.h"
#include "preload/launch.h"

using namespace cubfc::test;

namespace {

std::set<std::string> all_matches(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end;
       ++match) {
    found.insert((*match)[1].str());
  }
  return found;
}

}  // namespace

TEST_CASE("a program without CUDA shows no sign of the library") {
  const std::string trace = scratch("strace.txt");
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"/bin/true"}, {"bash", "-c", "ls / | wc -l"}, {"python3", "-c", "pass"}}) {
    INFO(command[0]);
    const Environment loud{{"CUBFC_SHOW_STATS", "1"},
                           {"CUBFC_LOG_LEVEL", "trace"},
                           {"CUBFC_LOG_FILE", scratch("never-written")},
                           {"CUBFC_NO_SUCH_NAME", "x"}};
    const Outcome bare = run(command);
    const Outcome preloaded = run_preloaded(command, loud);
    CHECK(preloaded.out == bare.out);
    CHECK(preloaded.err == bare.err);
    CHECK(preloaded.status == bare.status);
    CHECK_FALSE(std::ifstream(scratch("never-written")).good());
  }
}

TEST_CASE("threads and files are there only for who needs them") {
  const std::string count = "print(len(__import__('os').listdir('/proc/self/task')), flush=True);";
  const Environment trims{{"CUBFC_TRIM_AFTER", "1ms"}, {"CUBFC_PREALLOCATE", "false"}};
  CHECK(run_preloaded({"python3", "-c", count}, trims).out == "1\n");
  // An allocation of 1 MiB, freed again; then all that is unused is given back.
  const std::string use_cuda =
      "import ctypes, os, sys;"
      "cu, here, at = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p(), ctypes.c_uint64();"
      "cu.cuInit(0); cu.cuDevicePrimaryCtxRetain(ctypes.byref(here), 0); cu.cuCtxSetCurrent(here);"
      "cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(1 << 20));" +
      count +
      // A child that exits takes nothing with it.
      "child = os.fork() or sys.exit(); print(os.waitpid(child, 0)[1], flush=True);"
      // Whether it has mapped a file by which processes meet, and whether one is its own. A thread
      // of cubfc's joins them when it has begun, and keeps no descriptor. Where they meet may be
      // elsewhere, if other programs of this user are under cubfc now.
      "folder = os.environ['XDG_RUNTIME_DIR'] + '/cubfc';"
      "is_ours = lambda path: folder in path or '/rendezvous-' in path;"
      "mapped = lambda: any(map(is_ours, open('/proc/self/maps')));"
      "opened = lambda: [f for f in (os.path.realpath('/proc/self/fd/' + n)"
      "                              for n in os.listdir('/proc/self/fd')) if is_ours(f)];"
      "has_threads = len(os.listdir('/proc/self/task')) > 1\n"
      "while has_threads and (not mapped() or opened()): pass\n"
      "print(mapped());"
      "names = os.listdir(folder) if os.path.isdir(folder) else [];"
      "print(any('-%d-' % os.getpid() in name for name in names), flush=True);"
      "print(opened());" +
      count +
      "cu.cuMemFree_v2(at); trim = ctypes.CDLL(None).cubfc_trim;"
      "trim.restype = ctypes.c_ulonglong; print(trim(1) >= 1 << 20, trim(1))";
  const struct {
    Environment environment;
    const char* threads;
    const char* meets;
  } kModes[] = {{{}, "2\n", "True\n"},  // others may ask for what it has preallocated
                {{{"CUBFC_TRIM_AFTER", "1ms"}}, "3\n", "True\n"},
                {{{"CUBFC_MEM_LIMIT", "1GiB"}}, "2\n", "True\n"},
                {trims, "3\n", "True\n"},
                {{{"CUBFC_PREALLOCATE", "true"}}, "1\n", "False\n"},
                {{{"CUBFC_PREALLOCATE", "false"}}, "2\n", "True\n"},
                {{{"CUBFC_PREALLOCATE", "whole"}}, "1\n", "False\n"},
                {{{"CUBFC_MEM_FRACTION", "0.5"}}, "1\n", "False\n"},
                {{{"CUBFC_ALLOCATOR", "platform"}}, "1\n", "False\n"},
                {{{"CUBFC_ALLOCATOR", "cuda_async"}}, "2\n", "True\n"},
                {{{"CUBFC_UNIFIED_MEMORY", "true"}}, "1\n", "False\n"}};
  for (const auto& [environment, threads, meets] : kModes) {
    const bool has_arena = environment.count("CUBFC_ALLOCATOR") == 0;
    for (int i = 0; i < 4; ++i) {  // however the exit meets the threads
      // Figures are in a file of its own, which the last one goes without.
      const bool shares = i < 3;
      Environment settings = environment;
      settings["CUBFC_SHARE_STATS"] = shares ? "true" : "false";
      const Outcome outcome = run_preloaded({"python3", "-c", use_cuda}, settings);
      INFO((environment.empty() ? "" : environment.begin()->first) << "\n" << outcome.out);
      CHECK(outcome.out.starts_with(std::string(threads) + "0\n" +
                                    (shares ? "True\nTrue\n" : meets + std::string("False\n")) +
                                    "[]\n" + threads));
      // Where it is idle for long enough, the memory has gone back before it is asked for.
      const bool idle = environment.count("CUBFC_TRIM_AFTER") > 0;
      CHECK((!has_arena || outcome.out.ends_with("True 0\n") ||
             (idle && outcome.out.ends_with("False 0\n"))));
      CHECK(outcome.err.empty());
      CHECK(outcome.status == 0);
    }
  }
}

TEST_CASE("each way to ask for memory starts the threads that a setting asks for") {
  const std::string begin =
      "import ctypes, os;"
      "cu, here, at = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p(), ctypes.c_uint64();"
      "cu.cuInit(0); cu.cuDevicePrimaryCtxRetain(ctypes.byref(here), 0); cu.cuCtxSetCurrent(here);"
      "size = ctypes.c_size_t(1 << 20); result =";
  const std::string end = "; print(result, len(os.listdir('/proc/self/task')))";
  for (const char* const request :
       {"cu.cuMemAlloc_v2(ctypes.byref(at), size)",
        "cu.cuMemAllocPitch_v2(ctypes.byref(at), ctypes.byref(size), size, ctypes.c_size_t(2), 4)",
        "cu.cuMemAllocAsync(ctypes.byref(at), size, None)"}) {
    for (const char* const stream_ordered : {"arena", "driver"}) {
      INFO(request << ", " << stream_ordered);
      CHECK(run_preloaded({"python3", "-c", begin + request + end},
                          {{"CUBFC_TRIM_AFTER", "1h"},
                           {"CUBFC_MEM_FRACTION", "0.5"},  // no thread for other processes
                           {"CUBFC_STREAM_ORDERED", stream_ordered}})
                .out == "0 2\n");
    }
  }
}

TEST_CASE("a shell under the preload finds no CUDA where there is none") {
  const char* const look =
      "import ctypes; print([hasattr(ctypes.CDLL(None), n) for n in "
      "('cuMemAlloc_v2', 'cudaMalloc', 'cuGetProcAddress', 'dlsym')])";
  const Environment no_driver{{"LD_LIBRARY_PATH", ""}};
  CHECK(run_preloaded({"python3", "-c", look}, no_driver).out == "[False, False, False, True]\n");
}

TEST_CASE("the library exports exactly what exports.map names") {
  std::ifstream map(CUBFC_TEST_EXPORTS_MAP);
  std::stringstream text;
  text << map.rdbuf();
  const std::set<std::string> wanted = all_matches(text.str(), "\n +([a-zA-Z_0-9]+);");
  REQUIRE(wanted.count("dlsym") == 1);
  REQUIRE(wanted.count("cuMemAlloc_v2") == 1);
  const Outcome symbols = run({"nm", "-D", "--defined-only", CUBFC_TEST_BUILT_LIBRARY});
  CHECK(all_matches(symbols.out, " [A-Za-z] ([^ \n]+)\n") == wanted);
}

TEST_CASE("the library needs only glibc, of version 2.34 or older") {
  const Outcome needed = run({"readelf", "-d", CUBFC_TEST_BUILT_LIBRARY});
  for (const std::string& library : all_matches(needed.out, "NEEDED\\).*\\[([^\\]]+)\\]")) {
    INFO(library);
    CHECK((library == "libc.so.6" || library == "libm.so.6" || library.starts_with("ld-linux")));
  }
  const Outcome symbols = run({"objdump", "-T", CUBFC_TEST_BUILT_LIBRARY});
  for (const std::string& minor : all_matches(symbols.out, "GLIBC_2\\.([0-9]+)")) {
    INFO("GLIBC_2." << minor);
    CHECK(std::stoi(minor) <= 34);
  }
  CHECK(symbols.out.find("GLIBCXX") == std::string::npos);
  CHECK(symbols.out.find("GCC_") == std::string::npos);
}

TEST_CASE("the library asks for no network") {
  const std::string symbols = run({"objdump", "-T", CUBFC_TEST_BUILT_LIBRARY}).out;
  const auto needs = [&](const std::string& function) {
    return symbols.find(" " + function + "\n") != std::string::npos;
  };
  for (const char* function : {"socket", "socketpair", "connect", "bind", "listen", "accept",
                               "getaddrinfo", "sendto", "sendmsg", "recvfrom", "recvmsg"}) {
    INFO(function);
    CHECK_FALSE(needs(function));
  }
  CHECK(needs("open"));  // that what is needed is found
}
