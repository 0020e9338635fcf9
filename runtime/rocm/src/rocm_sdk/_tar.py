"""Where the files of a tar archive lie; for archives of so many small files that tarfile takes too long."""

BLOCK = 512


def files(data):
    """(name, offset, size, mode) of each regular file in an archive (ustar, PAX or GNU), in its order.

    `data` is a buffer with the whole archive. Other members are left out. `ValueError`: it is damaged, or
    uses what no devel archive has. Contents are not looked at.
    """
    position, size = 0, len(data)
    name, records = None, {}
    while True:
        header = bytes(data[position : position + BLOCK])
        if len(header) < BLOCK:
            raise ValueError("it ends early")
        if not header.rstrip(b"\0"):
            return
        kind, length = header[156:157], _number(header[124:136])
        if int(records.get("size", length)) != length:
            length = int(records["size"])
        start = position + BLOCK
        position = start + -(-length // BLOCK) * BLOCK
        if length < 0 or start + length > size:
            raise ValueError("it ends early")
        if kind == b"x":
            records = dict(_records(bytes(data[start : start + length])))
        elif kind == b"L":
            name = _text(bytes(data[start : start + length]))
        elif kind == b"S":
            raise ValueError("it has a sparse file")
        elif kind != b"g":
            if kind in b"0\0":
                yield records.get("path") or name or _name(header), start, length, _number(header[100:108])
            name, records = None, {}


def _name(header):
    name, prefix = _text(header[:100]), _text(header[345:500])
    return prefix + "/" + name if prefix and header[257:262] == b"ustar" else name


def _text(field):
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _number(field):
    if field[0] & 0x80:  # GNU, for what does not fit in octal digits
        return int.from_bytes(field[1:], "big")
    return int(field.rstrip(b"\0 ") or b"0", 8)


def _records(data):
    """(key, value) of a PAX header: `<length> <key>=<value>` lines, of which the length counts all."""
    while data:
        length = int(data[: data.index(b" ")])
        if not 0 < length <= len(data):
            raise ValueError("a PAX header is cut off")
        key, _, value = data[data.index(b" ") + 1 : length - 1].partition(b"=")
        yield key.decode("utf-8"), value.decode("utf-8", "surrogateescape")
        data = data[length:]
