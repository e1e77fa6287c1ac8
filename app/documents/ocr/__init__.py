"""Text recognition (OCR) of scanned pages and images, with the extra `ocr`."""
