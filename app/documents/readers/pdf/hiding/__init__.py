"""Text of a PDF that a person does not see: by its style, its place, what is drawn over it, or a clip path."""
