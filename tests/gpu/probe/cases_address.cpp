// Whether the pointers that cuGetProcAddress gives are the addresses of the symbols in
// libcuda.so.1, for every function that stands between a program and its memory. Where they are, a
// resolver that is asked by name can be recognised by the address it returns.
#include <dlfcn.h>

#include <array>
#include <map>
#include <set>
#include <vector>

#include "cases.h"

namespace probe {
namespace {

constexpr std::array kFunctions = std::to_array<const char*>({
    "cuMemAlloc",
    "cuMemAllocPitch",
    "cuMemFree",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuMemGetInfo",
    "cuDeviceTotalMem",
    "cuMemGetAddressRange",
    "cuPointerGetAttribute",
    "cuPointerGetAttributes",
    "cuPointerSetAttribute",
    "cuMemGetHandleForAddressRange",
    "cuIpcGetMemHandle",
    "cuIpcOpenMemHandle",
    "cuIpcCloseMemHandle",
    "cuGetProcAddress",
    "cuMemRetainAllocationHandle",
    "cuStreamBeginCapture",
    "cuStreamBeginCaptureToGraph",
    "cuStreamEndCapture",
    "cuStreamDestroy",
    "cuCtxDestroy",
    "cuCtxDetach",
    "cuGreenCtxDestroy",
    "cuGreenCtxCreate",
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxReset",
    "cuDevicePrimaryCtxRetain",
    "cuInit",
    "cuCtxCreate",
    "cuMemCreate",
    "cuMemRelease",
    "cuArrayCreate",
    "cuArray3DCreate",
    "cuArrayDestroy",
    "cuMipmappedArrayCreate",
    "cuMipmappedArrayDestroy",
    "cuMemAllocManaged",
    "cuMulticastCreate",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolTrimTo",
    "cuMemAllocHost",
    "cuMemHostAlloc",
    "cuMemHostRegister",
    "cuMemFreeHost",
    "cuGetExportTable",
    "cuThreadExchangeStreamCaptureMode",
});

// Where a function's meaning has changed; each is asked for, so every form is found.
constexpr std::array kVersions = std::to_array<int>(
    {2000,  2020,  3000,  3010,  3020,  4000,  4010,  5000,  5050,  6000,  6050,  7000,  7050,
     8000,  9000,  9020,  10000, 10010, 10020, 11000, 11010, 11020, 11030, 11040, 11050, 11060,
     11070, 11080, 12000, 12010, 12020, 12030, 12040, 12050, 12060, 12080, 12090, 13000});

// Every symbol that may stand for a function of this base name.
std::map<void*, std::string> symbols_of(const Driver& cu, const std::string& base) {
  std::map<void*, std::string> found;
  for (const char* version : {"", "_v2", "_v3", "_v4", "_v5"}) {
    for (const char* stream : {"", "_ptsz", "_ptds"}) {
      const std::string name = base + version + stream;
      if (void* const address = dlsym(cu.library, name.c_str())) {
        found.emplace(address, name);
      }
    }
  }
  return found;
}

struct Findings {
  int functions = 0;
  std::set<void*> addresses;
  std::vector<std::string> strangers;
};

void look_at(const Driver& cu, const char* base, Findings& findings) {
  const std::map<void*, std::string> symbols = symbols_of(cu, base);
  findings.functions += symbols.empty() ? 0 : 1;
  std::set<void*> seen;
  for (const int version : kVersions) {
    for (const cuuint64_t flags : {0U, 1U, 2U}) {
      void* address = nullptr;
      CUdriverProcAddressQueryResult status{};
      const CUresult result = cu.cuGetProcAddress(base, &address, version, flags, &status);
      if (result != CUDA_SUCCESS || address == nullptr || !seen.insert(address).second) {
        continue;
      }
      findings.addresses.insert(address);
      if (!symbols.contains(address)) {
        std::string stranger = base;
        stranger.append(" at ").append(std::to_string(version));
        stranger.append(" with flags ").append(std::to_string(flags));
        findings.strangers.push_back(stranger);
      }
    }
  }
}

// Asked before cuInit, as the runtime does.
Answer proc_addresses(Session& s) {
  Findings findings;
  for (const char* function : kFunctions) {
    look_at(s.cu, function, findings);
  }
  std::string strangers;
  for (const std::string& stranger : findings.strangers) {
    strangers.append(strangers.empty() ? "\"" : ", \"").append(stranger).append("\"");
  }
  return answer_json("{\"functions\": " + std::to_string(findings.functions) +
                     ", \"addresses\": " + std::to_string(findings.addresses.size()) +
                     ", \"that_are_no_symbol\": [" + strangers + "]}");
}

}  // namespace

void add_address_cases(Cases& cases) {
  cases.push_back({"proc_addresses", proc_addresses, Begins::kNothingDone, Kind::kMeasurement});
}

}  // namespace probe
