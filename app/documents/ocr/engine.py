"""Recognise text with the models of RapidOCR, in one thread: the confined process cannot start others."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import rapidocr
from rapidocr.ch_ppocr_rec import TextRecInput
from rapidocr.utils.process_img import apply_vertical_padding, get_rotate_crop_image

from app.documents.ocr.access import Image
from app.documents.ocr.layout import Found
from app.documents.ocr.recogniser import Recogniser
from app.documents.parsed import ParseLimits
from app.documents.runs import cut_runs

_MODELS = Path(rapidocr.__file__).parent / "models"
_DETECTION_PIXELS = 1_200_000
"""Lines are looked for on an image of this size, and read on the original."""
_LINE_HEIGHT = 48
_MOST_LENGTH = 120
"""Lines are at most this many times as long as high."""
_LEAST_LENGTH = 7
_BATCH_WIDTH = 6_000
"""Pixels of the lines that are read at once: memory grows with it."""
_TALL = 1.5
_VOTERS = 9
"""This many of the longest lines decide whether a page is upside down."""
_BEGINNING = 192
"""Pixels of a line that are enough to see its direction; the model would squeeze more."""
_SURE = 0.9


class RapidEngine:
    """The models for finding lines, their direction, and their text; in memory once it is created."""

    def __init__(self) -> None:
        cv2.setNumThreads(1)
        ocr = rapidocr.RapidOCR(
            params={
                "Global.log_level": "critical",
                "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                "Det.model_path": str(_MODELS / "PP-OCRv6_det_small.onnx"),
                "Det.limit_type": "max",
                "Cls.model_path": str(_MODELS / "ch_ppocr_mobile_v2.0_cls_mobile.onnx"),
                "Rec.model_path": str(_MODELS / "PP-OCRv6_rec_small.onnx"),
                "Rec.rec_batch_num": 1_000,
            }
        )
        # The models are loaded at their first use, and libraries load parts of themselves then.
        sample = np.full((64, 256, 3), 255, np.uint8)
        cv2.putText(sample, "Sample", (20, 45), cv2.FONT_HERSHEY_SIMPLEX, 1.2, (0, 0, 0), 2)
        ocr(sample)
        self._detector, self._classifier, self._reader = ocr.text_det, ocr.text_cls, ocr.text_rec
        self.read(sample, lambda: False)

    def read(self, image: Image, is_over: Callable[[], bool]) -> tuple[list[Found], bool]:
        """The lines on an image in no order, and whether they are all; pages on their side are turned."""
        image, _ = apply_vertical_padding(image, {}, 8, 30)
        boxes = self._detect(image)
        if _count_tall(boxes) > len(boxes) / 2:
            image = np.ascontiguousarray(np.rot90(image))
            boxes = self._detect(image)
        if self._is_upside_down(image, boxes):
            image = np.ascontiguousarray(np.rot90(image, 2))
            boxes = self._detect(image)
        found: list[Found] = []
        for batch in _divide(boxes):
            if is_over():
                return found, False
            read = self._reader(TextRecInput(img=[_cut(image, box) for box in batch], return_word_box=False))
            for box, text, score in zip(batch, read.txts, read.scores, strict=True):
                first, second, third, fourth = ((float(x), float(y)) for x, y in box)
                found.append(Found((first, second, third, fourth), text, float(score)))
        return found, True

    def _detect(self, image: Image) -> list[Any]:
        height, width = image.shape[:2]
        scale = min(1.0, math.sqrt(_DETECTION_PIXELS / (height * width)))
        self._detector.limit_side_len = max(32, int(max(height, width) * scale))
        boxes = self._detector(image).boxes
        return [] if boxes is None else [np.asarray(box, np.float32) for box in boxes]

    def _is_upside_down(self, image: Image, boxes: Sequence[Any]) -> bool:
        voters = sorted((box for box in boxes if _length(box) >= 3), key=_length)[-_VOTERS:]
        if not voters:
            return False
        votes = self._classifier([_cut(image, box)[:, :_BEGINNING] for box in voters]).cls_res
        turned = [label == "180" and score > _SURE for label, score in votes]
        return turned.count(True) > len(voters) / 2


def _divide(boxes: Sequence[Any]) -> Iterator[list[Any]]:
    """Lines of similar length together: each is as long as the longest of its batch."""

    def is_full(batch: list[Any], box: Any) -> bool:
        width = _LINE_HEIGHT * max(_LEAST_LENGTH, min(_length(box), _MOST_LENGTH))
        return (len(batch) + 1) * width > _BATCH_WIDTH

    return cut_runs(sorted(boxes, key=_length), is_full)


def _cut(image: Image, box: Any) -> Image:
    line = get_rotate_crop_image(image, box.copy())
    height, width = line.shape[:2]
    wanted = max(1, min(math.ceil(_LINE_HEIGHT * width / height), _LINE_HEIGHT * _MOST_LENGTH))
    return cv2.resize(line, (wanted, _LINE_HEIGHT))


def _count_tall(boxes: Sequence[Any]) -> int:
    return sum(_sides(box)[1] >= _TALL * _sides(box)[0] for box in boxes)


def _length(box: Any) -> float:
    width, height = _sides(box)
    longer, shorter = (height, width) if height >= _TALL * width else (width, height)
    return longer / max(1.0, shorter)


def _sides(box: Any) -> tuple[float, float]:
    return float(np.linalg.norm(box[0] - box[1])), float(np.linalg.norm(box[0] - box[3]))


def load_recogniser(limits: ParseLimits) -> Recogniser:
    """A recogniser that opens no file any more; takes a second or two."""
    return Recogniser(RapidEngine(), limits)
