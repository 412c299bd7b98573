//===- FCGPUDialect.td - The fcgpu dialect -----------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FCGPU_IR_FCGPUDIALECT_TD
#define FLASHCORE_DIALECT_FCGPU_IR_FCGPUDIALECT_TD

include "mlir/IR/OpBase.td"

def FCGPU_Dialect : Dialect {
  let name = "fcgpu";
  let cppNamespace = "::mlir::fcgpu";
  let summary = "Where and when: schedules, rings of tiles, copies, layouts";
  let description = [{
    The few things between tile-level IR and threads that no upstream dialect
    says. Values are warp tiles (upstream vectors of rows x columns), never block
    tiles; memory is a ring of swizzled tile slots filled by asynchronous copies.

    Attributes on ops of other dialects, all checked by this one:

    * `fcgpu.schedule` (`#fcgpu.schedule`) on a `flashcore.attention` or a kernel
    * `fcgpu.staging` (`#fcgpu.staging`) on a `vector.transfer_read` of a 16-bit
      tile
    * `fcgpu.block_tiles` (unit) on the `scf.for` of a persistent kernel over its
      block tiles
    * `fcgpu.overlap` (`#fcgpu.overlap`) on an `scf.for` over key tiles, of which
      products of two iterations run together
    * `fcgpu.paired` (unit) on a `memref.load` in an `fcgpu.map_scores`, whose
      coordinates of an even key and of the next one are those of two elements
      side by side, at a multiple of their size
    * `fcgpu.home` on an op with a warp tile or vector as result, or an array of
      them on an op with several results (`unit` where one is neither): where the
      value is, in registers (`#fcgpu.layout`), fragments (`#fcgpu.fragments`) or
      shared memory (`#fcgpu.shared`)
    * `fcgpu.product` (`#fcgpu.product`) on a `vector.contract` of a tile in plain
      rows
    * `fcgpu.kernel` (dictionary) on a `gpu.func`: its arguments, threads and
      shared memory, alike for all of its launches
    * `fcgpu.program` (dictionary) on a `gpu.module`: what its kernels compute, of
      which tensors, and what is launched in which order; docs/Bundle.md says what
      both become
    * `fcgpu.ptx_version` (integer) on a kernel, from `flashcore-distribute` on:
      the newest PTX ISA, times ten, that one of its instructions needs

    A reduction of a whole tile of `i1` to one value (`vector.multi_reduction`) is
    a question of each warp: in a loop over warpgroups, it asks for its own rows of
    the tile, so that an `scf.if` on the result may go either way in the warps of
    one warpgroup. No product and nothing that changes hands stands in such a branch.

    Phases 4 to 6 read what they do from the IR: from the `scf.forall`, its bounds
    and whether it is over warps or warpgroups, from these attributes, from rings,
    copies and `fcgpu.produce`. Of the schedule they ask what belongs to the launch,
    its chip and its threads, in one place (`Launch`).
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

#endif // FLASHCORE_DIALECT_FCGPU_IR_FCGPUDIALECT_TD
