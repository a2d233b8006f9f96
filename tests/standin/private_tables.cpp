// cuGetExportTable: tables that are private to NVIDIA's libraries. There are none here.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

#include "behaviour.h"
#include "entry_point.h"
#include "settings.h"

namespace standin {
namespace {

// The path of the library whose code is at the address, or nothing.
std::string_view LibraryOf(const void* address) {
  Dl_info found{};
  return dladdr(address, &found) != 0 && found.dli_fname ? found.dli_fname : "";
}

// Adds the library that has called to the file of STANDIN_REFUSED: it cannot run here. What passes
// calls on, as a preloaded library does, is not meant.
void NoteCaller() {
  if (settings().refused.empty()) return;
  std::array<void*, 16> stack{};
  const int depth = backtrace(stack.data(), static_cast<int>(stack.size()));
  const std::string_view own = LibraryOf(reinterpret_cast<const void*>(&NoteCaller));
  std::string_view caller;
  for (int i = 0; i < depth; ++i) {
    caller = LibraryOf(stack[static_cast<std::size_t>(i)]);
    if (caller != own && caller.find("/libcubfc.so") == std::string_view::npos) break;
  }
  const int file =
      open(settings().refused.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return;
  const std::string line = std::string(caller) + '\n';
  // One write: several processes may have one file. Nobody can be told of a failure here.
  if (write(file, line.data(), line.size()) < 0) {
  }
  close(file);
}

}  // namespace
}  // namespace standin

using namespace standin;

EARLY_ENTRY(cuGetExportTable, (const void** out, const CUuuid* id), (out, id)) {
  (void)id;
  if (out) *out = nullptr;
  NoteCaller();
  return Behaviour("cuGetExportTable.any");
}
