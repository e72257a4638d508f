"""The GGUF file format: reading, writing, block formats. Knows nothing of models."""
