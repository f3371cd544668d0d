"""What the state of a chat keeps of pictures, sounds and files."""

import base64
import hashlib
import time

import pytest

from decisions.chats.media import estimate_media_tokens, without_media

CONTENT = b"\x89PNG...."
TEXT = base64.b64encode(CONTENT).decode()
NAMED = {"sha256": hashlib.sha256(CONTENT).hexdigest(), "bytes": len(CONTENT)}
LONG = bytes(range(256))
LONG_TEXT = base64.b64encode(LONG).decode()
LONG_NAMED = {"sha256": hashlib.sha256(LONG).hexdigest(), "bytes": len(LONG)}
PARTS = [
    (
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{TEXT}"}},
        {"type": "image_url", "image_url": NAMED | {"media_type": "image/png"}},
    ),
    (
        {"type": "image_url", "image_url": f"data:image/jpeg;base64,{TEXT}"},
        {"type": "image_url", "image_url": NAMED | {"media_type": "image/jpeg"}},
    ),
    (
        {"type": "input_audio", "input_audio": {"data": TEXT, "format": "wav"}},
        {"type": "input_audio", "input_audio": NAMED | {"format": "wav"}},
    ),
    (
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{TEXT}"}},
        {"type": "file", "file": NAMED | {"filename": "a.pdf", "media_type": "application/pdf"}},
    ),
    (
        {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{TEXT}", "fps": 2}},
        {"type": "video_url", "video_url": NAMED | {"media_type": "video/mp4", "fps": 2}},
    ),
    (
        {"type": "audio_url", "audio_url": f"data:audio/ogg;codecs=opus;base64,{TEXT}"},
        {"type": "audio_url", "audio_url": NAMED | {"media_type": "audio/ogg"}},
    ),
    (
        {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{TEXT}"},
        {"type": "input_file", "filename": "a.pdf", "file_data": NAMED | {"media_type": "application/pdf"}},
    ),
    (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": LONG_TEXT}},
        {"type": "image", "source": LONG_NAMED | {"type": "base64", "media_type": "image/png"}},
    ),
    (
        {"type": "media", "inline_data": {"mime_type": "image/png", "data": LONG_TEXT}},
        {"type": "media", "inline_data": LONG_NAMED | {"mime_type": "image/png"}},
    ),
    (
        {"type": "video", "video": [f"data:image/png;base64,{TEXT}", "https://example.org/2.png"]},
        {"type": "video", "video": [NAMED | {"media_type": "image/png"}, "https://example.org/2.png"]},
    ),
    (
        {
            "type": "tool_result",
            "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{TEXT}"}}],
        },
        {"type": "tool_result", "content": [{"type": "image_url", "image_url": NAMED | {"media_type": "image/png"}}]},
    ),
]


def test_sounds_and_pictures_of_an_answer_are_named_as_well():
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{TEXT}"}}
    message = {"role": "assistant", "content": None, "audio": {"id": "a", "data": TEXT}, "images": [shown]}
    kept = {"audio": NAMED | {"id": "a"}, "images": [shown | {"image_url": NAMED | {"media_type": "image/png"}}]}
    assert without_media([message]) == [message | kept]


def test_each_is_named_by_what_it_was():
    for given, kept in PARTS:
        message = {"role": "user", "content": [{"type": "text", "text": "this"}, given]}
        assert without_media([message]) == [message | {"content": [{"type": "text", "text": "this"}, kept]}]


def test_what_is_no_base64_is_named_by_its_text():
    [message] = without_media([{"content": [{"type": "image_url", "image_url": {"url": "data:,%41"}}]}])
    assert message["content"][0]["image_url"] == {"sha256": hashlib.sha256(b"%41").hexdigest(), "bytes": 3}


def test_everything_else_stays():
    link = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    odd = ["x", 3, None, {"type": ["file"]}, {"type": "file", "file": {"file_id": "f"}}, {"type": "image_url"}]
    odd += [{"type": "record", "record": {"data": "a1b2", "title": "data: of May, June", "url": "https://a.b"}}]
    odd += [{"type": "tool_use", "input": {"data": "words " * 100}}, {"type": "text", "text": "data:a/b;base64,AAAA"}]
    messages = [{"role": "user", "content": "data:image/png;base64,AAAA"}, {"content": [link, *odd]}, {}, "x"]
    assert without_media(messages) == messages
    assert without_media(messages)[1] is messages[1]


def test_megabytes_that_only_begin_as_a_data_url_cost_no_more_than_others():
    """The expression holds the interpreter, and all other chats of its process wait meanwhile."""
    messages = [{"content": [{"type": "image_url", "image_url": {"url": "data:a/" + "a" * 8_000_000}}]}]
    began = time.process_time()
    assert without_media(messages)[0] is messages[0]
    assert time.process_time() - began < 1


def data_url(kind, size):
    return f"data:{kind};base64,{base64.b64encode(bytes(size)).decode()}"


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        ({"type": "text", "text": "Take the train."}, 0),
        ({"type": "image_url", "image_url": {"url": data_url("image/png", 9000)}}, 2500),
        ({"type": "image_url", "image_url": {"url": "https://example.org/2.png"}}, 2500),
        ({"type": "image", "source": {"type": "base64", "data": base64.b64encode(bytes(900)).decode()}}, 2500),
        ({"type": "tool_result", "content": [{"type": "image_url", "image_url": data_url("image/png", 9)}] * 3}, 7500),
        ({"type": "file", "file": {"filename": "a.pdf", "file_data": data_url("application/pdf", 10_001)}}, 2501),
        ({"type": "file", "file": {"file_id": "file-7"}}, 2500),
        ({"type": "input_audio", "input_audio": {"data": base64.b64encode(bytes(9000)).decode()}}, 90),
        ({"type": "text", "text": "x", "sha256": 7, "bytes": "many"}, 0),
    ],
)
def test_what_is_no_text_counts_tokens(part, tokens):
    messages = without_media([{"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}])
    assert estimate_media_tokens(messages, picture=2500) == tokens
    assert estimate_media_tokens([*messages, {"role": "user", "content": "And now?"}, *messages], picture=2500) == (
        2 * tokens
    )
