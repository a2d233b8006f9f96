// A library that was linked with a runtime of its own.
extern "C" int cudaMalloc(void** address, unsigned long bytes);
extern "C" int cudaFree(void* address);
extern "C" int cudaGetLastError();

extern "C" __attribute__((visibility("default"))) int plugin_allocate(void** address,
                                                                      unsigned long bytes) {
  volatile int result = cudaMalloc(address, bytes);  // no tail call: the caller is this library
  return result;
}
extern "C" __attribute__((visibility("default"))) int plugin_last_error() {
  return cudaGetLastError();
}
