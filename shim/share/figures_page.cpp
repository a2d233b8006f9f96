#include "shim/share/figures_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <new>

#include "shim/tell/log.h"
#include "shim/tell/program.h"

namespace cubfc {
namespace {

// Writes all that never changes; `magic` last, by which readers know that the rest is there.
void begin(figures::ProcessFigures& figures, const config::Policy& policy,
           FiguresPage::Origin origin) {
  figures.bytes = sizeof(figures);
  figures.pid = getpid();
  figures.run_pid = origin.run;
  figures.is_forked = origin.is_forked ? 1 : 0;
  figures.start_unix_ns = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
  figures.version.set(CUBFC_VERSION);
  figures.host.set(host_name());
  figures.program.set(command_line(figures.program.characters.size() - 1));
  figures.labels.set(policy.labels.value.value_or(""));
  figures.magic.store(figures::kMagic, std::memory_order_release);
}

// Whether the file keeps the room that it was given. Where it does not, a store to its mapping may
// fail and end the process (SIGBUS). False for file systems over a network, and for those on which
// each write takes new room.
bool keeps_its_room(int file) noexcept {
  constexpr std::array<std::uint64_t, 10> kMayNot{
      0x6969,      // NFS
      0xff534d42,  // CIFS
      0xfe534d42,  // SMB2
      0x9123683e,  // btrfs
      0x2fc12fc1,  // ZFS
      0xca451a4e,  // bcachefs
      0x65735546,  // FUSE
      0x0bd00bd0,  // Lustre
      0x47504653,  // GPFS
      0x00c36400,  // Ceph
  };
  struct statfs system {};
  return fstatfs(file, &system) == 0 &&
         std::find(kMayNot.begin(), kMayNot.end(),
                   static_cast<std::uint64_t>(system.f_type) & 0xffffffff) == kMayNot.end();
}

}  // namespace

FiguresPage::FiguresPage(const config::Policy& policy, Origin origin) {
  if (policy.share_stats.value && !policy.disable.value) {
    figures_ = make_file();
  }
  if (figures_ == nullptr) {
    own_ = std::make_unique<figures::ProcessFigures>();
    figures_ = own_.get();
  }
  begin(*figures_, policy, origin);
}

// Called only if the Process that was to have it could not be made.
FiguresPage::~FiguresPage() {
  leave();
}

// Makes the shared file; nullptr if there can be none. A forked child does not inherit the mapping
// that keeps the file locked. So the figures lie in a second mapping, which a child does inherit:
// else a child that still writes figures would end by SIGSEGV.
figures::ProcessFigures* FiguresPage::make_file() {
  std::uint64_t key = 0;
  constexpr std::size_t kBytes = sizeof(figures::ProcessFigures);
  file_ = make_shared_file(figures::kFileKind, kBytes, key);
  if (!file_) {
    log::info("cubfc top and cubfc metrics will not see this process: {}",
              why_no_shared_file(errno));
    return nullptr;
  }
  const Descriptor file = open_again(*file_);
  void* const data = file && keeps_its_room(file.get())
                         ? mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0)
                         : MAP_FAILED;
  if (data == MAP_FAILED) {
    log::info(
        "cubfc top and cubfc metrics will not see this process: the file system of {} cannot "
        "reserve space for a file",
        file_->path);
    leave();
    file_.reset();
    return nullptr;
  }
  return new (data) figures::ProcessFigures;  // zeros already, and left so
}

void FiguresPage::leave() noexcept {
  if (file_) {
    syscall(SYS_unlinkat, AT_FDCWD, file_->path.c_str(), 0);
  }
}

}  // namespace cubfc
