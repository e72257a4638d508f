"""C++ and CUDA sources, their build, and the prebuilt host libraries."""
