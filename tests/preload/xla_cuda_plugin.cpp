// Has the file name of JAX's plugin for CUDA, and nothing else: that it is loaded is all that
// counts.
extern "C" void this_is_no_plugin() {}
