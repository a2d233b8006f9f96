#include "shim/trim_requests.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "shim/log.h"
#include "shim/shared_files.h"

namespace cubfc {
namespace {

constexpr std::string_view kKind = "page-";
constexpr std::uint32_t kVersion = 1;

// How long an exit waits for the thread, which may be inside the driver.
constexpr std::chrono::seconds kPatience{2};

void ring_bell(SharedPage& page) {
  std::atomic_ref(page.bell).fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &page.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

void TrimRequests::begin() noexcept try {
  if (begun_.exchange(true)) {
    return;
  }
  owner_pid_ = getpid();
  SharedPage* page = &private_;
  if (const auto file = make_shared_file(kKind, sizeof(SharedPage))) {
    page = static_cast<SharedPage*>(file->data);
    path_ = file->path;
  }
  page->version = kVersion;
  page->pid = static_cast<std::uint32_t>(owner_pid_);
  page->magic = SharedPage::kMagic;
  page_.store(page, std::memory_order_release);
  if (policy_.trim_after.value) {
    start_thread();
  }
} catch (const std::bad_alloc&) {
  page_.store(&private_, std::memory_order_release);
}

void TrimRequests::start_thread() noexcept {
  static TrimRequests* watched = nullptr;
  watched = this;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's handlers do not run on our thread
  pthread_t thread{};
  const int error = pthread_create(
      &thread, nullptr,
      [](void* requests) -> void* {
        pthread_setname_np(pthread_self(), "cubfc-trim");
        static_cast<TrimRequests*>(requests)->watch();
        return nullptr;
      },
      this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    log::warn("CUBFC_TRIM_AFTER is without effect: no thread can be made (error {})", error);
    return;
  }
  thread_ = thread;
  // Registered after the driver's own handlers, it runs before them.
  std::atexit([] { watched->leave(); });
}

// One thread at a time; another's allocation does not wait for it.
void TrimRequests::answer() noexcept {
  if (answering_.exchange(true)) {
    return;
  }
  SharedPage& page = *page_.load(std::memory_order_acquire);
  const std::uint32_t asked = std::atomic_ref(page.requests).load(std::memory_order_acquire);
  seen_.store(asked, std::memory_order_relaxed);
  const bool preallocated = std::atomic_ref(page.preallocated).exchange(0) != 0;
  const std::uint64_t bytes = owner_.trim(preallocated);
  std::atomic_ref(page.trimmed_bytes).fetch_add(bytes, std::memory_order_relaxed);
  std::atomic_ref(page.answered).store(asked, std::memory_order_release);
  answering_.store(false);
  log::info("another process asked for memory that is not used: {} given back", log::bytes(bytes));
}

void TrimRequests::watch() noexcept {
  using Clock = std::chrono::steady_clock;
  const std::chrono::milliseconds patience = *policy_.trim_after.value;
  const auto nap = std::max(patience / 4, std::chrono::milliseconds(1));
  SharedPage& page = *page_.load(std::memory_order_acquire);
  std::uint64_t operations = owner_.operations();
  Clock::time_point since = Clock::now();
  bool trimmed = false;
  while (!stopping_.load()) {
    const std::uint32_t rung = std::atomic_ref(page.bell).load(std::memory_order_acquire);
    if (std::atomic_ref(page.requests).load() != seen_.load()) {
      answer();
    }
    wait_for_bell(rung, nap);
    if (const std::uint64_t now = owner_.operations(); now != operations) {
      operations = now;
      since = Clock::now();
      trimmed = false;
    }
    if (!trimmed && !stopping_.load() && Clock::now() - since >= patience) {
      if (const std::uint64_t bytes = owner_.trim(false); bytes > 0) {
        log::info("idle: {} given back", log::bytes(bytes));
      }
      trimmed = true;
    }
  }
}

// Returns at once when it was rung after `last`.
void TrimRequests::wait_for_bell(std::uint32_t last, std::chrono::milliseconds time) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  const timespec most{seconds.count(), (time - seconds).count() * 1'000'000};
  SharedPage& page = *page_.load(std::memory_order_acquire);
  syscall(SYS_futex, &page.bell, FUTEX_WAIT, last, &most, nullptr, 0);
}

void TrimRequests::leave() noexcept {
  if (owner_pid_ != getpid()) {
    return;
  }
  if (!path_.empty()) {
    unlink(path_.c_str());
  }
  if (!thread_ || stopping_.exchange(true)) {
    return;
  }
  ring_bell(*page_.load(std::memory_order_acquire));
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kPatience.count();
  pthread_timedjoin_np(*thread_, nullptr, &until);
}

bool request_trim(pid_t process, bool preallocated) {
  const std::string start = std::string(kKind) + std::to_string(process) + '-';
  for (const std::string& name : names_of_shared_files()) {
    if (!name.starts_with(start)) {
      continue;
    }
    const Descriptor file = open_shared_file(name, O_RDWR);
    void* const map =
        file ? mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0)
             : MAP_FAILED;
    if (map == MAP_FAILED) {
      continue;
    }
    auto& page = *static_cast<SharedPage*>(map);
    const bool ours = page.magic == SharedPage::kMagic && page.version == kVersion &&
                      page.pid == static_cast<std::uint32_t>(process);
    if (ours) {
      if (preallocated) {
        std::atomic_ref(page.preallocated).store(1);
      }
      std::atomic_ref(page.requests).fetch_add(1, std::memory_order_release);
      ring_bell(page);
    }
    munmap(map, sizeof(SharedPage));
    if (ours) {
      return true;
    }
  }
  return false;
}

}  // namespace cubfc
