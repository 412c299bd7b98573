"""Gives the four splits of a kernel 250 keys each, whatever flashcore-tile
said, so that they begin and end within key tiles."""
import re
import sys

text = sys.stdin.read()
ids = re.search(r"(%\w+):4 = affine\.delinearize_index.*\n", text)
keys = f"""%moved = arith.constant 250 : index
%moved_begin = arith.muli {ids.group(1)}#3, %moved : index
%moved_end = arith.addi %moved_begin, %moved : index
"""
text = text[:ids.end()] + keys + text[ids.end():]
place = re.search(r" key (\S+) to (\S+) of ", text)
print(text[:place.start()] + " key %moved_begin to %moved_end of " + text[place.end():])
