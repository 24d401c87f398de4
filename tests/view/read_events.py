#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads TensorBoard's event files without Lockstep's code: framing, checksums and protocol buffers are reimplemented from
their specifications. Prints a JSON object for each value, in the order in which TensorBoard reads the files.

usage: read_events.py FOLDER [--shown]

--shown: only the values that TensorBoard still shows: SessionLog START at a step voids earlier values from that step. A truncated
record at the end of a file ends it, as for TensorBoard; any other damage makes the program exit with code 1."""
import json
import pathlib
import struct
import sys

TABLE = []
for number in range(256):
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
    TABLE.append(number)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        if at + 12 > len(data):
            return
        length, crc = struct.unpack_from("<QI", data, at)
        assert crc == masked_crc(data[at:at + 8]), f"the checksum of the length at {at} is wrong"
        if at + 16 + length > len(data):
            return
        payload = data[at + 12:at + 12 + length]
        (crc,) = struct.unpack_from("<I", data, at + 12 + length)
        assert crc == masked_crc(payload), f"the checksum of the record at {at} is wrong"
        yield payload
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 128:
            return value, at


def fields(data):
    """Field number -> list of raw values: numbers for varints, bytes for everything else."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            assert at + size <= len(data), "a field ends behind its message"
            value, at = data[at:at + size], at + size
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = data[at:at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def double(raw):
    return struct.unpack("<d", raw)[0]


def doubles(raw):
    return [value[0] for value in struct.iter_unpack("<d", raw)]


def text(raw):
    return raw.decode("utf-8")


def hparam(raw):
    value = fields(raw)
    if 2 in value:
        return double(value[2][0])
    return text(value[3][0]) if 3 in value else bool(value[4][0])


def hparams(raw):
    data = fields(raw)
    if 3 in data:
        info = fields(data[3][0])
        entries = [fields(entry) for entry in info.get(1, [])]
        return {"start": {text(entry[1][0]): hparam(entry[2][0]) for entry in entries},
                "group": text(info.get(4, [b""])[0])}
    if 4 in data:
        return {"end": fields(data[4][0])[1][0]}
    experiment = fields(data[2][0])
    return {"columns": [text(fields(info)[1][0]) for info in experiment.get(4, [])],
            "metrics": [text(fields(fields(info)[1][0])[2][0]) for info in experiment.get(5, [])]}


def value_of(raw):
    value = fields(raw)
    found = {"tag": text(value[1][0])}
    if 2 in value:
        found["scalar"] = struct.unpack("<f", value[2][0])[0]
    if 4 in value:
        image = fields(value[4][0])
        found["image"] = {"height": image[1][0], "width": image[2][0], "head": image[4][0][:8].hex(),
                          "bytes": len(image[4][0])}
    if 5 in value:
        histogram = fields(value[5][0])
        names = ("min", "max", "count", "sum", "sum_squares")
        found["histogram"] = {name: double(histogram[i + 1][0]) for i, name in enumerate(names)}
        found["histogram"] |= {"limits": doubles(histogram[6][0]), "counts": doubles(histogram[7][0])}
    if 9 in value:
        plugin = fields(fields(value[9][0])[1][0])
        found["plugin"] = text(plugin[1][0])
        if found["plugin"] == "hparams":
            found |= hparams(plugin[2][0])
    if 8 in value:
        tensor = fields(value[8][0])
        assert tensor[1] == [7], "a text value is a tensor of strings"
        found["text"] = text(tensor[8][0])
    return found


def values(folder):
    for path in sorted(pathlib.Path(folder).glob("*tfevents*")):
        for i, record in enumerate(records(path.read_bytes())):
            event = fields(record)
            step = event.get(2, [0])[0]
            assert double(event[1][0]) > 1e9, "an event has a time"
            if i == 0:
                assert text(event[3][0]) == "brain.Event:2", "the first event states the version"
            if 7 in event and fields(event[7][0])[1][0] == 1:
                yield {"start_at": step}
            for summary in event.get(5, []):
                for raw in fields(summary).get(1, []):
                    yield {"step": step, **value_of(raw)}


def shown(all_values):
    kept = []
    for value in all_values:
        if "start_at" in value:
            kept = [old for old in kept if old["step"] < value["start_at"] or old.get("plugin")]
        else:
            kept.append(value)
    return kept


if __name__ == "__main__":
    try:
        found = list(values(sys.argv[1]))
    except AssertionError as error:
        sys.exit(str(error))
    for value in shown(found) if "--shown" in sys.argv[2:] else found:
        print(json.dumps(value))
