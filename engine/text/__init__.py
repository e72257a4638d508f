"""Text: tokenizer, chat template, reasoning and tool-call parsing. Knows no model."""
