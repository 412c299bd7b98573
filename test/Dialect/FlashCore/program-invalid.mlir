// RUN: flashcore-opt %s -split-input-file -verify-diagnostics

func.func @outside() {
  // expected-error @below {{'flashcore.attention_kernel' op expects to be in the program of a flashcore.attention, but stands outside of one}}
  flashcore.attention_kernel
  return
}

// -----

func.func @workspace_outside() {
  // expected-error @below {{'flashcore.workspace' op expects to be in the program of a flashcore.attention, but stands outside of one}}
  %0 = flashcore.workspace scores : memref<1xf32>
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @empty(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error @below {{'flashcore.attention' op expects a program of kernels, but got none}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {}
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @other_ops(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {
    flashcore.attention_kernel
    // expected-error @below {{'memref.copy' op is no part of a program, which is of kernels, flashcore.workspace and an scf.if of a flashcore.few_queries}}
    memref.copy %q, %o : !t to !t
  }
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @other_condition(%q: !t, %k: !t, %v: !t, %o: !t, %c: i1) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {
    // expected-error @below {{'scf.if' op is no part of a program, which is of kernels, flashcore.workspace and an scf.if of a flashcore.few_queries}}
    scf.if %c {
      flashcore.attention_kernel
    }
  }
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @one_branch(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {
    %is_few = flashcore.few_queries at_most(16)
    // expected-error @below {{'scf.if' op expects kernels in both branches}}
    scf.if %is_few {
      flashcore.attention_kernel
    }
  }
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @kernel_in_front_of_the_branches(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {
    flashcore.append_kernel
    %is_few = flashcore.few_queries at_most(16)
    // expected-error @below {{'scf.if' op expects to have all kernels of a program in its branches, but stands beside others}}
    scf.if %is_few {
      flashcore.attention_kernel
    } else {
      flashcore.attention_kernel
    }
  }
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @kernel_behind_the_branches(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {
    %is_few = flashcore.few_queries at_most(16)
    scf.if %is_few {
      flashcore.attention_kernel
    } else {
      flashcore.attention_kernel
    }
    // expected-error @below {{'flashcore.scores_kernel' op stands beside an scf.if, whose branches have all kernels of a program}}
    flashcore.scores_kernel
  }
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @no_queries(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {
    // expected-error @below {{'flashcore.few_queries' op expects at_most to be positive, but got 0}}
    %is_few = flashcore.few_queries at_most(0)
    flashcore.attention_kernel
  }
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @read_before_it_is_written(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {
    %rest = flashcore.workspace lse_rest : memref<1x8x64xf32>
    // expected-error @below {{'flashcore.scores_kernel' op reads lse_rest, but no kernel before it writes it}}
    flashcore.scores_kernel reads(%rest : memref<1x8x64xf32>)
    flashcore.attention_kernel writes(%rest : memref<1x8x64xf32>)
  }
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @written_twice(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {
    %rest = flashcore.workspace lse_rest : memref<1x8x64xf32>
    flashcore.attention_kernel writes(%rest : memref<1x8x64xf32>)
    // expected-error @below {{'flashcore.attention_kernel' op writes lse_rest, but a kernel before it has written it}}
    flashcore.attention_kernel writes(%rest : memref<1x8x64xf32>)
  }
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @of_another_block(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {
    %rest = flashcore.workspace lse_rest : memref<1x8x64xf32>
    %is_few = flashcore.few_queries at_most(16)
    scf.if %is_few {
      // expected-error @below {{'flashcore.attention_kernel' op uses lse_rest, but is no kernel of the block that makes it}}
      flashcore.attention_kernel writes(%rest : memref<1x8x64xf32>)
    } else {
      flashcore.attention_kernel
    }
  }
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @not_of_the_workspace(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {
    // expected-error @below {{'flashcore.attention_kernel' op expects to read values of flashcore.workspace, but got one of 'memref<1x8x64x64xf16>'}}
    flashcore.attention_kernel reads(%q : !t)
  }
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @missing(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {
    // expected-error @below {{'flashcore.values_kernel' op expects to read probabilities, but got nothing}}
    flashcore.values_kernel
  }
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @some_of_a_group(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {
    %lses = flashcore.workspace partial_lses : memref<4x1x8x64xf32>
    // expected-error @below {{'flashcore.attention_kernel' op expects to write partial_outputs, partial_lses and partial_lse_rests, but got partial_lses}}
    flashcore.attention_kernel writes(%lses : memref<4x1x8x64xf32>)
  }
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @of_another_kernel(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {
    %scores = flashcore.workspace scores : memref<1x8x64x64xf32>
    // expected-error @below {{'flashcore.append_kernel' op does not write scores}}
    flashcore.append_kernel writes(%scores : memref<1x8x64x64xf32>)
  }
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @twice_in_one(%q: !t, %k: !t, %v: !t, %o: !t) {
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) program {
    %rest = flashcore.workspace lse_rest : memref<1x8x64xf32>
    // expected-error @below {{'flashcore.attention_kernel' op expects to write each value once, but got lse_rest twice}}
    flashcore.attention_kernel writes(%rest, %rest : memref<1x8x64xf32>, memref<1x8x64xf32>)
  }
  return
}

// -----

!t = memref<1x8x64x64xf16>
func.func @no_yield(%q: !t, %k: !t, %v: !t, %o: !t) {
  // expected-error @below {{'flashcore.attention' op expects the score region to end with a flashcore.yield of 'f32'}}
  flashcore.attention ins(%q, %k, %v : !t, !t, !t) outs(%o : !t) score {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    %x = arith.addf %s, %s : f32
  }
  return
}
