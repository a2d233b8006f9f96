// cuMemcpyBatchAsync, cuMemcpy3DBatchAsync: many copies by one call. They may run in any order;
// here they run in that of the list. In a capture the call is refused and the capture goes on.
#include <cstdint>

#include "array_copies.h"
#include "arrays.h"
#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"

#if CUDA_VERSION >= 12080

namespace standin {
namespace {

// cuda.h: where no one copy is to blame, or nothing failed.
constexpr std::size_t kNoCopy = SIZE_MAX;

bool IsKnown(CUmemcpySrcAccessOrder order) {
  return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

bool AreKnown(unsigned flags) {
  return (flags & ~unsigned{CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE}) == 0;
}

// The legacy stream takes none of a batch; that is seen before `failed` is written.
bool TakesBatches(CUstream stream) {
  return stream && stream != CU_STREAM_LEGACY;
}

CUresult CheckMayBegin(CUstream handle) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  return stream->capture ? FailCapture(*stream->capture, "capture.cuMemcpyBatchAsync")
                         : CUDA_SUCCESS;
}

struct CopyBatch {
  CUdeviceptr* to;
  CUdeviceptr* from;
  std::size_t* sizes;
  std::size_t count;
  CUmemcpyAttributes* attributes;
  std::size_t* indexes;  // of the first copy that an attribute is of
  std::size_t attribute_count;
};

bool HasAttributes(const CopyBatch& batch) {
  if (!batch.attributes || !batch.indexes || batch.attribute_count == 0 ||
      batch.attribute_count > batch.count || batch.indexes[0] != 0) {
    return false;
  }
  for (std::size_t i = 0; i < batch.attribute_count; ++i) {
    const CUmemcpyAttributes& attributes = batch.attributes[i];
    if (!IsKnown(attributes.srcAccessOrder) || !AreKnown(attributes.flags)) return false;
  }
  return true;
}

CUresult CopyAll(const CopyBatch& batch, std::size_t* failed, CUstream stream) {
  if (!TakesBatches(stream)) return CUDA_ERROR_INVALID_VALUE;
  *failed = kNoCopy;
  if (!batch.to || !batch.from || !batch.sizes || batch.count == 0 || !HasAttributes(batch)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult error = CheckMayBegin(stream)) return error;
  for (std::size_t i = 0; i < batch.count; ++i) {
    if (batch.sizes[i] != 0) continue;
    *failed = i;
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < batch.count; ++i) {
    if (const CUresult error = CopyAsync(batch.to[i], batch.from[i], batch.sizes[i], stream)) {
      return error;
    }
  }
  return CUDA_SUCCESS;
}

bool IsKnown(CUmemcpy3DOperandType type) {
  return type == CU_MEMCPY_OPERAND_TYPE_POINTER || type == CU_MEMCPY_OPERAND_TYPE_ARRAY;
}

bool IsRight(const CUDA_MEMCPY3D_BATCH_OP& copy) {
  const bool empty = copy.extent.width == 0 || copy.extent.height == 0 || copy.extent.depth == 0;
  return !empty && IsKnown(copy.src.type) && IsKnown(copy.dst.type) &&
         IsKnown(copy.srcAccessOrder) && AreKnown(copy.flags);
}

// What an extent counts: elements of an array, if there is one, else bytes.
std::size_t BytesOfElement(const CUDA_MEMCPY3D_BATCH_OP& copy) {
  const Lock lock(state().mutex);
  for (const CUmemcpy3DOperand* const side : {&copy.src, &copy.dst}) {
    std::shared_ptr<Array> array;
    if (side->type == CU_MEMCPY_OPERAND_TYPE_ARRAY &&
        FindArray(side->op.array.array, false, array) == CUDA_SUCCESS) {
      return array->element_bytes();
    }
  }
  return 1;
}

CUDA_MEMCPY3D BoxOf(const CUDA_MEMCPY3D_BATCH_OP& copy) {
  const std::size_t element = BytesOfElement(copy);
  CUDA_MEMCPY3D out{};
  const CUmemcpy3DOperand& from = copy.src;
  const CUmemcpy3DOperand& to = copy.dst;
  if (from.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    out.srcArray = from.op.array.array;
    out.srcXInBytes = from.op.array.offset.x * element;
    out.srcY = from.op.array.offset.y;
    out.srcZ = from.op.array.offset.z;
  } else {
    out.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    out.srcDevice = from.op.ptr.ptr;
    out.srcPitch = from.op.ptr.rowLength * element;
    out.srcHeight = from.op.ptr.layerHeight;
  }
  if (to.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    out.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    out.dstArray = to.op.array.array;
    out.dstXInBytes = to.op.array.offset.x * element;
    out.dstY = to.op.array.offset.y;
    out.dstZ = to.op.array.offset.z;
  } else {
    out.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    out.dstDevice = to.op.ptr.ptr;
    out.dstPitch = to.op.ptr.rowLength * element;
    out.dstHeight = to.op.ptr.layerHeight;
  }
  out.WidthInBytes = copy.extent.width * element;
  out.Height = copy.extent.height;
  out.Depth = copy.extent.depth;
  return out;
}

CUresult CopyBoxes(std::size_t count, const CUDA_MEMCPY3D_BATCH_OP* copies, std::size_t* failed,
                   unsigned long long flags, CUstream stream) {
  if (!TakesBatches(stream)) return CUDA_ERROR_INVALID_VALUE;
  *failed = kNoCopy;
  if (count == 0 || !copies || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = CheckMayBegin(stream)) return error;
  for (std::size_t i = 0; i < count; ++i) {
    if (IsRight(copies[i])) continue;
    *failed = i;
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const CUDA_MEMCPY3D box = BoxOf(copies[i]);
    if (const CUresult error = CopyBox(&box, stream, Wait::kNever)) {
      *failed = i;
      return error;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

STREAM_ENTRY(cuMemcpyBatchAsync, _ptsz,
             (CUdeviceptr * to, CUdeviceptr* from, size_t* sizes, size_t count,
              CUmemcpyAttributes* attributes, size_t* indexes, size_t attribute_count,
              size_t* failed, CUstream stream),
             (to, from, sizes, count, attributes, indexes, attribute_count, failed, stream)) {
  std::size_t unasked = 0;
  return CopyAll({to, from, sizes, count, attributes, indexes, attribute_count},
                 failed ? failed : &unasked, stream);
}

STREAM_ENTRY(cuMemcpy3DBatchAsync, _ptsz,
             (size_t count, CUDA_MEMCPY3D_BATCH_OP* copies, size_t* failed,
              unsigned long long flags, CUstream stream),
             (count, copies, failed, flags, stream)) {
  std::size_t unasked = 0;
  return CopyBoxes(count, copies, failed ? failed : &unasked, flags, stream);
}

#if CUDA_VERSION >= 13000
STREAM_ENTRY(cuMemcpyBatchAsync_v2, _ptsz,
             (CUdeviceptr * to, CUdeviceptr* from, size_t* sizes, size_t count,
              CUmemcpyAttributes* attributes, size_t* indexes, size_t attribute_count,
              CUstream stream),
             (to, from, sizes, count, attributes, indexes, attribute_count, stream)) {
  std::size_t unasked = 0;
  return CopyAll({to, from, sizes, count, attributes, indexes, attribute_count}, &unasked, stream);
}

STREAM_ENTRY(cuMemcpy3DBatchAsync_v2, _ptsz,
             (size_t count, CUDA_MEMCPY3D_BATCH_OP* copies, unsigned long long flags,
              CUstream stream),
             (count, copies, flags, stream)) {
  std::size_t unasked = 0;
  return CopyBoxes(count, copies, &unasked, flags, stream);
}
#endif

#endif
