// minifmt (miniature): which accelerator platform this library was prepared for.
//
// The macro below has the spelling of HIP before 2019, as some of PyTorch's real third-party
// projects still had when ROCm support was written. tools/amd_build/build_amd.py of the miniature
// replaces it inside the submodule; without that step a ROCm build reports the platform "none".
#pragma once

#if defined(__HIP_PLATFORM_HCC__)
#define MINIFMT_PLATFORM "amd"
#else
#define MINIFMT_PLATFORM "none"
#endif
