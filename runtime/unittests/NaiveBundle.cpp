//===- NaiveBundle.cpp - An attention that computes -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel walks over the keys once and rescales what it has when a score
// exceeds all before it.
//
//===----------------------------------------------------------------------===//

#include "NaiveBundle.h"

using namespace flashcore;
using namespace flashcore::testing;
using nlohmann::json;

static constexpr std::string_view body = R"(
  .reg .pred %p; .reg .b16 %half; .reg .b32 %word, %i;
  .reg .b64 %d, %s, %h, %b, %g, %j, %t, %row, %qAt, %kRow, %kAt, %vAt;
  .reg .f32 %x, %y, %score, %max, %old, %weight, %sum, %acc;
  mov.u32 %word, %tid.x;   cvt.u64.u32 %d, %word;
  mov.u32 %word, %ctaid.x; cvt.u64.u32 %s, %word;
  mov.u32 %word, %ctaid.y; cvt.u64.u32 %h, %word;
  mov.u32 %word, %ctaid.z; cvt.u64.u32 %b, %word;
  mul.lo.u64 %g, %h, %heads_kv; div.u64 %g, %g, %heads_q;

  mul.lo.u64 %t, %b, %q_0; mad.lo.u64 %t, %h, %q_1, %t;
  mad.lo.u64 %t, %s, %q_2, %t; shl.b64 %t, %t, 1; add.u64 %row, %q, %t;
  mul.lo.u64 %t, %b, %k_0; mad.lo.u64 %t, %g, %k_1, %t;
  shl.b64 %t, %t, 1; add.u64 %kRow, %k, %t;
  mul.lo.u64 %t, %b, %v_0; mad.lo.u64 %t, %g, %v_1, %t;
  add.u64 %t, %t, %d; shl.b64 %t, %t, 1; add.u64 %vAt, %v, %t;
  shl.b64 %k_2, %k_2, 1; shl.b64 %v_2, %v_2, 1;
  mov.f32 %max, 0fFF800000; mov.f32 %sum, 0f00000000; mov.f32 %acc, 0f00000000;
  mov.u64 %j, 0;
NEXT_KEY:
  setp.ge.u64 %p, %j, %seqlen_k; @%p bra DONE;
  mov.u64 %qAt, %row; mov.u64 %kAt, %kRow;
  mov.f32 %score, 0f00000000; mov.u32 %i, 0;
NEXT_PRODUCT:
  ld.global.b16 %half, [%qAt]; cvt.f32.f16 %x, %half;
  ld.global.b16 %half, [%kAt]; cvt.f32.f16 %y, %half;
  fma.rn.f32 %score, %x, %y, %score;
  add.u64 %qAt, %qAt, 2; add.u64 %kAt, %kAt, 2; add.u32 %i, %i, 1;
  setp.lt.u32 %p, %i, 16; @%p bra NEXT_PRODUCT;
  mul.f32 %score, %score, 0f3E800000;
  mov.f32 %old, %max; max.f32 %max, %max, %score;
  // exp(x) = 2^(x log2(e))
  sub.f32 %old, %old, %max; mul.f32 %old, %old, 0f3FB8AA3B;
  ex2.approx.f32 %old, %old;
  sub.f32 %weight, %score, %max; mul.f32 %weight, %weight, 0f3FB8AA3B;
  ex2.approx.f32 %weight, %weight;
  ld.global.b16 %half, [%vAt]; cvt.f32.f16 %x, %half;
  fma.rn.f32 %sum, %sum, %old, %weight;
  mul.f32 %acc, %acc, %old; fma.rn.f32 %acc, %weight, %x, %acc;
  add.u64 %kRow, %kRow, %k_2; add.u64 %vAt, %vAt, %v_2; add.u64 %j, %j, 1;
  bra NEXT_KEY;
DONE:
  setp.eq.u64 %p, %seqlen_k, 0; @%p bra STORE;
  div.rn.f32 %acc, %acc, %sum;
STORE:
  mul.lo.u64 %t, %b, %o_0; mad.lo.u64 %t, %h, %o_1, %t;
  mad.lo.u64 %t, %s, %o_2, %t; add.u64 %t, %t, %d;
  shl.b64 %t, %t, 1; add.u64 %t, %o, %t;
  cvt.rn.f16.f32 %half, %acc; st.global.b16 [%t], %half;
  setp.ne.u64 %p, %d, 0; @%p bra END;
  lg2.approx.f32 %x, %sum; fma.rn.f32 %x, %x, 0f3F317218, %max;
  mul.lo.u64 %t, %b, %lse_0; mad.lo.u64 %t, %h, %lse_1, %t;
  add.u64 %t, %t, %s; shl.b64 %t, %t, 2; add.u64 %t, %lse, %t;
  st.global.f32 [%t], %x;
END:
  ret;
)";

json flashcore::testing::naiveManifest() {
  json manifest = testManifest();
  for (json &tensor : manifest["tensors"])
    tensor["offset"] = 0;
  json &kernel = manifest["kernels"][0];
  kernel["block"] = {16, 1, 1};
  kernel["grid"] = {"seqlen_q", "heads_q", "batch"};
  kernel["dynamic_shared_memory"] = 0;

  json arguments = json::array();
  std::string parameters, loads;
  auto add = [&](json argument, const std::string &name, const char *type) {
    arguments.push_back(std::move(argument));
    parameters += (parameters.empty() ? "" : ", ") +
                  (".param .u64" + std::string(type) + " p_") + name;
    loads += "  .reg .b64 %" + name + "; ld.param.u64 %" + name + ", [p_" +
             name + "];\n";
  };
  for (const json &tensor : manifest["tensors"])
    add({{"kind", "pointer"}, {"tensor", tensor["name"]}}, tensor["name"],
        " .ptr .align 4");
  for (const char *dim : {"seqlen_k", "heads_q", "heads_kv"})
    add({{"kind", "size"}, {"dim", dim}}, dim, "");
  for (const json &tensor : manifest["tensors"])
    for (size_t axis = 0; axis + 1 < tensor["axes"].size(); ++axis)
      add({{"kind", "stride"}, {"tensor", tensor["name"]}, {"axis", axis}},
          tensor["name"].get<std::string>() + "_" + std::to_string(axis), "");
  kernel["arguments"] = std::move(arguments);
  setPtx(manifest, ".version 8.0\n.target sm_80\n.address_size 64\n"
                   ".visible .entry attention(" +
                       parameters + ") {\n" + loads + std::string(body) +
                       "}\n");
  return manifest;
}
