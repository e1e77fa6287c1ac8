"""What a PDF states about its structure: its outline, its tags, and the levels of its headings."""
