"""What a person sees of conversations: the list, the transcript, the composer."""
