// Compiles PTX and links images, as the driver does, with NVIDIA's libnvJitLink if STANDIN_JIT
// names it. Knows no state of the driver. Thread-safe.
#pragma once

#include <cuda.h>

#include <string>
#include <string_view>

namespace standin {

// Of the options of a load or a link, those that change or tell something here.
struct JitOptions {
  unsigned most_registers = 0;  // of a thread; 0: as many as the compiler likes

  static JitOptions Of(unsigned count, const CUjit_option* options, void* const* values);
};

// Writes the compiler's logs to the buffers that a load or a link was given with their sizes: what
// it says of errors, and nothing else. cuda.h: a size becomes what was written there.
void WriteJitLogs(unsigned count, const CUjit_option* options, void** values,
                  const std::string& errors);

// Whether there is a compiler.
bool CanCompile();

// One image being put together. For one thread at a time.
class JitLink {
 public:
  // Precondition: CanCompile().
  explicit JitLink(const JitOptions& options);
  ~JitLink();
  JitLink(const JitLink&) = delete;
  JitLink& operator=(const JitLink&) = delete;

  // PTX is compiled when it is added. CUDA_ERROR_INVALID_PTX, or
  // CUDA_ERROR_UNSUPPORTED_PTX_VERSION where it is newer than the compiler.
  CUresult Add(CUjitInputType type, std::string_view bytes, const std::string& name);
  CUresult Complete(std::string& cubin);
  // What the compiler says of errors.
  std::string Log() const;

 private:
  CUresult Failure() const;

  struct nvJitLink* handle_ = nullptr;
};

}  // namespace standin
