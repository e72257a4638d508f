"""Drafters: what may come next, guessed cheaply; one pass over the guesses verifies them."""
