//===- FlashCoreDialect.td - The flashcore dialect ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCOREDIALECT_TD
#define FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCOREDIALECT_TD

include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def FlashCore_Dialect : Dialect {
  let name = "flashcore";
  let cppNamespace = "::mlir::flashcore";
  let summary = "What attention means; no hardware in it";
  let description = [{
    `flashcore.attention` and `flashcore.merge` are what users write; tiles
    (`flashcore.attention_tile` and the others) are the parts of their kernels
    that the online softmax is written on, and know where in the whole they
    stand. An attention of several kernels has a program of them
    (`flashcore.attention_kernel` and the others), which says what they leave one
    another. Everything about hardware (tile sizes, shared memory, threads) is
    said in the `fcgpu` dialect.
  }];
}

def FlashCore_CausalAlignment
    : I32EnumAttr<"CausalAlignment", "Which corner the causal diagonal ends in", [
        I32EnumAttrCase<"BottomRight", 0, "bottom_right">,
        I32EnumAttrCase<"TopLeft", 1, "top_left">]> {
  let cppNamespace = "::mlir::flashcore";
}

def FlashCore_ScoresStage
    : I32EnumAttr<"ScoresStage", "How far scores that are an output have come", [
        I32EnumAttrCase<"Scaled", 0, "scaled">,
        I32EnumAttrCase<"Capped", 1, "capped">,
        I32EnumAttrCase<"Changed", 2, "changed">,
        I32EnumAttrCase<"Masked", 3, "masked">,
        I32EnumAttrCase<"Probabilities", 4, "probabilities">]> {
  let cppNamespace = "::mlir::flashcore";
}

def FlashCore_RotaryStyle
    : I32EnumAttr<"RotaryStyle", "Which columns a rotary embedding pairs", [
        I32EnumAttrCase<"Interleaved", 0, "interleaved">,
        I32EnumAttrCase<"Half", 1, "half">]> {
  let cppNamespace = "::mlir::flashcore";
}

def FlashCore_WorkspaceRole
    : I32EnumAttr<"WorkspaceRole", "What a part of the workspace holds", [
        I32EnumAttrCase<"TurnedQuery", 0, "turned_query">,
        I32EnumAttrCase<"LseRest", 1, "lse_rest">,
        I32EnumAttrCase<"PartialOutputs", 2, "partial_outputs">,
        I32EnumAttrCase<"PartialLses", 3, "partial_lses">,
        I32EnumAttrCase<"PartialLseRests", 4, "partial_lse_rests">,
        I32EnumAttrCase<"Scores", 5, "scores">,
        I32EnumAttrCase<"Probabilities", 6, "probabilities">]> {
  let cppNamespace = "::mlir::flashcore";
}
#endif // FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCOREDIALECT_TD
