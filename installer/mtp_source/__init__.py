"""Gets a draft head (MTP) out of the original checkpoint: its tensors only, by range."""
