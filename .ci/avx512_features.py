"""Print the names under which NumPy can be told not to use this processor's AVX-512.

As NPY_DISABLE_CPU_FEATURES has it. Releases differ in the names: those up to 2.3 have AVX512_SKX and others, later ones
X86_V4 and AVX512_ICL. What NumPy dispatches by and the processor has can be switched off; else nothing is printed.
"""

from __future__ import annotations

import sys

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

names = [each for each in __cpu_dispatch__ if __cpu_features__.get(each) and ("AVX512" in each or each == "X86_V4")]
sys.stdout.write(" ".join(names))
