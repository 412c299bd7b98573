//===- FlashCoreProgramOps.td - Programs of kernels --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What flashcore-decompose puts into the `program` region of an attention and
// flashcore-tile makes kernels and launches of.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCOREPROGRAMOPS_TD
#define FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCOREPROGRAMOPS_TD

include "flashcore/Dialect/FlashCore/IR/FlashCoreDialect.td"
include "flashcore/Dialect/FlashCore/IR/FlashCoreInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class FlashCore_ProgramOp<string mnemonic, list<Trait> traits = []>
    : Op<FlashCore_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
}

def FlashCore_WorkspaceOp : FlashCore_ProgramOp<"workspace"> {
  let summary = "What one kernel of a program leaves for another";
  let description = [{
    Memory of a call that is no operand's. The values of a program lie in one
    workspace, in the order in which they are made. What they hold:

        turned_query       the rows of query, turned (`rotary`), of their columns
                           filled up to whole tiles
        lse_rest           what rounding LSE to f32 left, of rows filled up to 16
                           bytes
        partial_outputs    O of each part of the keys in f32, (parts, batch,
                           heads_q, seqlen_q, columns of tiles)
        partial_lses       LSE of each part
        partial_lse_rests  what rounding those left
        scores             masked scores in f32, keys filled up to whole tiles
        probabilities      P of the same shape, of query's element type

    Sizes that follow from those of the operands, as the number of parts, are
    dynamic in the type where those are.

    Constraints:

      P1  a program is of kernels and `flashcore.workspace`, or of a
          `flashcore.few_queries` and an `scf.if` of it, with those in both
          branches
      P2  what is made in a block is used by kernels of that block alone, and
          once at most; the first of them writes it, and no other does
      P3  a kernel has what its description says, each once

    ```mlir
    %parts = flashcore.workspace partial_lses : memref<4x1x8x?xf32>
    ```
  }];
  let arguments = (ins FlashCore_WorkspaceRole:$role);
  let results = (outs Res<AnyMemRef, "", [MemAlloc]>:$memref);
  let assemblyFormat = "$role attr-dict `:` type($memref)";
}

def FlashCore_FewQueriesOp : FlashCore_ProgramOp<"few_queries", [Pure]> {
  let summary = "Whether a call has few queries";
  let description = [{
    Whether a sequence has at most `most` query rows: of those that lie back to
    back the mean, rounded up. A program that asks has an `scf.if` of the answer,
    with kernels in both branches.

    ```mlir
    %is_few = flashcore.few_queries at_most(16)
    ```
  }];
  let arguments = (ins I64Attr:$most);
  let results = (outs I1:$is_few);
  let assemblyFormat = "`at_most` `(` $most `)` attr-dict";
}

// A kernel. Operands, attributes and regions of the attention are those of its
// kernels, too: the op has the workspace alone. A kernel runs once what is in
// front of it is done.
class FlashCore_KernelOp<string mnemonic, string text>
    : FlashCore_ProgramOp<mnemonic, [
        AttrSizedOperandSegments, FlashCore_ProgramKernelInterface,
        DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "A kernel: " # text;
  let arguments = (ins Variadic<AnyMemRef>:$reads, Variadic<AnyMemRef>:$writes);
  let assemblyFormat = [{
    (`reads` `(` $reads^ `:` type($reads) `)`)?
    (`writes` `(` $writes^ `:` type($writes) `)`)? attr-dict
  }];
  let extraClassDefinition = [{
    void $cppClass::getEffects(::llvm::SmallVectorImpl<
        ::mlir::MemoryEffects::EffectInstance> &effects) {
      ::mlir::flashcore::getEffectsOfKernel(*this, effects);
    }
  }];
}

def FlashCore_AppendKernelOp
    : FlashCore_KernelOp<"append_kernel", "appends rows, and turns them"> {
  let description = [{
    Writes the rows of k_new and v_new to key and value, turned if the attention
    has `rotary`, and then writes `turned_query`.

    ```mlir
    flashcore.append_kernel writes(%q : memref<1x8x1x64xf16>)
    ```
  }];
}

def FlashCore_AttentionKernelOp
    : FlashCore_KernelOp<"attention_kernel", "O and LSE, by online softmax"> {
  let description = [{
    Writes output and lse, and `lse_rest` where the attention has probabilities
    as an output. With partial results it writes those, of each part of the
    keys, in the place of output and lse. Queries are read from `turned_query`
    where there is one.

    ```mlir
    flashcore.attention_kernel
        writes(%o, %lse, %rest : memref<4x1x8x1x64xf32>, memref<4x1x8x1xf32>,
                                 memref<4x1x8x1xf32>)
    ```
  }];
}

def FlashCore_MergeKernelOp
    : FlashCore_KernelOp<"merge_kernel", "O and LSE of those of parts of keys"> {
  let description = [{
    Writes output and lse, and `lse_rest` where there is one: what flashcore.merge
    is of the partial results, with the attention's sink.

    ```mlir
    flashcore.merge_kernel
        reads(%o, %lse, %rest : memref<4x1x8x1x64xf32>, memref<4x1x8x1xf32>,
                                memref<4x1x8x1xf32>)
    ```
  }];
}

def FlashCore_ScoresKernelOp
    : FlashCore_KernelOp<"scores_kernel", "a matrix of scores"> {
  let description = [{
    Writes every score of every query: the masked ones to `scores` of the
    workspace, or else, at their stage, those that are an output. Probabilities
    need lse and `lse_rest`, which is read then.

    The kernel of an output has a schedule of its own.

    ```mlir
    flashcore.scores_kernel writes(%s : memref<1x8x512x512xf32>)
    ```
  }];
}

def FlashCore_SoftmaxKernelOp
    : FlashCore_KernelOp<"softmax_kernel", "the softmax of rows in memory"> {
  let description = [{
    Makes `probabilities` of `scores`, and writes lse, and `lse_rest` where there
    is one.

    ```mlir
    flashcore.softmax_kernel reads(%s : memref<1x8x512x512xf32>)
        writes(%p : memref<1x8x512x512xf16>)
    ```
  }];
}

def FlashCore_ValuesKernelOp
    : FlashCore_KernelOp<"values_kernel", "O = P V, of P in memory"> {
  let description = [{
    Writes output, of `probabilities` and value.

    ```mlir
    flashcore.values_kernel reads(%p : memref<1x8x512x512xf16>)
    ```
  }];
}

#endif // FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCOREPROGRAMOPS_TD
