// CUDA arrays (cuArrayCreate and its like). The driver makes them. Their bytes are counted and
// limited. A request that fails for lack of memory is tried again when memory can be given back for
// it (DriverRequests).
#pragma once

#include <cuda.h>

#include "shim/device/context_end.h"
#include "shim/limit/ledger.h"

namespace cubfc {

class DriverRequests;

// Thread-safe.
class Arrays : private ContextListener {
 public:
  Arrays(const DriverFunctions& driver, Contexts& contexts, DriverRequests& requests);

  CUresult create(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* shape);
  CUresult create_3d(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape);
  CUresult create_mipmapped(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape,
                            unsigned levels);
  CUresult destroy(CUarray array);
  CUresult destroy_mipmapped(CUmipmappedArray array);

 private:
  void context_ended(std::uint64_t id) override { ledger_.forget_context(id); }
  template <typename Array, typename Create>
  CUresult create(Array* array, std::uint64_t bytes, const char* function, Create create);
  template <typename Array>
  CUresult destroy(CUresult (*function)(Array), Array array);

  const DriverFunctions& driver_;
  Contexts& contexts_;
  DriverRequests& requests_;
  Ledger<const void*> ledger_;
};

// The bytes of an array, computed from its shape and without the driver's padding: the driver tells
// the size of an array only when the array is made.
std::uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels);

}  // namespace cubfc
