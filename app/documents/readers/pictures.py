"""Pictures of text in files that have other text, too: each is looked at in small, and then recognised."""

import time
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import PurePath

from app.documents.archive import DAMAGE, read_member
from app.documents.formats import IMAGE_SUFFIXES, ReaderMissing, name_image
from app.documents.ocr.access import Draw, Picture, find_recogniser
from app.documents.parsed import ParseLimits
from app.documents.patience import is_late, limited_to
from app.documents.readers.builder import TextBuilder
from app.documents.readers.text import clean_text, join_hyphenation
from app.errors import UnreadableDocument

LOOKED_AT = 120
"""Pixels of the longer side of a picture that is looked at."""
_MOST_PICTURES = 200
_PAPER = 0.4
"""Share of a picture of text that has the brightness of its paper; photographs have many, empty pictures only one."""
_EMPTY = 0.995
_LEAST_LETTERS = 10
"""Of the text of a picture; less is a logo."""
_STEPS = 16
_LEVELS = bytes(value * _STEPS // 256 for value in range(256))
"""Brightness in steps."""


class PictureReader:
    """Recognises the text of the pictures of one file, within its limits."""

    def __init__(self, limits: ParseLimits, clock: Callable[[], float] = time.process_time) -> None:
        self._limits, self._clock = limits, clock
        self._looked, self._spent = 0, 0.0

    def read(self, look: Callable[[], bytes], draw: Draw) -> Picture:
        """Recognise the picture that `draw` draws if it looks like text; `look` returns the brightness of each pixel
        of it in small. Raises RecognitionNeeded."""
        if not self._looks_like_text(look):
            return Picture()
        recogniser = find_recogniser()
        found = recogniser.recognise(draw) if recogniser else None
        if found is None:
            return Picture(complete=False)
        return Picture(found.text if sum(map(str.isalnum, found.text)) >= _LEAST_LETTERS else "", found.complete)

    def _looks_like_text(self, look: Callable[[], bytes]) -> bool:
        if self._looked >= _MOST_PICTURES or self._spent >= self._limits.picture_seconds or is_late():
            return False
        began = self._clock()
        with limited_to(self._limits.picture_seconds - self._spent):
            levels = look().translate(_LEVELS)
        self._looked += bool(levels)
        self._spent += self._clock() - began
        return _PAPER * len(levels) <= max(map(levels.count, range(_STEPS))) < _EMPTY * len(levels)


class PictureParts:
    """The pictures that are members of a ZIP container; each is read once."""

    def __init__(self, archive: zipfile.ZipFile, limits: ParseLimits) -> None:
        self._archive, self._limits = archive, limits
        self._reader = PictureReader(limits)
        self._read: set[str] = set()

    def read(self, name: str) -> Picture:
        """The text of a member. Raises RecognitionNeeded, and ReaderMissing if this process cannot load Pillow."""
        if name in self._read or PurePath(name.lower()).suffix not in IMAGE_SUFFIXES:
            return Picture()
        self._read.add(name)
        try:
            content = read_member(self._archive, name, self._limits) or b""
        except DAMAGE:
            return Picture()
        if name_image(content) is None:
            return Picture()
        try:
            images = import_module("app.documents.readers.images")
        except (ImportError, OSError) as error:
            raise ReaderMissing("png") from error
        try:
            return self._reader.read(
                lambda: images.look_at(content, self._limits), lambda: next(images.open_image(content, self._limits))()
            )
        except (MemoryError, UnreadableDocument):
            return Picture(complete=False)

    def write(self, builder: TextBuilder, name: str) -> None:
        """Write the text of a member."""
        add_recognised(builder, self.read(name))


def add_recognised(builder: TextBuilder, picture: Picture) -> None:
    """Append recognised text, and mark the place unless it is complete."""
    start = builder.add(join_hyphenation(clean_text(picture.text)))
    if start is not None:
        builder.mark_recognised(start, builder.length)
    if not picture.complete:
        builder.mark_unread()
