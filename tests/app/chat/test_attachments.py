"""Files become text, whatever their encoding; what cannot is refused with a sentence."""

import io
import zlib

import pypdf
import pytest

from app.chat.attachments import MAX_TEXT_BYTES, read_file
from app.chat.draft_files import COUNTED_AT_ONCE, parts_of
from app.chat.pictures import check_picture, picture_type
from app.chat.refusal import AttachmentError


def write(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8", "Grüße, 你好 🎉\n"),
        ("utf-8-sig", "Grüße\n"),
        ("utf-16", "Grüße, 你好\n"),
        ("utf-16-le", "plain words in wide letters\n" * 4),
        ("utf-16-be", "plain words in wide letters\n" * 4),
        ("utf-32", "Grüße, 你好\n"),
        ("gb18030", "我们讨论量子计算机的问题以及它们的应用和未来的发展方向。\n" * 5),
        ("shift_jis", "これは日本語のテキストです。文字コードを調べます。\n" * 5),
        ("cp1252", "Schöne Grüße aus Köln, für alle Mädchen und Bücher.\n" * 5),
        ("koi8-r", "Это русский текст, который записан в старой кодировке.\n" * 5),
    ],
)  # fmt: skip
def test_the_encoding_of_a_text_is_found(tmp_path, encoding, text):
    read = read_file(write(tmp_path, "notes 測試.txt", text.encode(encoding)))
    assert read.text == text
    assert read.media_type == "text/plain"


def test_code_keeps_its_kind_and_line_ends_are_plain(tmp_path):
    read = read_file(write(tmp_path, "a.py", b"x = 1\r\ny = 2\rz = 3\n"))
    assert read.text == "x = 1\ny = 2\nz = 3\n"
    assert "python" in read.media_type
    assert read.size_bytes == 19


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("empty.txt", b"", "attachment_empty"),
        ("blank.txt", b" \n\t\n", "attachment_empty"),
        ("program.exe", b"MZ\x90\x00\x03\x00\x00\x00" + bytes(range(256)) * 8, "attachment_no_text"),
        ("a.zip", b"PK\x03\x04" + bytes(range(256)) * 8, "attachment_no_text"),
        ("letter.docx", b"PK\x03\x04" + bytes(100), "attachment_office"),
        ("broken.pdf", b"%PDF-1.7\n" + bytes(range(256)) * 10, "pdf_damaged"),
        ("cut.pdf", b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog", "pdf_damaged"),
        ("big.txt", b"x" * (MAX_TEXT_BYTES + 1), "attachment_too_large"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_by_name(tmp_path, name, data, code):
    with pytest.raises(AttachmentError) as caught:
        read_file(write(tmp_path, name, data))
    assert caught.value.code == code
    assert name in caught.value.message
    assert caught.value.message.endswith(".")


def test_folders_and_missing_files_are_refused(tmp_path):
    with pytest.raises(AttachmentError, match="folder"):
        read_file(tmp_path)
    with pytest.raises(AttachmentError, match=r"gone\.txt cannot be read"):
        read_file(tmp_path / "gone.txt")


def make_pdf(*pages, password=None):
    """A PDF with these texts; None is a page without any."""
    writer = pypdf.PdfWriter()
    for text in pages:
        page = writer.add_blank_page(300, 300)
        if text is None:
            continue
        font = pypdf.generic.DictionaryObject(
            {
                pypdf.generic.NameObject("/Type"): pypdf.generic.NameObject("/Font"),
                pypdf.generic.NameObject("/Subtype"): pypdf.generic.NameObject("/Type1"),
                pypdf.generic.NameObject("/BaseFont"): pypdf.generic.NameObject("/Helvetica"),
            }
        )
        fonts = pypdf.generic.DictionaryObject({pypdf.generic.NameObject("/F1"): font})
        page[pypdf.generic.NameObject("/Resources")] = pypdf.generic.DictionaryObject(
            {pypdf.generic.NameObject("/Font"): fonts}
        )
        stream = pypdf.generic.StreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[pypdf.generic.NameObject("/Contents")] = writer._add_object(stream)
    if password is not None:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_the_text_of_a_pdf_is_read_page_by_page(tmp_path):
    read = read_file(write(tmp_path, "paper.pdf", make_pdf("First page", "Second page")))
    assert read.text == "First page\n\nSecond page"
    assert (read.media_type, read.note) == ("application/pdf", "")


def test_pages_that_are_pictures_are_said(tmp_path):
    read = read_file(write(tmp_path, "scan.pdf", make_pdf("A cover", None, None)))
    assert read.note == "pdf_pages_without_text"
    with pytest.raises(AttachmentError) as caught:
        read_file(write(tmp_path, "all.pdf", make_pdf(None, None)))
    assert caught.value.code == "pdf_without_text"


def test_a_protected_pdf_is_refused(tmp_path):
    with pytest.raises(AttachmentError, match="password") as caught:
        read_file(write(tmp_path, "secret.pdf", make_pdf("Hidden", password="sesame")))
    assert caught.value.code == "pdf_encrypted"


def test_reading_can_be_given_up(tmp_path):
    class GivenUpError(Exception):
        pass

    def check():
        raise GivenUpError

    with pytest.raises(GivenUpError):
        read_file(write(tmp_path, "paper.pdf", make_pdf("x")), check)


def test_a_text_is_counted_in_parts_that_lose_nothing():
    text = ("line of a text\n" * 20_000) + "x" * 250_000 + "\n\nend"
    parts = list(parts_of(text))
    assert "".join(parts) == text
    assert max(len(part) for part in parts) <= COUNTED_AT_ONCE
    assert parts[0].endswith("\n")
    assert list(parts_of("")) == []


PNG = b"\x89PNG\r\n\x1a\n" + zlib.compress(b"not really")


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0abc", "image/jpeg"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "image/heic"),
        (b"\0\0\0\x18ftypavif\0\0\0\0", "image/avif"),
        (b"\0\0\0\x18ftypisom\0\0\0\0", None),
        (b"BMW is a car, and this is a text", None),
        (b"", None),
    ],
)
def test_pictures_are_known_by_their_bytes(data, media_type):
    assert picture_type(data) == media_type


def test_a_picture_needs_a_model_that_sees(tmp_path):
    with pytest.raises(AttachmentError) as caught:
        check_picture(PNG, "", sees_pictures=False)
    assert caught.value.code == "image_unsupported"
    assert check_picture(PNG, "", sees_pictures=True) == ("picture.png", "image/png")
    with pytest.raises(AttachmentError, match="no picture"):
        check_picture(b"text", "", sees_pictures=True)
    assert read_file(write(tmp_path, "photo.jpg", PNG)).data == PNG
