"""Pictures that are pasted or dropped: what they are, by their first bytes and not by their names."""

from __future__ import annotations

from app.chat.refusal import AttachmentError, refusal

MAX_PICTURE_BYTES = 20 << 20

_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
)
# Brands of the container that HEIC and AVIF share with films.
_BRANDS = {
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"hevc": "image/heic",
    b"mif1": "image/heif",
    b"msf1": "image/heif",
    b"avif": "image/avif",
    b"avis": "image/avif",
}
_EXTENSIONS = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/bmp": ".bmp",
    "image/tiff": ".tif",
    "image/webp": ".webp",
    "image/heic": ".heic",
    "image/heif": ".heif",
    "image/avif": ".avif",
}


def picture_type(data: bytes) -> str | None:
    """The media type of a picture; None for anything else."""
    for beginning, media_type in _BEGINNINGS:
        if data.startswith(beginning):
            # Two letters are little; the size of the header follows them.
            if media_type == "image/bmp" and (len(data) < 18 or data[15:18] != b"\0\0\0"):
                continue
            return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12])
    return None


def check_picture(data: bytes, name: str, *, sees_pictures: bool) -> tuple[str, str]:
    """Name and media type of a picture that can be sent.

    Raises:
        AttachmentError: the model sees none, it is too large, or it is no picture.
    """
    if not sees_pictures:
        raise cannot_see(name)
    media_type = picture_type(data)
    if media_type is None:
        raise refusal(
            "attachment_no_picture",
            name,
            "This is no picture that can be read. JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC and AVIF can.",
        )
    if len(data) > MAX_PICTURE_BYTES:
        raise AttachmentError(
            f"The picture has {len(data) / (1 << 20):.0f} MB; at most {MAX_PICTURE_BYTES >> 20} MB "
            "can be attached. Make it smaller.",
            code="attachment_too_large",
            params={"name": name, "size_bytes": len(data), "limit_bytes": MAX_PICTURE_BYTES},
        )
    return name or f"picture{_EXTENSIONS[media_type]}", media_type


def cannot_see(name: str) -> AttachmentError:
    """The model has no eyes."""
    return refusal(
        "image_unsupported",
        name,
        "This model runs without its image encoder, so it cannot see pictures. Describe the picture "
        "in words, or copy its text.",
    )
