"""The model: configuration, weights, forward pass, MTP head. No arithmetic of its own."""
