//===- Toy.td - A dialect with an attention of its own -----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Toy_Dialect : Dialect {
  let name = "toy";
  let cppNamespace = "::toy";
  let useDefaultAttributePrinterParser = 1;
}

def Toy_MaskKind : I32EnumAttr<"MaskKind", "which keys a query sees", [
    I32EnumAttrCase<"Full", 0, "full">,
    I32EnumAttrCase<"Causal", 1, "causal">]> {
  let cppNamespace = "::toy";
  let genSpecializedAttr = 0;
}
def Toy_MaskAttr : EnumAttr<Toy_Dialect, Toy_MaskKind, "mask"> {
  let assemblyFormat = "`<` $value `>`";
}

def Toy_SDPAOp : Op<Toy_Dialect, "sdpa", [
    Pure, AllTypesMatch<["query", "output"]>, AllTypesMatch<["key", "value"]>]> {
  let summary = "scaled dot-product attention of (batch, head, row, dim)";
  let arguments = (ins 4DTensorOf<[F16, BF16]>:$query,
                       4DTensorOf<[F16, BF16]>:$key,
                       4DTensorOf<[F16, BF16]>:$value,
                       Toy_MaskAttr:$mask);
  let results = (outs 4DTensorOf<[F16, BF16]>:$output);
  let assemblyFormat = [{
    $query `,` $key `,` $value $mask attr-dict `:` type($query) `,` type($key)
  }];
}
