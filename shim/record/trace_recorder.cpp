#include "shim/record/trace_recorder.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <limits>
#include <new>
#include <utility>

#include "shim/patience.h"
#include "shim/tell/log.h"
#include "shim/tell/program.h"

namespace cubfc {
namespace {

using trace::Kind;
using trace::Record;

// The least that a file may have: its header, and a record that says that it is full.
constexpr std::uint64_t kLeastBytes = sizeof(trace::Header) + sizeof(Record);

inline std::uint64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// How many recorders have been made.
std::atomic<std::uint64_t> recorders{0};

struct ThreadState {
  std::uint64_t recorder;  // TraceRecorder::number_ of the recorder that has given `number`
  std::uint16_t number;
};
constinit thread_local ThreadState this_thread{};

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

std::unique_ptr<TraceRecorder> TraceRecorder::open(const Settings& settings) {
  std::string path = settings.path;
  std::unique_ptr<TraceFile> file = TraceFile::open(path);
  if (file == nullptr && errno == EWOULDBLOCK) {
    path += '.' + std::to_string(getpid());
    file = TraceFile::open(path);
  }
  if (file == nullptr) {
    log::warn("CUBFC_TRACE: {}: {}; nothing is recorded", path,
              errno == EINVAL ? "is no file" : std::strerror(errno));
    return nullptr;
  }
  Settings ours = settings;
  ours.limit_bytes = TraceFile::allowed_bytes(std::max(settings.limit_bytes, kLeastBytes));
  if (ours.limit_bytes < kLeastBytes) {
    log::warn("CUBFC_TRACE: the program may not write files (RLIMIT_FSIZE); nothing is recorded");
    return nullptr;
  }
  std::unique_ptr<TraceRecorder> recorder(new TraceRecorder(std::move(file), ours));
  recorder->begin(ours);
  log::info("recording to {}; to read it: cubfc report {}", path, path);
  return recorder;
}

TraceRecorder::TraceRecorder(std::unique_ptr<TraceFile> file, const Settings& settings)
    : file_(std::move(file)),
      limit_(settings.limit_bytes - sizeof(Record)),
      records_tensors_(settings.tensors && settings.stack_depth > 0),
      stacks_(settings.stack_depth),
      python_stacks_(settings.stack_depth),
      number_(++recorders),
      start_ns_(monotonic_ns()),
      buffers_(std::make_unique<std::array<Buffer, kBuffers>>()) {}

TraceRecorder::~TraceRecorder() {
  close();
}

void TraceRecorder::begin(const Settings& settings) {
  trace::Header header{};
  header.magic = trace::kMagic;
  header.version = trace::kVersion;
  header.header_bytes = sizeof(header);
  header.start_unix_ns = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
  header.pid = getpid();
  header.stack_depth = stacks_.depth();
  header.limit_bytes = settings.limit_bytes;
  std::uint64_t at = 0;
  reserve(sizeof(header), at);
  copy(at, &header, sizeof(header));
  record({.kind = Kind::kProgram}, arguments_of_program());
  record({.kind = Kind::kSettings}, settings.text);
  flush();
}

// Gives a record so many bytes of the file, from `at` on. False if recording has stopped or the
// file has no room for it; a file without room gets a last record that says so.
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

// Called when the file has no room at `at`. Logs nothing, because the arena's lock may be held.
[[gnu::noinline]] void TraceRecorder::full(std::uint64_t at) noexcept {
  file_->is_full();
  stopped_ = true;
  if (at <= limit_) {  // the first that did not fit: all later ones begin beyond the limit
    const Record full{trace::time_and_kind(now_ns(), Kind::kFull), 0, 0, 0, 0, 0, 0};
    copy(at, &full, sizeof(full));
    end_ = at + sizeof(full);
  }
}

// Copies into the buffers, from one into the next if the bytes lie in several.
void TraceRecorder::copy(std::uint64_t at, const void* data, std::size_t bytes) noexcept {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const std::size_t part = std::min(bytes, kBufferBytes - at % kBufferBytes);
    Buffer* const buffer = buffer_at(at);
    if (buffer == nullptr) {
      return;
    }
    std::memcpy(buffer->bytes.data() + at % kBufferBytes, from, part);
    filled(*buffer, at, part);
    at += part;
    from += part;
    bytes -= part;
  }
}

// The buffer for byte `at` of the file. Waits if another thread must write out an earlier part
// first; nullptr if that does not come to an end.
inline TraceRecorder::Buffer* TraceRecorder::buffer_at(std::uint64_t at) noexcept {
  const std::uint64_t number = at / kBufferBytes;
  Buffer& buffer = (*buffers_)[number % kBuffers];
  const auto is_there = [&] {
    return buffer.turn.load(std::memory_order_acquire) == turn_of(number);
  };
  return is_there() || waits_until(is_there) ? &buffer : nullptr;
}

// Waits for other threads until is_so(). False if this thread or another has waited in vain: then
// nothing more is recorded. A record that got bytes of the file and was not written leaves a hole;
// the file can be read up to the hole.
template <typename IsSo>
[[gnu::noinline]] bool TraceRecorder::waits_until(IsSo is_so) noexcept {
  constexpr timespec kNap{0, std::chrono::nanoseconds(patience::kNapForTrace).count()};
  for (int look = 0; !is_so(); ++look) {
    if (is_stuck_.load(std::memory_order_relaxed)) {
      return false;
    }
    if (look == patience::kYieldsForTrace + patience::kMostNapsForTrace) {
      file_->is_stuck();
      stopped_ = true;
      is_stuck_ = true;
    } else if (look < patience::kYieldsForTrace) {
      sched_yield();
    } else {
      syscall(SYS_nanosleep, &kNap, nullptr);  // no cancellation point
    }
  }
  return true;
}

// Called when so many bytes have been copied into the buffer. The thread that makes it full writes
// it out.
inline void TraceRecorder::filled(Buffer& buffer, std::uint64_t at, std::size_t bytes) noexcept {
  if (buffer.filled.fetch_add(bytes, std::memory_order_acq_rel) + bytes == kBufferBytes)
      [[unlikely]] {
    write_out(buffer, at / kBufferBytes * kBufferBytes, kBufferBytes);
    buffer.turn.fetch_add(1, std::memory_order_seq_cst);  // flush() skips it now, or is waited for
    if (!waits_until([&] { return buffer.flushing.load(std::memory_order_seq_cst) == 0; })) {
      return;
    }
    buffer.filled.store(0, std::memory_order_relaxed);
    buffer.turn.fetch_add(1, std::memory_order_seq_cst);
  }
}

void TraceRecorder::write_out(Buffer& buffer, std::uint64_t start, std::size_t bytes) noexcept {
  if (!file_->write(buffer.bytes.data(), bytes, start)) {
    stopped_ = true;
  }
}

void TraceRecorder::tell_problem() noexcept {
  file_->tell_problem(limit_ + sizeof(Record));
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

// A record without a payload lies in one buffer: buffers are a multiple of its size.
void TraceRecorder::record(const What& what) noexcept {
  const std::uint16_t thread = thread_number();
  std::uint64_t at = 0;
  if (reserve(sizeof(Record), at)) {
    const std::uint64_t time = now_ns();
    Buffer* const buffer = buffer_at(at);
    if (buffer == nullptr) [[unlikely]] {
      return;
    }
    new (buffer->bytes.data() + at % kBufferBytes) Record{trace::time_and_kind(time, what.kind),
                                                          what.address,
                                                          what.bytes,
                                                          what.padding,
                                                          thread,
                                                          what.place,
                                                          what.caller};
    filled(*buffer, at, sizeof(Record));
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
  const std::uint8_t number = places_.take();
  record({.kind = Kind::kPlace, .place = number}, &place, sizeof(place));
  return number;
}

void TraceRecorder::end_place(std::uint8_t place) noexcept {
  record({.kind = Kind::kEndPlace, .place = place});
  places_.give_back(place);
}

std::uint8_t TraceRecorder::Places::take() noexcept {
  constexpr std::uint8_t kShared = std::numeric_limits<std::uint8_t>::max();
  const std::lock_guard lock(mutex_);
  for (std::uint8_t i = 1; i < kShared; ++i) {
    if (!taken_[i]) {
      taken_[i] = true;
      return i;
    }
  }
  return kShared;
}

void TraceRecorder::Places::give_back(std::uint8_t place) noexcept {
  const std::lock_guard lock(mutex_);
  taken_[place] = false;
}

void TraceRecorder::capture_stack(const void* return_address) noexcept try {
  if (stack_depth() > 0) {
    const Stacks::Capture captured = stacks_.capture(return_address, python_stacks_.python());
    stacks_.tell_new_objects(captured.frames, [this](const std::string& text) {
      record({.kind = Kind::kObjects}, text);
    });
    capture_python(captured.is_in_wanted);
  }
} catch (const std::bad_alloc&) {  // no host memory: the stack may have no names
}

void TraceRecorder::capture_python(bool is_in_python) {
  python_stacks_.capture(
      is_in_python,
      {.python =
           [this](const Python& python) {
             record({.kind = Kind::kPython, .address = python.code_address()}, python.version());
           },
       .frame =
           [this](std::uint32_t number, const Python::Text& text) {
             record({.kind = Kind::kPythonFrame, .address = number, .padding = text.line},
                    text.file + '\0' + text.function);
           },
       .unreadable =
           [this](const std::string& why) {
             const std::string text = "stacks are without Python's frames: " + why;
             record({.kind = Kind::kNote}, text);
             log::warn("CUBFC_TRACE_STACKS: {}", text);
           }});
}

void TraceRecorder::record_stack() noexcept {
  if (const auto frames = stacks_.take(); !frames.empty()) {
    record({.kind = Kind::kStack}, frames.data(), frames.size_bytes());
  }
  if (const auto frames = PythonStacks::take(); !frames.empty()) {
    record({.kind = Kind::kPythonStack}, frames.data(), frames.size_bytes());
  }
}

// Another thread may have reserved bytes of the file, and not have copied its record there yet.
// Waits for such a thread, a while at most; then gives up.
void TraceRecorder::flush() noexcept {
  constexpr timespec kPause{0, std::chrono::nanoseconds(patience::kNapForTrace).count()};
  for (int nap = 0; nap < patience::kMostNapsForFlush; ++nap) {
    const std::uint64_t number = std::min(head_.load(), end_.load()) / kBufferBytes;
    Buffer& buffer = (*buffers_)[number % kBuffers];
    buffer.flushing.fetch_add(1, std::memory_order_seq_cst);
    // `filled` is read before `head_`, and never exceeds what was reserved by then. So if it
    // reaches `head`, all bytes that were reserved are filled.
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
