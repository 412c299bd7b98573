"""Files of .npy, without NumPy."""
import struct


def write_npy(path, shape, code, values):
    descr = {"e": "<f2", "f": "<f4"}[code]
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                     + struct.pack(f"<{len(values)}{code}", *values))


def read_npy(path):
    """The bytes of the elements."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<H", data, 8)
    return data[10 + length:]
