"""Files into text, text into chunks: detection, confined parsing, chunking and language detection."""
