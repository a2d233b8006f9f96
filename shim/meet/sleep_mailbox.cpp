#include "shim/meet/sleep_mailbox.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <string_view>

#include "shim/meet/descriptor.h"
#include "shim/meet/locked_mapping.h"
#include "shim/meet/rendezvous_table.h"

namespace cubfc {
namespace {

using sleep_mail::Page;
using sleep_mail::Request;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kFileKind = "sleep-1-";
constexpr std::uint32_t kMagic = 0x63756273;
constexpr std::chrono::milliseconds kLookForDead{200};

// The file of a process, open and mapped.
class Mapped {
 public:
  explicit Mapped(const std::string& path)
      : file_(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)) {
    if (file_) {
      void* const data =
          mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
      page_ = data == MAP_FAILED ? nullptr : static_cast<Page*>(data);
    }
  }
  ~Mapped() {
    if (page_ != nullptr) {
      munmap(page_, sizeof(Page));
    }
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  Page* page() const { return page_; }
  int file() const { return file_.get(); }

 private:
  Descriptor file_;
  Page* page_ = nullptr;
};

bool is_alive(pid_t pid) {
  return kill(pid, 0) == 0 || errno != ESRCH;
}

// Waits until the counts agree, `most` at most, or until the process is dead.
bool is_answered(Page& page, std::uint32_t number, std::chrono::seconds most) {
  const auto until = Clock::now() + most;
  for (;;) {
    const std::uint32_t answered = page.answered.load(std::memory_order_acquire);
    if (answered == number) {
      return true;
    }
    if (Clock::now() >= until || !is_alive(page.pid)) {
      return page.answered.load(std::memory_order_acquire) == number;
    }
    meeting::wait_while(page.answered, answered, kLookForDead);
  }
}

std::string text_in(const Page& page) {
  const std::string_view all(page.text.data(), page.text.size());
  return std::string(all.substr(0, all.find('\0')));
}

}  // namespace

bool SleepMailbox::open() {
  std::uint64_t key = 0;
  file_ = make_shared_file(kFileKind, sizeof(Page), key);
  if (!file_) {
    return false;
  }
  page_ = new (file_->data) Page;  // zeros already, and left so
  page_->pid = getpid();
  page_->magic.store(kMagic, std::memory_order_release);
  return true;
}

void SleepMailbox::leave() noexcept {
  if (file_) {
    syscall(SYS_unlinkat, AT_FDCWD, file_->path.c_str(), 0);
  }
}

void SleepMailbox::serve(std::chrono::milliseconds most,
                         const std::function<Answer(Request)>& answer) {
  const std::uint32_t bell = page_->bell.load(std::memory_order_acquire);
  const std::uint32_t answered = page_->answered.load(std::memory_order_relaxed);
  if (page_->asked.load(std::memory_order_acquire) == answered && !is_interrupted()) {
    meeting::wait_while(page_->bell, bell, most);
  }
  const std::uint32_t asked = page_->asked.load(std::memory_order_acquire);
  if (asked == answered || is_interrupted()) {
    return;
  }
  const Answer given = answer(static_cast<Request>(page_->request.load()));
  page_->text.fill('\0');
  given.text.copy(page_->text.data(), page_->text.size() - 1);
  page_->is_done.store(given.is_done ? 1 : 0);
  page_->answered.store(asked, std::memory_order_release);
  meeting::wake_all(page_->answered);
}

void SleepMailbox::interrupt() noexcept {
  is_interrupted_.store(true);
  if (page_ != nullptr) {
    page_->bell.fetch_add(1, std::memory_order_release);
    meeting::wake_all(page_->bell);
  }
}

SleepAnswer ask_to_sleep_or_wake(pid_t pid, Request request, std::chrono::seconds most) {
  SleepAnswer answer;
  for_each_shared_file(kFileKind, [&](const std::string& path, int found) {
    Page head{};
    constexpr std::size_t kHead = offsetof(Page, bell);
    if (answer.kind != SleepAnswer::Kind::kNobody ||
        pread(found, static_cast<void*>(&head), kHead, 0) != static_cast<ssize_t>(kHead) ||
        head.magic.load() != kMagic || head.pid != pid ||
        lseek(found, 0, SEEK_END) < static_cast<off_t>(sizeof(Page))) {
      return;
    }
    const Mapped mapped(path);
    if (mapped.page() == nullptr) {
      return;
    }
    if (!lock_byte(mapped.file(), 0, F_WRLCK)) {
      answer.kind = SleepAnswer::Kind::kBusy;
      return;
    }
    Page& page = *mapped.page();
    page.request.store(static_cast<std::uint32_t>(request));
    const std::uint32_t number = page.asked.fetch_add(1, std::memory_order_acq_rel) + 1;
    page.bell.fetch_add(1, std::memory_order_release);
    meeting::wake_all(page.bell);
    if (!is_answered(page, number, most)) {
      answer.kind = SleepAnswer::Kind::kNone;
      return;
    }
    answer.kind = page.is_done.load() != 0 ? SleepAnswer::Kind::kDone : SleepAnswer::Kind::kRefused;
    answer.text = text_in(page);
  });
  return answer;
}

}  // namespace cubfc
