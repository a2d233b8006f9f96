// cuIpc*EventHandle: an event that several processes record and wait for.
#include "event_sharing.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "entry_point.h"
#include "other_process.h"
#include "state.h"

namespace standin {

std::shared_ptr<SharedEvent> SharedEvent::Map(int fd) {
  void* const map = mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) {
    close(fd);
    return nullptr;
  }
  return std::shared_ptr<SharedEvent>(new SharedEvent(fd, static_cast<Counters*>(map)));
}

std::shared_ptr<SharedEvent> SharedEvent::Make() {
  const int fd = memfd_create("standin-event", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  if (ftruncate(fd, sizeof(Counters)) == 0) return Map(fd);
  close(fd);
  return nullptr;
}

std::shared_ptr<SharedEvent> SharedEvent::Open(pid_t owner, int fd) {
  const int file = OpenFileOf(owner, fd);
  return file < 0 ? nullptr : Map(file);
}

SharedEvent::~SharedEvent() {
  munmap(counters_, sizeof(Counters));
  close(fd_);
}

std::uint64_t SharedEvent::Record() {
  return counters_->recorded.fetch_add(1) + 1;
}

void SharedEvent::Complete(std::uint64_t recording) {
  std::uint64_t before = counters_->complete;
  while (before < recording && !counters_->complete.compare_exchange_weak(before, recording)) {
  }
}

std::uint64_t SharedEvent::last_recording() const {
  return counters_->recorded;
}

bool SharedEvent::IsComplete() const {
  return counters_->complete >= last_recording();
}

void SharedEvent::Wait(std::uint64_t recording) const {
  while (counters_->complete < recording) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

namespace {

constexpr char kMagic[8] = {'s', 't', 'a', 'n', 'd', 'i', 'n', 'e'};

// What a CUipcEventHandle holds.
struct Content {
  char magic[8];
  pid_t owner;
  int fd;
};
static_assert(sizeof(Content) <= sizeof(CUipcEventHandle));

// cuda.h: of an event with CU_EVENT_INTERPROCESS.
CUresult Export(CUipcEventHandle* out, CUevent handle) {
  const Lock lock(state().mutex);
  std::shared_ptr<Event> event;
  if (const CUresult error = FindEvent(handle, event)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!event->shared) return CUDA_ERROR_INVALID_HANDLE;
  Content content{};
  std::memcpy(content.magic, kMagic, sizeof(kMagic));
  content.owner = getpid();
  content.fd = event->shared->fd();
  std::memset(out, 0, sizeof(*out));
  std::memcpy(out, &content, sizeof(content));
  return CUDA_SUCCESS;
}

CUresult Open(CUevent* out, const CUipcEventHandle& handle) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  Content content{};
  std::memcpy(&content, &handle, sizeof(content));
  if (std::memcmp(content.magic, kMagic, sizeof(kMagic)) != 0) return CUDA_ERROR_INVALID_HANDLE;
  if (content.owner == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  auto event = std::make_shared<Event>();
  event->context = context;
  event->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
  event->shared = SharedEvent::Open(content.owner, content.fd);
  if (!event->shared) return CUDA_ERROR_MAP_FAILED;
  *out = AddTo(state().events, std::move(event));
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuIpcGetEventHandle, (CUipcEventHandle * out, CUevent event), (out, event)) {
  return Export(out, event);
}

ENTRY(cuIpcOpenEventHandle, (CUevent * out, CUipcEventHandle handle), (out, handle)) {
  return Open(out, handle);
}
