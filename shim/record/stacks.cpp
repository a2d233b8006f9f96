#include "shim/record/stacks.h"

#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <new>
#include <string_view>
#include <utility>

#include "shim/loader/loaded_objects.h"
#include "shim/tell/format.h"

namespace cubfc {
namespace {

struct Captured {
  std::size_t frames;
  std::array<std::uintptr_t, Stacks::kMostFrames> stack;
};
constinit thread_local Captured captured{};

struct Walk {
  std::uintptr_t* frames;
  std::size_t most;
  const ObjectRange& wanted;
  std::size_t count = 0;  // frames that are kept
  std::size_t seen = 0;
  bool is_in_wanted = false;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* data) {
  auto& walk = *static_cast<Walk*>(data);
  const auto frame = static_cast<std::uintptr_t>(_Unwind_GetIP(context));
  if (frame == 0) {  // a thread's first function returns to nobody
    return _URC_END_OF_STACK;
  }
  constexpr std::size_t kMostSeen = 1024;
  if (walk.count < walk.most) {
    walk.frames[walk.count++] = frame;
  }
  walk.is_in_wanted = walk.is_in_wanted || walk.wanted.contains(frame);
  const bool is_looked_for = walk.wanted.end != 0 && !walk.is_in_wanted;
  return walk.count < walk.most || (is_looked_for && ++walk.seen < kMostSeen) ? _URC_NO_REASON
                                                                              : _URC_END_OF_STACK;
}

// "=start id" lines of all loaded objects that have a build id, in hexadecimal: `start` is where
// their code begins.
class BuildIds {
 public:
  static std::string lines() {
    std::string text;
    dl_iterate_phdr(&add, &text);
    return text;
  }

 private:
  static int add(dl_phdr_info* info, std::size_t /*bytes*/, void* data) noexcept try {
    const std::string_view id = id_of(*info);
    for (int i = 0; i < info->dlpi_phnum && !id.empty(); ++i) {
      const ElfW(Phdr)& segment = info->dlpi_phdr[i];
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
        std::string& text = *static_cast<std::string*>(data);
        text += format("={:x} ", info->dlpi_addr + segment.p_vaddr);
        for (const char byte : id) {
          text += format("{:02x}", static_cast<unsigned char>(byte));
        }
        text += '\n';
      }
    }
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;  // the exception must not pass through the C library
  }

  static std::string_view id_of(const dl_phdr_info& info) noexcept {
    constexpr std::string_view kOwner("GNU", 4);
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info.dlpi_phdr[i];
      std::string_view notes(reinterpret_cast<const char*>(info.dlpi_addr + segment.p_vaddr),
                             segment.p_type == PT_NOTE ? segment.p_memsz : 0);
      ElfW(Nhdr) note;
      while (notes.size() >= sizeof(note)) {
        std::memcpy(&note, notes.data(), sizeof(note));
        notes.remove_prefix(sizeof(note));
        const std::size_t name_bytes = (std::size_t{note.n_namesz} + 3) / 4 * 4;
        const std::size_t bytes = (std::size_t{note.n_descsz} + 3) / 4 * 4;
        if (name_bytes > notes.size() || bytes > notes.size() - name_bytes) {
          break;
        }
        if (note.n_type == NT_GNU_BUILD_ID && notes.substr(0, note.n_namesz) == kOwner) {
          return notes.substr(name_bytes, note.n_descsz);
        }
        notes.remove_prefix(name_bytes + bytes);
      }
    }
    return {};
  }
};

}  // namespace

Stacks::Capture Stacks::capture(const void* return_address, const ObjectRange& wanted) noexcept {
  constexpr std::size_t kMostOfOurs = 16;
  std::array<std::uintptr_t, kMostFrames + kMostOfOurs> frames{};
  Walk walk{frames.data(), depth_ + kMostOfOurs, wanted};
  _Unwind_Backtrace(&add_frame, &walk);
  const auto end = frames.begin() + static_cast<std::ptrdiff_t>(walk.count);
  auto first = std::find(frames.begin(), end, reinterpret_cast<std::uintptr_t>(return_address));
  first = first == end ? frames.begin() : first;
  captured.frames = std::min(static_cast<std::size_t>(end - first), std::size_t{depth_});
  std::copy_n(first, captured.frames, captured.stack.begin());
  return {{captured.stack.data(), captured.frames}, walk.is_in_wanted};
}

std::span<const std::uintptr_t> Stacks::take() noexcept {
  return {captured.stack.data(), std::exchange(captured.frames, 0)};
}

bool Stacks::is_known(std::uintptr_t frame) const {
  const auto behind = std::upper_bound(
      code_.begin(), code_.end(), frame,
      [](std::uintptr_t address, const Range& range) { return address < range.start; });
  return behind != code_.begin() && frame < std::prev(behind)->end;
}

// Without a look at objects_generation(), code that was generated, which lies in no object, would
// be looked for at each call.
void Stacks::tell_new_objects(std::span<const std::uintptr_t> frames,
                              const std::function<void(const std::string& text)>& tell) {
  const std::lock_guard lock(mutex_);
  if (std::all_of(frames.begin(), frames.end(),
                  [&](std::uintptr_t frame) { return is_known(frame); })) {
    return;
  }
  const std::uint64_t now = objects_generation();
  std::FILE* const maps = now == told_at_ ? nullptr : std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) {
    return;
  }
  told_at_ = now;
  code_.clear();
  std::string text;
  std::array<char, 4352> line{};
  while (std::fgets(line.data(), line.size(), maps) != nullptr) {
    unsigned long start = 0;
    unsigned long end = 0;
    unsigned long offset = 0;
    char executable = '-';
    int path_at = 0;
    if (std::sscanf(line.data(), "%lx-%lx %*c%*c%c%*c %lx %*s %*s %n", &start, &end, &executable,
                    &offset, &path_at) == 4 &&
        executable == 'x') {
      code_.push_back({start, end});  // in the order of their addresses
      const std::string_view path(line.data() + path_at);
      text += format("{:x} {:x} {:x} {}\n", start, end, offset, path.substr(0, path.find('\n')));
    }
  }
  std::fclose(maps);
  tell(text + BuildIds::lines());
}

}  // namespace cubfc
