// cuStreamWriteValue*, cuStreamWaitValue*, cuStreamBatchMemOp: words of memory that streams write,
// and wait for.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "entry_point.h"
#include "state.h"
#include "work.h"

namespace standin {
namespace {

constexpr std::chrono::microseconds kBetweenLooks{20};

struct Operation {
  bool waits;
  bool wide;  // of 64 bits
  CUdeviceptr address;
  std::uint64_t value;
  unsigned flags;
};

template <typename Word>
bool IsReached(CUdeviceptr address, std::uint64_t value, unsigned flags) {
  const Word now = std::atomic_ref(*reinterpret_cast<Word*>(address)).load();
  const auto wanted = static_cast<Word>(value);
  switch (flags & 3U) {
    case CU_STREAM_WAIT_VALUE_GEQ:  // cuda.h: by the sign of the difference, so that it may wrap
      return static_cast<std::make_signed_t<Word>>(now - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & wanted) != 0;
    default:
      return static_cast<Word>(~(now | wanted)) != 0;  // NOR
  }
}

void Run(const Operation& operation) {
  if (!operation.waits && operation.wide) {
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(operation.address)).store(operation.value);
  } else if (!operation.waits) {
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(operation.address))
        .store(static_cast<std::uint32_t>(operation.value));
  } else {
    const auto reached = operation.wide ? IsReached<std::uint64_t> : IsReached<std::uint32_t>;
    while (!reached(operation.address, operation.value, operation.flags)) {
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }
}

CUresult Queue(CUstream handle, std::vector<Operation> operations) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  for (const Operation& operation : operations) {
    const std::size_t bytes = operation.wide ? 8 : 4;
    if (operation.address % bytes != 0 || !FindAllocation(operation.address)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (stream->capture) return CUDA_ERROR_NOT_SUPPORTED;  // as nodes of a graph
  return Submit(*stream, [all = std::move(operations)] {
    for (const Operation& operation : all) Run(operation);
  });
}

CUresult Batch(CUstream stream, unsigned count, const CUstreamBatchMemOpParams* list,
               unsigned flags) {
  if (count > 256 || (count > 0 && !list) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Operation> operations;
  for (unsigned i = 0; i < count; ++i) {
    const CUstreamBatchMemOpParams& one = list[i];
    switch (one.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64: {
        const bool wide = one.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
        operations.push_back({true, wide, one.waitValue.address,
                              wide ? one.waitValue.value64 : one.waitValue.value,
                              one.waitValue.flags});
        break;
      }
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64: {
        const bool wide = one.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
        operations.push_back({false, wide, one.writeValue.address,
                              wide ? one.writeValue.value64 : one.writeValue.value,
                              one.writeValue.flags});
        break;
      }
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      case CU_STREAM_MEM_OP_BARRIER:
        break;  // a stream's work is done in order here
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return Queue(stream, std::move(operations));
}

}  // namespace
}  // namespace standin

using namespace standin;

STREAM_ENTRY(cuStreamWriteValue32_v2, _ptsz,
             (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
             (stream, address, value, flags)) {
  return Queue(stream, {{false, false, address, value, flags}});
}
STREAM_ENTRY(cuStreamWriteValue64_v2, _ptsz,
             (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
             (stream, address, value, flags)) {
  return Queue(stream, {{false, true, address, value, flags}});
}
STREAM_ENTRY(cuStreamWaitValue32_v2, _ptsz,
             (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
             (stream, address, value, flags)) {
  return Queue(stream, {{true, false, address, value, flags}});
}
STREAM_ENTRY(cuStreamWaitValue64_v2, _ptsz,
             (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
             (stream, address, value, flags)) {
  return Queue(stream, {{true, true, address, value, flags}});
}
STREAM_ENTRY(cuStreamBatchMemOp_v2, _ptsz,
             (CUstream stream, unsigned count, CUstreamBatchMemOpParams* list, unsigned flags),
             (stream, count, list, flags)) {
  return Batch(stream, count, list, flags);
}
