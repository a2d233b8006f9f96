// cuStreamGetAttribute and its like: what is set is told again, and changes nothing.
#include <cstring>
#include <map>

#include "entry_point.h"
#include "state.h"

namespace standin {
namespace {

// By a stream's id, which no other stream gets. Guarded by state().mutex.
std::map<std::pair<Id, int>, CUstreamAttrValue>& attributes() {
  static auto* const instance = new std::map<std::pair<Id, int>, CUstreamAttrValue>;
  return *instance;
}

constexpr int kNeverSet = -1;  // no policy of cuda.h

bool IsKnown(CUstreamAttrID attribute) {
  return attribute == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
         attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
         attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
         attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

CUresult Get(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue* out) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (!out || !IsKnown(attribute)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = attributes().find({stream->id, attribute});
  *out = found == attributes().end() ? CUstreamAttrValue{} : found->second;
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) out->priority = stream->priority;
  if (attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY && found == attributes().end()) {
    std::memcpy(&out->syncPolicy, &kNeverSet, sizeof out->syncPolicy);
  }
  return CUDA_SUCCESS;
}

CUresult Set(CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue* value) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (!value || !IsKnown(attribute)) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
    stream->priority = value->priority;
  } else {
    attributes()[{stream->id, attribute}] = *value;
  }
  return CUDA_SUCCESS;
}

CUresult Copy(CUstream to_handle, CUstream from_handle) {
  const Lock lock(state().mutex);
  StreamPtr to;
  StreamPtr from;
  if (const CUresult error = FindStream(to_handle, to)) return error;
  if (const CUresult error = FindStream(from_handle, from)) return error;
  to->priority = from->priority;
  std::map<std::pair<Id, int>, CUstreamAttrValue> copied;
  for (const auto& [key, value] : attributes()) {
    if (key.first == from->id) copied[{to->id, key.second}] = value;
  }
  for (const auto& [key, value] : copied) attributes()[key] = value;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

STREAM_ENTRY(cuStreamGetAttribute, _ptsz,
             (CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue* out),
             (stream, attribute, out)) {
  return Get(stream, attribute, out);
}
STREAM_ENTRY(cuStreamSetAttribute, _ptsz,
             (CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue* value),
             (stream, attribute, value)) {
  return Set(stream, attribute, value);
}
STREAM_ENTRY(cuStreamCopyAttributes, _ptsz, (CUstream to, CUstream from), (to, from)) {
  return Copy(to, from);
}
