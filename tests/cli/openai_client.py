"""Uses a server of tiny-wan by the package openai. usage: openai_client.py URL, or openai_client.py guarded URL KEY for a
server with a key and a queue of one."""

import base64
import struct
import sys
import threading
import time
import urllib.request

import openai

SMALL = {"size": "32x32", "extra_body": {"steps": 2}}
BALL = {"model": "tiny-wan", "prompt": "a red ball"}


def client_of(url, key="none"):
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=300)


def size_of(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n", png[:8]
    return "{}x{}".format(*struct.unpack(">II", png[16:24]))


def picture(item):
    return base64.b64decode(item.b64_json, validate=True)


def wait_for(condition):
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def refused(error, param, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except error as e:
        assert type(e) is error and e.param == param, (type(e), e.param, e.body)
        return e
    raise AssertionError(f"not refused: {kwargs}")


def images(client):
    assert "tiny-wan" in [m.id for m in client.models.list()]
    answer = client.images.generate(**BALL, **SMALL)
    assert len(answer.data) == 1 and answer.size == "32x32" and answer.output_format == "png", answer
    assert size_of(picture(answer.data[0])) == "32x32" and answer.created > 1e9

    answer = client.images.generate(**BALL, **SMALL, n=2, response_format="url", quality="high", user="me")
    pair = [urllib.request.urlopen(item.url).read() for item in answer.data]
    assert [size_of(p) for p in pair] == ["32x32"] * 2 and pair[0] != pair[1]

    answer = client.images.generate(**BALL, size="auto", extra_body={"steps": 1}, output_format="jpeg")
    assert answer.output_format == "jpeg" and picture(answer.data[0])[:2] == b"\xff\xd8", answer.output_format

    long = {"size": "32x32", "extra_body": {"steps": 200, "cache": "off"}}  # so that there is time for a preview
    events = list(client.images.generate(**BALL, **long, n=2, stream=True, partial_images=1))
    assert [type(e) for e in events[-2:]] == [openai.types.ImageGenCompletedEvent] * 2, [e.type for e in events]
    assert all(isinstance(e, openai.types.ImageGenPartialImageEvent) for e in events[:-2]) and len(events) == 3
    assert events[0].partial_image_index == 0 and picture(events[0])[:4] == b"\x89PNG"
    assert [size_of(picture(e)) for e in events[-2:]] == ["32x32"] * 2 and events[-1].size == "32x32"
    assert events[-1].usage.total_tokens == 0


def errors(client):
    e = refused(openai.BadRequestError, "size", client.images.generate, **BALL, size="large")
    assert e.type == "invalid_request_error" and "size" in e.message, e.body
    refused(openai.BadRequestError, "n", client.images.generate, **BALL, n=11)
    refused(openai.BadRequestError, "promt", client.images.generate, **BALL, extra_body={"promt": "x"})
    refused(openai.BadRequestError, "seconds", client.videos.create, prompt="x", seconds="many")
    e = refused(openai.BadRequestError, "lora", client.videos.create, prompt="x", extra_body={"lora": ["a", "b:1"]})
    assert "no member" not in e.message, e.message
    refused(openai.NotFoundError, None, client.videos.retrieve, "0" * 32)


def videos(client):
    first = client.images.generate(**BALL, **SMALL)
    clips = [
        client.videos.create_and_poll(**BALL, **SMALL, seconds="0.5", poll_interval_ms=100, **more)
        for more in ({}, {"input_reference": ("first.png", picture(first.data[0]), "image/png")})
    ]
    for video in clips:
        assert (video.status, video.progress, video.size, video.error) == ("completed", 100, "32x32", None), video
        assert video.model == "tiny-wan" and video.prompt == "a red ball" and float(video.seconds) > 0, video
        assert video.completed_at >= video.created_at and client.videos.retrieve(video.id) == video
    listed = client.videos.list(limit=2)
    assert [v.id for v in listed.data] == [v.id for v in reversed(clips)] and listed.has_more
    data = [client.videos.download_content(v.id).read() for v in clips]
    assert data[0] != data[1] and all(d[4:8] == b"ftyp" or d[:9] == b"YUV4MPEG2" for d in data)
    refused(openai.BadRequestError, "variant", client.videos.download_content, clips[0].id, variant="thumbnail")
    gone = client.videos.delete(clips[0].id)
    assert gone.deleted and gone.id == clips[0].id and gone.object == "video.deleted", gone
    refused(openai.NotFoundError, None, client.videos.download_content, clips[0].id)


def edits(client):
    first = ("first.png", picture(client.images.generate(**BALL, **SMALL).data[0]), "image/png")
    asked = {**BALL, "size": "auto", "extra_body": {"steps": 2}}
    answer = client.images.edit(image=first, **asked, n=2, input_fidelity="low")
    assert [size_of(picture(item)) for item in answer.data] == [answer.size] * 2, answer
    *_, last = client.images.edit(image=[first], **asked, stream=True)
    assert isinstance(last, openai.types.ImageEditCompletedEvent) and size_of(picture(last)) == answer.size
    refused(openai.BadRequestError, "mask", client.images.edit, image=first, mask=first, **asked)


def guarded(url, key):
    e = refused(openai.AuthenticationError, None, client_of(url, f"{key}x").models.list)
    assert e.code == "invalid_api_key", e.body
    client = client_of(url, key)
    asked = {**BALL, "size": "64x64", "seconds": "0.1", "extra_body": {"steps": 1000, "cache": "off"}}
    works = client.videos.create(**asked)
    wait_for(lambda: client.videos.retrieve(works.id).status == "in_progress")
    waits = client.videos.create(**asked)
    assert waits.status == "queued" and waits.seconds == "0.1" and waits.size == "64x64", waits
    e = refused(openai.RateLimitError, None, client.videos.create, **asked)  # --max-queue 1
    assert e.code == "rate_limit_exceeded", e.body
    for video in (waits, works):
        assert client.videos.delete(video.id).deleted
    wait_for(lambda: not client.videos.list().data)

    # A client that sends again what failed does not send again what somebody removed.
    del asked["seconds"]
    for stream in (False, True):
        asked["stream"] = stream
        caught = []
        thread = threading.Thread(target=ask, args=(client.with_options(max_retries=2), asked, caught))
        thread.start()
        wait_for(lambda: [v.status for v in client.videos.list().data] == ["in_progress"])
        client.videos.delete(client.videos.list().data[0].id)
        thread.join()
        assert isinstance(caught[0], openai.APIError) and "cancelled" in caught[0].message, caught
        assert not client.videos.list().data


def ask(client, asked, caught):
    try:
        list(client.images.generate(**asked))
    except openai.APIError as e:
        caught.append(e)


if sys.argv[1] == "guarded":
    guarded(*sys.argv[2:])
else:
    for part in (images, edits, errors, videos):
        part(client_of(sys.argv[1]))
