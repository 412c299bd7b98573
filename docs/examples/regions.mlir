// Regions: what a mask or a change of scores is beyond the clauses is code. This
// mask shows the keys of a query's own document, from a tensor that it reads, and
// this score loses a tenth a step of distance. docs/Masks.md has more of both.
// $ flashcore-run docs/examples/regions.mlir
!t = memref<2x4x150x64xf16>
!documents = memref<2x150xi32>

func.func @attention(%q: !t, %k: !t, %v: !t, %document: !documents, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) causal(bottom_right) score {
  ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
    %tenth = arith.constant -0.1 : f32
    %steps = arith.subi %i, %j : index
    %steps32 = arith.index_cast %steps : index to i32
    %distance = arith.sitofp %steps32 : i32 to f32
    %result = math.fma %distance, %tenth, %score : f32
    flashcore.yield %result : f32
  } mask {
  ^bb0(%score: f32, %b: index, %h: index, %i: index, %j: index):
    %of_query = memref.load %document[%b, %i] : !documents
    %of_key = memref.load %document[%b, %j] : !documents
    %visible = arith.cmpi eq, %of_query, %of_key : i32
    flashcore.yield %visible : i1
  }
  return
}
