// cuLaunchKernel and its like.
#include "launch.h"

#include <cstring>

#include "behaviour.h"
#include "capture.h"
#include "contents.h"
#include "entry_point.h"
#include "kernel_arguments.h"
#include "modules.h"
#include "settings.h"
#include "work.h"

namespace standin {
namespace {

std::vector<std::byte> Bytes(const void* from, std::size_t count) {
  const auto* const start = static_cast<const std::byte*>(from);
  return {start, start + count};
}

bool CopyArguments(const Kernel& kernel, Arguments from, Launch& to) {
  const char* packed = nullptr;
  for (void** at = from.packed; at && *at != CU_LAUNCH_PARAM_END; at += 2) {
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER) packed = static_cast<const char*>(at[1]);
  }
  if (!from.each && !packed) return kernel.argument_bytes.empty();
  std::size_t offset = 0;
  for (std::size_t i = 0; i < kernel.argument_bytes.size(); ++i) {
    const std::size_t bytes = kernel.argument_bytes[i];
    offset = (offset + bytes - 1) / bytes * bytes;
    to.arguments.push_back(Bytes(from.each ? from.each[i] : packed + offset, bytes));
    offset += bytes;
  }
  return true;
}

// Whether what should be addresses of memory are. If not, the program's kernel is another one of
// the same name.
bool HasItsArguments(const Kernel& kernel, const Launch& launch) {
  for (std::size_t i = 0; i < kernel.pointers; ++i) {
    if (!FindAllocation(launch.argument<CUdeviceptr>(i))) return false;
  }
  return true;
}

}  // namespace

CUresult PrepareLaunch(const void* handle, Launch launch, unsigned shared_bytes,
                       Arguments arguments, KernelNode& out) {
  const Function* function = nullptr;
  if (const CUresult error = FindFunction(handle, function)) return error;
  const std::uint64_t block = std::uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  if (launch.threads() == 0 || block > function->needs.most_threads ||
      shared_bytes > MostDynamicShared(*function)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  out.function = reinterpret_cast<CUfunction>(const_cast<Function*>(function));
  out.kernel = function->kernel;
  out.shared_bytes = shared_bytes;
  if (out.kernel && !CopyArguments(*out.kernel, arguments, launch)) return CUDA_ERROR_INVALID_VALUE;
  if (out.kernel && !HasItsArguments(*out.kernel, launch)) out.kernel = nullptr;
  if (!out.kernel) launch.arguments = ArgumentsOf(*function, arguments);
  if (!out.kernel && !settings().keeps_data) out.addresses = AddressesIn(*function, arguments);
  out.launch = std::move(launch);
  return CUDA_SUCCESS;
}

void RunKernel(const KernelNode& node) {
  if (node.kernel) {
    node.kernel->run(node.launch);
  } else {
    EmptyBlocksOf(node.addresses);
  }
}

CUresult LaunchFunction(CUfunction handle, Launch launch, unsigned shared_bytes,
                        CUstream stream_handle, Arguments arguments) {
  const Lock lock(state().mutex);
  KernelNode node;
  StreamPtr stream;
  const CUresult prepared = PrepareLaunch(handle, std::move(launch), shared_bytes, arguments, node);
  if (prepared == CUDA_ERROR_INVALID_HANDLE) return prepared;
  if (const CUresult error = FindStream(stream_handle, stream)) return error;
  if (prepared != CUDA_SUCCESS) return prepared;
  if (stream->capture) {
    node.context = stream->context->handle;
    return AddNode(*stream, std::move(node));
  }
  if (!node.kernel && node.addresses.empty()) return Submit(*stream, nullptr);
  return Submit(*stream, [launched = std::move(node)] { RunKernel(launched); });
}

}  // namespace standin

using namespace standin;

STREAM_ENTRY(cuLaunchKernel, _ptsz,
             (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
              unsigned bz, unsigned shared_bytes, CUstream stream, void** arguments, void** extra),
             (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, arguments, extra)) {
  return LaunchFunction(function, {{gx, gy, gz}, {bx, by, bz}, {}}, shared_bytes, stream,
                        {arguments, extra});
}

STREAM_ENTRY(cuLaunchCooperativeKernel, _ptsz,
             (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
              unsigned bz, unsigned shared_bytes, CUstream stream, void** arguments),
             (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, arguments)) {
  return LaunchFunction(function, {{gx, gy, gz}, {bx, by, bz}, {}}, shared_bytes, stream,
                        {arguments, nullptr});
}

STREAM_ENTRY(cuLaunchKernelEx, _ptsz,
             (const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra),
             (config, function, arguments, extra)) {
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  return LaunchFunction(function,
                        {{config->gridDimX, config->gridDimY, config->gridDimZ},
                         {config->blockDimX, config->blockDimY, config->blockDimZ},
                         {}},
                        config->sharedMemBytes, config->hStream, {arguments, extra});
}
