#include "shim/record/trace_recorder.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <limits>
#include <new>
#include <utility>

#include "arena/kept_errno.h"
#include "shim/tell/log.h"
#include "shim/tell/no_signal.h"
#include "shim/tell/program.h"

namespace cubfc {
namespace {

using trace::Kind;
using trace::Record;

constexpr std::size_t kMostFrames = 64;

// Of a file: its header, and a record that says it is full.
constexpr std::uint64_t kLeastBytes = sizeof(trace::Header) + sizeof(Record);

// Beyond what the program may write to a file it would be ended by a signal.
std::uint64_t allowed_bytes(std::uint64_t wanted) {
  struct rlimit limit {};
  const bool known = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return known ? std::min<std::uint64_t>(wanted, limit.rlim_cur) : wanted;
}

bool write_at(int file, const void* data, std::size_t bytes, std::uint64_t at) noexcept {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const long written = syscall(SYS_pwrite64, file, next, bytes, at);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    next += written;
    at += static_cast<std::uint64_t>(written);
    bytes -= static_cast<std::size_t>(written);
  }
  return true;
}

inline std::uint64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Wherever the program goes.
std::string absolute(const std::string& path) {
  std::array<char, 4096> folder{};
  return path.starts_with('/') || getcwd(folder.data(), folder.size()) == nullptr
             ? path
             : std::string(folder.data()) + '/' + path;
}

// How many there have been.
std::atomic<std::uint64_t> recorders{0};

struct ThreadState {
  std::uint64_t recorder;  // whose number it has
  std::uint16_t number;
  std::uint16_t frames;  // captured
  std::array<std::uintptr_t, kMostFrames> stack;
};
constinit thread_local ThreadState this_thread{};

struct Walk {
  std::uintptr_t* frames;
  std::size_t most;
  std::size_t count;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* data) {
  auto& walk = *static_cast<Walk*>(data);
  if (walk.count < walk.most) {
    walk.frames[walk.count++] = static_cast<std::uintptr_t>(_Unwind_GetIP(context));
  }
  return walk.count < walk.most ? _URC_NO_REASON : _URC_END_OF_STACK;
}

std::string arguments_of_program() {
  std::string text(4096, '\0');
  std::FILE* const file = std::fopen("/proc/self/cmdline", "re");
  text.resize(file == nullptr ? 0 : std::fread(text.data(), 1, text.size(), file));
  if (file != nullptr) {
    std::fclose(file);
  }
  while (!text.empty() && text.back() == '\0') {
    text.pop_back();
  }
  return text;
}

}  // namespace

inline std::uint64_t TraceRecorder::now_ns() const noexcept {
  return monotonic_ns() - start_ns_;
}

// No descriptor of it stays open: the program may close it, and open something else under its
// number. The file of a process that writes one is locked, by the page that is mapped; a child that
// is forked has neither. errno says what is wrong.
std::optional<TraceRecorder::File> TraceRecorder::open_unlocked(const std::string& path) {
  const int file =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (file < 0) {
    return std::nullopt;
  }
  struct stat status {};
  std::optional<File> opened;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    errno = EINVAL;
  } else if (flock(file, LOCK_EX | LOCK_NB) == 0 && ftruncate(file, 0) == 0) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const mapped = mmap(nullptr, page, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) {
      madvise(mapped, page, MADV_DONTFORK);
      opened = File{absolute(path), status.st_dev, status.st_ino, mapped};
    }
  }
  const int error = errno;
  ::close(file);
  errno = error;
  return opened;
}

std::unique_ptr<TraceRecorder> TraceRecorder::open(const Settings& settings) {
  std::string path = settings.path;
  std::optional<File> file = open_unlocked(path);
  if (!file && errno == EWOULDBLOCK) {
    path += '.' + std::to_string(getpid());
    file = open_unlocked(path);
  }
  if (!file) {
    log::warn("CUBFC_TRACE: {}: {}; nothing is recorded", path,
              errno == EINVAL ? "is no file" : std::strerror(errno));
    return nullptr;
  }
  Settings ours = settings;
  ours.limit_bytes = allowed_bytes(std::max(settings.limit_bytes, kLeastBytes));
  if (ours.limit_bytes < kLeastBytes) {
    log::warn("CUBFC_TRACE: the program may not write files; nothing is recorded");
    return nullptr;
  }
  std::unique_ptr<TraceRecorder> recorder(new TraceRecorder(*file, ours));
  recorder->begin(ours);
  log::info("recording to {}", path);
  return recorder;
}

TraceRecorder::TraceRecorder(const File& file, const Settings& settings)
    : file_(file),
      limit_(settings.limit_bytes - sizeof(Record)),
      stack_depth_(std::min<std::uint32_t>(settings.stack_depth, kMostFrames)),
      number_(++recorders),
      start_ns_(monotonic_ns()),
      buffers_(std::make_unique<std::array<Buffer, kBuffers>>()) {}

TraceRecorder::~TraceRecorder() {
  close();
  munmap(file_.mapped, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
}

void TraceRecorder::begin(const Settings& settings) {
  trace::Header header{};
  header.magic = trace::kMagic;
  header.version = trace::kVersion;
  header.header_bytes = sizeof(header);
  header.start_unix_ns = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
  header.pid = getpid();
  header.stack_depth = stack_depth_;
  header.limit_bytes = settings.limit_bytes;
  std::uint64_t at = 0;
  reserve(sizeof(header), at);
  copy(at, &header, sizeof(header));
  record({.kind = Kind::kProgram}, arguments_of_program());
  record({.kind = Kind::kSettings}, settings.text);
  flush();
}

// The file has room for so many bytes, from `at` on. The last record of a file that is full says
// so.
inline bool TraceRecorder::reserve(std::uint64_t bytes, std::uint64_t& at) noexcept {
  if (stopped_.load(std::memory_order_relaxed)) {
    return false;
  }
  at = head_.fetch_add(bytes, std::memory_order_relaxed);
  if (at + bytes <= limit_) [[likely]] {
    return true;
  }
  full(at);
  return false;
}

// There is no room at `at`. Nothing is said here: the arena's lock is held.
[[gnu::noinline]] void TraceRecorder::full(std::uint64_t at) noexcept {
  stop(Problem::kFull, 0);
  if (at <= limit_) {  // of all that have come too late this one is the first
    const Record full{trace::time_and_kind(now_ns(), Kind::kFull), 0, 0, 0, 0, 0, 0};
    copy(at, &full, sizeof(full));
    end_ = at + sizeof(full);
  }
}

// Into the buffers, from one into the next where it must be.
void TraceRecorder::copy(std::uint64_t at, const void* data, std::size_t bytes) noexcept {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const std::size_t part = std::min(bytes, kBufferBytes - at % kBufferBytes);
    Buffer& buffer = buffer_at(at);
    std::memcpy(buffer.bytes.data() + at % kBufferBytes, from, part);
    filled(buffer, at, part);
    at += part;
    from += part;
    bytes -= part;
  }
}

// The buffer for this place of the file, when it is there.
inline TraceRecorder::Buffer& TraceRecorder::buffer_at(std::uint64_t at) noexcept {
  const std::uint64_t number = at / kBufferBytes;
  Buffer& buffer = (*buffers_)[number % kBuffers];
  while (buffer.turn.load(std::memory_order_acquire) != turn_of(number)) [[unlikely]] {
      sched_yield();  // another thread writes it to the file
    }
  return buffer;
}

// So many bytes are in the buffer. Who fills it writes it out.
inline void TraceRecorder::filled(Buffer& buffer, std::uint64_t at, std::size_t bytes) noexcept {
  if (buffer.filled.fetch_add(bytes, std::memory_order_acq_rel) + bytes == kBufferBytes)
      [[unlikely]] {
    write_out(buffer, at / kBufferBytes * kBufferBytes, kBufferBytes);
    buffer.turn.fetch_add(1, std::memory_order_seq_cst);  // flush() keeps away, or is waited for
    while (buffer.flushing.load(std::memory_order_seq_cst) != 0) {
      sched_yield();
    }
    buffer.filled.store(0, std::memory_order_relaxed);
    buffer.turn.fetch_add(1, std::memory_order_seq_cst);
  }
}

void TraceRecorder::write_out(Buffer& buffer, std::uint64_t start, std::size_t bytes) noexcept {
  const KeptErrno kept;
  const NoSignal no_sigxfsz(SIGXFSZ);
  struct stat status {};
  // By the system calls: the C library's functions are cancellation points.
  const auto file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, file_.path.c_str(),
                                             O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file < 0) {
    stop(Problem::kCannotWrite, errno);
    return;
  }
  if (fstat(file, &status) != 0 || status.st_dev != file_.device || status.st_ino != file_.inode) {
    stop(Problem::kReplaced, 0);
  } else if (!write_at(file, buffer.bytes.data(), bytes, start)) {
    stop(Problem::kCannotWrite, errno);
  }
  syscall(SYS_close, file);
}

// The first reason is kept, until somebody may say it.
void TraceRecorder::stop(Problem problem, int error) noexcept {
  Problem none = Problem::kNone;
  if (problem_.compare_exchange_strong(none, problem)) {
    error_ = error;
  }
  stopped_ = true;
}

void TraceRecorder::tell_problem() noexcept {
  const Problem problem = problem_.load();
  if (problem == Problem::kNone || told_.exchange(true)) {
    return;
  }
  if (problem == Problem::kFull) {
    log::warn("CUBFC_TRACE: {} has {}, which is the limit; nothing more was recorded", file_.path,
              log::bytes(limit_ + sizeof(Record)));
  } else {
    log::warn("CUBFC_TRACE: {}: {}; nothing more was recorded", file_.path,
              problem == Problem::kReplaced ? "has been removed, renamed or replaced"
                                            : std::strerror(error_));
  }
}

inline std::uint16_t TraceRecorder::thread_number() noexcept {
  return this_thread.recorder == number_ ? this_thread.number : new_thread();
}

std::uint16_t TraceRecorder::new_thread() noexcept {
  const std::uint32_t number = threads_.fetch_add(1, std::memory_order_relaxed) + 1;
  this_thread.recorder = number_;
  this_thread.number = static_cast<std::uint16_t>(std::min<std::uint32_t>(number, 0xffff));
  std::array<char, 16> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  record({.kind = Kind::kThread, .address = static_cast<std::uint64_t>(syscall(SYS_gettid))},
         std::string_view(name.data()));
  return this_thread.number;
}

// No record without a payload lies in two buffers.
void TraceRecorder::record(const What& what) noexcept {
  const std::uint16_t thread = thread_number();
  std::uint64_t at = 0;
  if (reserve(sizeof(Record), at)) {
    const std::uint64_t time = now_ns();
    Buffer& buffer = buffer_at(at);
    new (buffer.bytes.data() + at % kBufferBytes) Record{trace::time_and_kind(time, what.kind),
                                                         what.address,
                                                         what.bytes,
                                                         what.padding,
                                                         thread,
                                                         what.place,
                                                         what.caller};
    filled(buffer, at, sizeof(Record));
  }
}

void TraceRecorder::record(const What& what, std::span<const arena::FreedBlock> each) noexcept {
  const std::uint16_t thread = thread_number();
  std::array<Record, 32> records;
  while (!each.empty()) {
    const auto some = each.first(std::min(each.size(), records.size()));
    std::uint64_t at = 0;
    if (!reserve(some.size() * sizeof(Record), at)) {
      return;
    }
    const std::uint64_t time_and_kind = trace::time_and_kind(now_ns(), what.kind);
    std::transform(some.begin(), some.end(), records.begin(), [&](const arena::FreedBlock& block) {
      return Record{time_and_kind, block.address, block.bytes, what.padding,
                    thread,        what.place,    what.caller};
    });
    copy(at, records.data(), some.size() * sizeof(Record));
    each = each.subspan(some.size());
  }
}

void TraceRecorder::record(What what, const void* payload, std::size_t payload_bytes) noexcept {
  const std::uint16_t thread = thread_number();
  const std::uint64_t padded = trace::padded(payload_bytes);
  std::uint64_t at = 0;
  if (reserve(sizeof(Record) + padded, at)) {
    const Record record{trace::time_and_kind(now_ns(), what.kind),
                        what.address,
                        payload_bytes,
                        what.padding,
                        thread,
                        what.place,
                        what.caller};
    copy(at, &record, sizeof(record));
    copy(at + sizeof(record), payload, payload_bytes);
    constexpr std::array<std::byte, sizeof(Record)> kZeros{};
    copy(at + sizeof(record) + payload_bytes, kZeros.data(), padded - payload_bytes);
  }
}

std::uint8_t TraceRecorder::begin_place(const trace::PlaceText& place) noexcept {
  std::uint8_t number = std::numeric_limits<std::uint8_t>::max();
  {
    const std::lock_guard lock(mutex_);
    for (std::uint8_t i = 1; i < std::numeric_limits<std::uint8_t>::max(); ++i) {
      if (!places_[i]) {
        places_[i] = true;
        number = i;
        break;
      }
    }
  }
  record({.kind = Kind::kPlace, .place = number}, &place, sizeof(place));
  return number;
}

void TraceRecorder::end_place(std::uint8_t place) noexcept {
  record({.kind = Kind::kEndPlace, .place = place});
  const std::lock_guard lock(mutex_);
  places_[place] = false;
}

void TraceRecorder::capture_stack(const void* return_address) noexcept {
  if (stack_depth_ == 0) {
    return;
  }
  constexpr std::size_t kMostOfOurs = 16;
  std::array<std::uintptr_t, kMostFrames + kMostOfOurs> frames{};
  Walk walk{frames.data(), stack_depth_ + kMostOfOurs, 0};
  _Unwind_Backtrace(&add_frame, &walk);
  const auto end = frames.begin() + static_cast<std::ptrdiff_t>(walk.count);
  auto first = std::find(frames.begin(), end, reinterpret_cast<std::uintptr_t>(return_address));
  first = first == end ? frames.begin() : first;
  this_thread.frames = static_cast<std::uint16_t>(
      std::min<std::size_t>(static_cast<std::size_t>(end - first), stack_depth_));
  std::copy_n(first, this_thread.frames, this_thread.stack.begin());
  record_objects_of(this_thread.stack.data(), this_thread.frames);
}

void TraceRecorder::record_stack() noexcept {
  if (const std::size_t frames = std::exchange(this_thread.frames, 0); frames > 0) {
    record({.kind = Kind::kStack}, this_thread.stack.data(), frames * sizeof(std::uintptr_t));
  }
}

// What code is loaded, if any of these lies in code that was not told of.
void TraceRecorder::record_objects_of(const std::uintptr_t* frames, std::size_t count) noexcept
    try {
  const std::lock_guard lock(mutex_);
  const bool known = std::all_of(frames, frames + count, [&](std::uintptr_t frame) {
    return std::any_of(code_.begin(), code_.end(), [&](const Range& range) {
      return frame - range.start < range.end - range.start;
    });
  });
  std::FILE* const maps = known ? nullptr : std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) {
    return;
  }
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
      code_.push_back({start, end});
      const std::string_view path(line.data() + path_at);
      text += format("{:x} {:x} {:x} {}\n", start, end, offset, path.substr(0, path.find('\n')));
    }
  }
  std::fclose(maps);
  record({.kind = Kind::kObjects}, text);
} catch (const std::bad_alloc&) {  // stacks without names
}

// A thread may be between its place in the file and its record there: it is waited for, a while at
// most; then what is not written yet stays so.
void TraceRecorder::flush() noexcept {
  constexpr int kLooks = 1000;
  constexpr timespec kPause{0, 100'000};
  for (int look = 0; look < kLooks; ++look) {
    const std::uint64_t number = std::min(head_.load(), end_.load()) / kBufferBytes;
    Buffer& buffer = (*buffers_)[number % kBuffers];
    buffer.flushing.fetch_add(1, std::memory_order_seq_cst);
    // In this order: when nobody has asked for a place since, all that was asked for is filled.
    const std::uint64_t filled = buffer.filled.load(std::memory_order_seq_cst);
    const std::uint64_t head = std::min(head_.load(std::memory_order_seq_cst), end_.load());
    const bool whole = buffer.turn.load(std::memory_order_seq_cst) == turn_of(number) &&
                       head / kBufferBytes == number && filled >= head % kBufferBytes;
    if (whole) {
      write_out(buffer, number * kBufferBytes, head % kBufferBytes);
    }
    buffer.flushing.fetch_sub(1, std::memory_order_release);
    if (whole) {
      break;
    }
    syscall(SYS_nanosleep, &kPause, nullptr);  // no cancellation point
  }
}

void TraceRecorder::close() noexcept {
  if (!stopped_.exchange(true)) {
    const Record last{trace::time_and_kind(now_ns(), Kind::kClose), 0, 0, 0, thread_number(), 0, 0};
    const std::uint64_t at = head_.fetch_add(sizeof(last), std::memory_order_relaxed);
    if (at + sizeof(last) <= limit_) {
      copy(at, &last, sizeof(last));
      end_ = at + sizeof(last);
    }
  }
  flush();
}

}  // namespace cubfc
