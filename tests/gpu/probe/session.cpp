// The process in which cases run, and a stream that can be kept busy without a kernel.
#include <atomic>
#include <chrono>
#include <thread>

#include "cases.h"

namespace probe {

Answer answer(CUresult result) {
  Answer a;
  a.result = result;
  return a;
}

Answer answer_json(std::string json, std::string note) {
  Answer a;
  a.json = std::move(json);
  a.note = std::move(note);
  return a;
}

Answer unanswered(std::string why) {
  Answer a;
  a.unanswered = std::move(why);
  return a;
}

CUresult Session::start() {
  if (const CUresult error = cu.cuInit(0)) {
    return error;
  }
  if (const CUresult error = cu.cuDeviceGet(&device_, 0)) {
    return error;
  }
  if (const CUresult error = cu.cuDevicePrimaryCtxRetain(&context_, device_)) {
    return error;
  }
  return cu.cuCtxSetCurrent(context_);
}

bool Session::healthy() {
  if (cu.cuCtxSetCurrent(context_) != CUDA_SUCCESS || cu.cuCtxSynchronize() != CUDA_SUCCESS) {
    return false;
  }
  const CUdeviceptr probe_block = block(4096);
  return probe_block != 0 && cu.cuMemFree(probe_block) == CUDA_SUCCESS;
}

CUcontext Session::second_context() const {
  CUcontext second = nullptr;
  if (cu.create_context == nullptr || cu.create_context(&second, 0, device_) != CUDA_SUCCESS) {
    return nullptr;
  }
  cu.cuCtxSetCurrent(context_);
  return second;
}

CUdeviceptr Session::block(std::size_t bytes) const {
  CUdeviceptr address = 0;
  return cu.cuMemAlloc(&address, bytes) == CUDA_SUCCESS ? address : 0;
}

// Outlives the stream's work, so it is leaked where that work may still look at it.
struct HeldStream::Gate {
  std::atomic<bool> open{false};
  std::atomic<bool> passed{true};
  std::chrono::steady_clock::time_point until;
};

HeldStream::HeldStream(const Driver& driver, unsigned flags) : cu_(driver), gate_(new Gate) {
  cu_.cuStreamCreate(&stream_, flags);
}

CUresult HeldStream::hold(int at_most_ms) {
  gate_->open = false;
  gate_->passed = false;
  gate_->until = std::chrono::steady_clock::now() + std::chrono::milliseconds(at_most_ms);
  const auto wait = [](void* data) {
    auto* const gate = static_cast<Gate*>(data);
    while (!gate->open && std::chrono::steady_clock::now() < gate->until) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    gate->passed = true;
  };
  return cu_.cuLaunchHostFunc(stream_, wait, gate_);
}

void HeldStream::release() {
  gate_->open = true;
}

HeldStream::~HeldStream() {
  release();
  const bool done = cu_.cuStreamSynchronize(stream_) == CUDA_SUCCESS;
  cu_.cuStreamDestroy(stream_);
  if (done && gate_->passed) {
    delete gate_;
  }
}

}  // namespace probe
