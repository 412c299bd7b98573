//===- FlashCoreInterfaces.td - What ops have in common ----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCOREINTERFACES_TD
#define FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCOREINTERFACES_TD

include "mlir/IR/OpBase.td"

def FlashCore_ScoreOpInterface : OpInterface<"ScoreOpInterface"> {
  let cppNamespace = "::mlir::flashcore";
  let description = [{
    An op on scores, of a whole attention or of a tile: what changes them, and
    which keys masks hide from a query.
  }];
  let methods = [
    InterfaceMethod<"The causal mask, where there is one.",
      "::std::optional<::mlir::flashcore::CausalAlignment>", "getCausal">,
    InterfaceMethod<"Keys before a query's own that it sees; all without one.",
      "::std::optional<uint64_t>", "getWindowLeft">,
    InterfaceMethod<"Keys behind a query's own that it sees; all without one.",
      "::std::optional<uint64_t>", "getWindowRight">,
    InterfaceMethod<"The score region; null where there is none.",
      "::mlir::Region *", "findScoreRegion">,
    InterfaceMethod<"The mask region; null where there is none.",
      "::mlir::Region *", "findMaskRegion">,
    InterfaceMethod<"Whether lists name the blocks of keys that are seen.",
      "bool", "hasBlockLists">,
    InterfaceMethod<[{
        The queries of a sequence, where the op says how many there are. Where
        tensors do, an axis of theirs is only the most that can be.
      }],
      "::std::optional<int64_t>", "getKnownQueries">,
    InterfaceMethod<"The same of keys.",
      "::std::optional<int64_t>", "getKnownKeys">,
  ];
  let extraSharedClassDeclaration = [{
    /// The tensors or memrefs from outside that regions read, in the order of
    /// their first uses.
    ::llvm::SmallVector<::mlir::Value> getCapturedTensors() {
      return ::mlir::flashcore::getCapturedTensors($_op);
    }
    bool hasRegion() {
      return $_op.findScoreRegion() || $_op.findMaskRegion();
    }
  }];
}

def FlashCore_HostOpInterface : OpInterface<"HostOpInterface"> {
  let cppNamespace = "::mlir::flashcore";
  let description = [{
    An op on the host, whose operands are tensors or memrefs: what it does with
    each of them.
  }];
  let methods = [
    InterfaceMethod<[{
        Operands under the names of the op's constraints, those that are written
        first.
      }],
      "::llvm::SmallVector<::mlir::flashcore::OperandAccess>", "getAccesses">,
  ];
}

def FlashCore_ProgramKernelInterface
    : OpInterface<"ProgramKernelInterface"> {
  let cppNamespace = "::mlir::flashcore";
  let description = [{
    A kernel in the program of an attention, and what of the workspace it has.
    Kernels run one after another.
  }];
  let methods = [
    InterfaceMethod<"What kernels before it have left.",
      "::mlir::OperandRange", "getReads">,
    InterfaceMethod<"What it leaves for kernels behind it.",
      "::mlir::OperandRange", "getWrites">,
  ];
}

def FlashCore_TileOpInterface
    : OpInterface<"TileOpInterface", [FlashCore_ScoreOpInterface]> {
  let cppNamespace = "::mlir::flashcore";
  let description = [{
    A part of a kernel: the query rows of a warp, of one head, and keys of the
    sequence. Coordinates say where in the whole attention they stand; masks,
    ALiBi and regions count by them. Memrefs of rows are (1, 1, rows, columns),
    and those of keys are of the whole sequence.
  }];
  let methods = [
    InterfaceMethod<"The batch entry or sequence.", "::mlir::Value", "getBatch">,
    InterfaceMethod<"The query head.", "::mlir::Value", "getHead">,
    InterfaceMethod<"The first of the tile's queries in the sequence.",
      "::mlir::Value", "getFirstQuery">,
    InterfaceMethod<"The queries of the sequence.", "::mlir::Value",
      "getSeqlenQ">,
    InterfaceMethod<"The first of the tile's keys in the sequence.",
      "::mlir::Value", "getFirstKey">,
    InterfaceMethod<[{
        One past the last of the tile's keys, which may be behind the end of the
        sequence.
      }],
      "::mlir::Value", "getKeyEnd">,
    InterfaceMethod<"The keys of the sequence.", "::mlir::Value", "getSeqlenK">,
    InterfaceMethod<[{
        The first query of the tiles whose warps fill shared memory together.
      }],
      "::mlir::Value", "getBlockQuery">,
    InterfaceMethod<"Rows of Q; null where there are none.", "::mlir::Value",
      "findQuery">,
    InterfaceMethod<"Rows of K; null where there are none.", "::mlir::Value",
      "findKey">,
    InterfaceMethod<"Rows of V; null where there are none.", "::mlir::Value",
      "findValue">,
    InterfaceMethod<"What the tile writes.", "::mlir::Value", "getOutput">,
    InterfaceMethod<"What products of query and key are multiplied with.",
      "float", "getScale">,
  ];
}

#endif // FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCOREINTERFACES_TD
