"""The operations that a model is made of: the contract and its implementations."""
