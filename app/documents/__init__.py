"""Turns files into text and text into chunks: detection, confined parsing, chunking, language detection."""
