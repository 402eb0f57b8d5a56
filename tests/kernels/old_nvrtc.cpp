// An NVRTC of CUDA 12.4, as far as it is asked before its version is known: for the test of what is said of one.
extern "C" {
int nvrtcVersion(int* major, int* minor) {
  *major = 12, *minor = 4;
  return 0;
}
// Found, never called.
void nvrtcGetErrorString() {}
void nvrtcCreateProgram() {}
void nvrtcDestroyProgram() {}
void nvrtcCompileProgram() {}
void nvrtcGetProgramLogSize() {}
void nvrtcGetProgramLog() {}
void nvrtcGetCUBINSize() {}
void nvrtcGetCUBIN() {}
}
