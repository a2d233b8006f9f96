// The library that a tool wants in the process: CUDA_INJECTION64_PATH.
#pragma once

namespace standin {

// In the first cuInit that succeeds; those of other threads wait for it. The library may call the
// driver, cuInit included.
void LoadInjection();

}  // namespace standin
