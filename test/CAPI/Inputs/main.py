"""Calls flashcoreMain of the library that the first argument names with the others."""
import ctypes
import sys

library, *words = sys.argv[1:]
arguments = (ctypes.c_char_p * (len(words) + 1))(*[word.encode() for word in words], None)
sys.exit(ctypes.CDLL(library).flashcoreMain(len(words), arguments))
