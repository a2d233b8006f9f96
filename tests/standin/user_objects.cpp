// cuUserObject*. Callbacks run on a thread of their own, one after the other, as cuda.h says.
#include "user_objects.h"

#include <climits>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "entry_point.h"

namespace standin {
namespace {

struct UserObject {
  CUhostFn destroy;
  void* data;
  unsigned long long of_program;  // references
  unsigned long long of_graphs = 0;
};

// Never destroyed: its thread runs until the process is gone.
struct UserObjects {
  std::mutex mutex;
  std::condition_variable wake;
  std::map<CUuserObject, UserObject> live;
  std::deque<UserObject> ended;
  std::uintptr_t last_handle = 0x7b0000000000;
  bool started = false;
};

UserObjects& objects() {
  static auto* const instance = new UserObjects;
  return *instance;
}

void RunCallbacks() {
  std::unique_lock lock(objects().mutex);
  for (;;) {
    objects().wake.wait(lock, [] { return !objects().ended.empty(); });
    const UserObject ended = objects().ended.front();
    objects().ended.pop_front();
    lock.unlock();
    ended.destroy(ended.data);
    lock.lock();
  }
}

// Wants objects().mutex held.
void EndIfUnused(std::map<CUuserObject, UserObject>::iterator found) {
  if (found->second.of_program + found->second.of_graphs > 0) return;
  objects().ended.push_back(found->second);
  objects().live.erase(found);
  if (!std::exchange(objects().started, true)) std::thread(RunCallbacks).detach();
  objects().wake.notify_one();
}

bool Countable(unsigned count) {
  return count > 0 && count <= INT_MAX;
}

}  // namespace

UserReferences::UserReferences(const UserReferences& other) {
  Retain(other);
}

UserReferences& UserReferences::operator=(UserReferences other) noexcept {
  std::swap(counts_, other.counts_);
  return *this;
}

UserReferences::~UserReferences() {
  const std::lock_guard lock(objects().mutex);
  for (const auto& [object, count] : counts_) {
    const auto found = objects().live.find(object);
    found->second.of_graphs -= count;
    EndIfUnused(found);
  }
}

void UserReferences::Retain(const UserReferences& others) {
  const std::lock_guard lock(objects().mutex);
  for (const auto& [object, count] : others.counts_) {
    objects().live.at(object).of_graphs += count;
    counts_[object] += count;
  }
}

CUresult UserReferences::Retain(CUuserObject object, unsigned count, bool moved) {
  const std::lock_guard lock(objects().mutex);
  const auto found = objects().live.find(object);
  if (!Countable(count) || found == objects().live.end()) return CUDA_ERROR_INVALID_VALUE;
  if (moved && found->second.of_program < count) return CUDA_ERROR_INVALID_VALUE;
  if (moved) found->second.of_program -= count;
  found->second.of_graphs += count;
  counts_[object] += count;
  return CUDA_SUCCESS;
}

CUresult UserReferences::Release(CUuserObject object, unsigned count) {
  const std::lock_guard lock(objects().mutex);
  const auto owned = counts_.find(object);
  if (!Countable(count) || owned == counts_.end() || owned->second < count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  owned->second -= count;
  if (owned->second == 0) counts_.erase(owned);
  const auto found = objects().live.find(object);
  found->second.of_graphs -= count;
  EndIfUnused(found);
  return CUDA_SUCCESS;
}

}  // namespace standin

using namespace standin;

ENTRY(cuUserObjectCreate,
      (CUuserObject * out, void* data, CUhostFn destroy, unsigned count, unsigned flags),
      (out, data, destroy, count, flags)) {
  if (!out || !destroy || !Countable(count) || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(objects().mutex);
  objects().last_handle += 16;
  *out = reinterpret_cast<CUuserObject>(objects().last_handle);
  objects().live[*out] = {.destroy = destroy, .data = data, .of_program = count};
  return CUDA_SUCCESS;
}

ENTRY(cuUserObjectRetain, (CUuserObject object, unsigned count), (object, count)) {
  const std::lock_guard lock(objects().mutex);
  const auto found = objects().live.find(object);
  if (!Countable(count) || found == objects().live.end()) return CUDA_ERROR_INVALID_VALUE;
  found->second.of_program += count;
  return CUDA_SUCCESS;
}

// cuda.h leaves undefined what becomes of references that the program does not own: here they stay.
ENTRY(cuUserObjectRelease, (CUuserObject object, unsigned count), (object, count)) {
  const std::lock_guard lock(objects().mutex);
  const auto found = objects().live.find(object);
  if (!Countable(count) || found == objects().live.end() || found->second.of_program < count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  found->second.of_program -= count;
  EndIfUnused(found);
  return CUDA_SUCCESS;
}
