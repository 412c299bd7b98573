// A function of nothing but ops and memrefs is one program, in one bundle; each
// of its attentions has a schedule and an explanation of its own.

// RUN: rm -rf %t && mkdir %t
// RUN: flashcore-compile %s --emit=bundle --no-cubin --explain -o %t/twice.fcb 2>&1 \
// RUN:   | FileCheck %s --check-prefix=EXPLAIN
// EXPLAIN: attention twice.0 on sm_89: batch 1, heads 8, seqlen 512 x 512, head_dim 64
// EXPLAIN: attention twice.1 on sm_89: {{.+}}, causal
// RUN: FileCheck %s --check-prefix=PTX < %t/twice.fcb/kernels.ptx
// PTX: flashcore-launch: {{.+}}"ops":[{"attributes":{{.+}}"op":"attention","operands":
// PTX: .entry attention_f16_d64(
// PTX: .entry attention_f16_d64_causal(
// RUN: flashcore-run --info %t/twice.fcb | FileCheck %s --check-prefix=INFO
// INFO:      program of attention, attention
// INFO:      tensors
// INFO-NEXT:   q: f16
// INFO-NEXT:   o: f16
// INFO-NEXT: intermediates
// INFO-NEXT:   o_1: f16 (batch, heads_q, seqlen_q, head_dim)
// INFO-NEXT: kernels

// PTX of a program is one file; one of its ops can be had alone.
// RUN: flashcore-compile %s -o %t/twice.ptx
// RUN: FileCheck %s --check-prefix=PTX < %t/twice.ptx
// RUN: flashcore-compile %s --function=twice.1 | FileCheck %s --check-prefix=ONE
// ONE-NOT: "operands"
// ONE:     .entry attention_f16_d64_causal(
// ONE-NOT: .entry
// RUN: not flashcore-compile %s --function=twice.2 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: expects --function to be one of twice, but got 'twice.2'

// RUN: flashcore-run --device=emulator %t/twice.fcb | FileCheck %s --check-prefix=PASS
// PASS: PASS program of B1 H8/8 S512x512 D64 f16; B1 H8/8 S512x512 D64 f16 causal

// RUN: flashcore-compile %s --json=%t/report.json -o /dev/null
// RUN: FileCheck %s --check-prefix=JSON < %t/report.json
// JSON: "name": "twice.0"
// JSON: "name": "twice.1"

!t = memref<1x8x512x64xf16>

func.func @twice(%q: !t, %o: !t) {
  %between = memref.alloc() : !t
  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%between : !t)
  flashcore.attention ins(%between, %q, %q : !t, !t, !t) outs(%o : !t) causal(top_left)
  memref.dealloc %between : !t
  return
}
