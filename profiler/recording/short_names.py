"""Readable short forms of long names: C++ template kernels, mangled kernels, generated kernels, Python frames.

A kernel's full name says how it was compiled; a person looks for what it does, on which type, and which variant it is.
The short form keeps these and fits a table column. It is for showing only: two kernels may share one, and everything
that counts or joins uses the full name.
"""

from __future__ import annotations

import hashlib
import re

from .cpp_names import deepest, drop_signature, last_component, split_template, without_lambdas

LIMIT = 60
"""The longest a short name gets."""

_PARSED = 8192
"""A longer name is cut before it is taken apart, and one of deeper nesting is not: traces are not to be trusted."""

_DEEPEST = 40

_TYPES = {
    "c10::BFloat16": "bf16", "__nv_bfloat16": "bf16", "cutlass::bfloat16_t": "bf16", "hip_bfloat16": "bf16",
    "c10::Half": "f16", "__half": "f16", "half": "f16", "cutlass::half_t": "f16",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
    "unsigned int": "uint", "unsigned long": "ulong", "unsigned char": "uchar", "signed char": "char",
    "long long": "long", "unsigned long long": "ulong",
}  # fmt: skip

# Templates that only wrap the functor that does the work.
_WRAPPERS = {
    "gpu_kernel_impl", "gpu_kernel_impl_nocast", "gpu_index_kernel", "opmath_gpu_kernel_with_scalars",
    "BinaryFunctor", "AUnaryFunctor", "BUnaryFunctor", "ReduceOp", "func_wrapper_t",
}  # fmt: skip
_SCALAR_WRAPPERS = {"AUnaryFunctor", "BUnaryFunctor"}
_FUNCTOR = re.compile(r"\{lambda|[Ff]unctor|\bReduceOp<|_kernel_impl\b|\bReduceAdd\b|\bTensorAssign\b|::\w+Ops?<")
_FUNCTOR_WORDS = re.compile(
    r"^CUDAFunctor(?:OnSelf|OnOther)?_|(?:Scalar)?Functor$|_functor$|(?:_scalar)?_kernel(?:_impl|_cuda)?$|_kernel_cuda$"
)
_BACKWARD = "autograd::engine::evaluate_function: "
_PYTHON_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)")
_BUILT_IN = re.compile(r"<built-in (?:method|function) (?P<name>[^ >]+)(?: of (?P<owner>.+?) object at 0x[0-9a-f]+)?>")
_TENSILE = re.compile(
    r"Cijk_(?P<operands>[A-Za-z]+_[A-Za-z]+)_(?P<types>[A-Z0-9]+).*?_(?P<tile>MT[0-9x]+)_(?P<matrix>MI[0-9x]+)_"
)
_XMMA_NOISE = re.compile(r"_execute_\w*kernel.*$|_warp(?:group)?size[0-9x]+|_tensor[0-9x]+|_g1(?=_|$)|implicit_gemm_")


def short_name(name: str) -> str | None:
    """A readable form of the name of at most ``LIMIT`` characters; None where the name is readable already.

    Elided text shows as ``…``; a kernel that only its compiler can tell from others ends in four digits of a hash.
    """
    parsed = name[:_PARSED]
    short = _elided(name) if deepest(parsed) > _DEEPEST else _shortened(parsed)
    return None if short == name else short


def _shortened(name: str) -> str:
    if match := _PYTHON_FRAME.fullmatch(name):
        return _elided(f"{match['function']} ({_file_tail(match['file'])}:{match['line']})")
    if match := _BUILT_IN.fullmatch(name):
        return _elided(f"{match['owner']}.{match['name']}" if match["owner"] else match["name"])
    if name.startswith(_BACKWARD):
        return _elided(f"backward: {last_component(name.removeprefix(_BACKWARD))}")
    if name.startswith("_Z"):
        return _mangled(name)
    if match := _TENSILE.match(name):
        return _elided(f"Cijk_{match['operands']}_{match['types']} {match['tile']} {match['matrix']} {_mark(name)}")
    if re.match(r"sm\d+_xmma_", name):
        return _elided(_once(_XMMA_NOISE.sub("", name).replace("_tilesize", "_")))
    if "<" in name or name.startswith("void ") or (name.endswith(")") and "(" in name and "::" in name):
        return _kernel(name)
    if "(" in name and re.match(r"\w+\(", name) and name.endswith(")"):
        return _elided(name.partition("(")[0])
    return _elided(name)


def _kernel(name: str) -> str:
    """What a C++ kernel does: its base name with the functor it applies, or with its template arguments."""
    path, arguments, suffix = split_template(drop_signature(name))
    base = last_component(path) + (f"::{last_component(suffix)}" if suffix else "")
    if base == "kernel" and "::" in path:
        base = "::".join(path.split("::")[-2:])
    if base.startswith("Kernel") and arguments:
        # cutlass: the kernel's type is its name.
        inner, inner_arguments, _ = split_template(arguments[0])
        return _elided(_with_arguments(last_component(inner), inner_arguments))
    functor = next((argument for argument in arguments if _FUNCTOR.search(argument)), None)
    if functor is None:
        return _elided(_with_arguments(base, arguments))
    numbers = [argument for argument in arguments if argument.isdigit()]
    plain = base.removesuffix("_kernel")
    return _elided(f"{plain}{'[' + ','.join(numbers) + ']' if numbers else ''}: {_functor(functor)}")


def _functor(text: str) -> str:
    """The operation inside wrappers and lambdas, with the type it works on."""
    head, lambda_types = without_lambdas(text)
    path, arguments, _ = split_template(head)
    base = last_component(path)
    if base in _WRAPPERS:
        inner = [argument for argument in arguments if _FUNCTOR.search(argument)] or [
            argument for argument in arguments if "::" in argument and argument not in _TYPES
        ]
        if inner:
            applied = _functor(inner[-1])
            if base.endswith("Functor"):
                # The functor computes in a wider type; the wrapper's first argument is the type of the data.
                applied = f"{applied.partition('<')[0]}<{_type(arguments[0])}>"
            return applied + (" scalar" if base in _SCALAR_WRAPPERS else "")
    types = arguments[:1] or lambda_types[:1]
    plain = _FUNCTOR_WORDS.sub("", base) or base
    plain = _FUNCTOR_WORDS.sub("", plain) or plain
    return f"{plain}<{_type(types[0])}>" if types else plain


def _with_arguments(base: str, arguments: list[str]) -> str:
    return f"{base}<{','.join(map(_type, arguments))}>" if arguments else base


def _type(text: str) -> str:
    text = text.strip()
    if text in _TYPES:
        return _TYPES[text]
    if match := re.fullmatch(r"(\d+)u?l?l?|\(.*\)(\d+)", text):
        return match[1] or match[2]
    if text in ("true", "false"):
        return text[0]
    path, arguments, _ = split_template(without_lambdas(text)[0])
    return _with_arguments(last_component(path), arguments[:2])


def _mangled(name: str) -> str:
    """The innermost name of an Itanium-mangled kernel; without a demangler the template arguments stay unread."""
    position, parts = (3 if name.startswith("_ZN") else 2), []
    while match := re.compile(r"(\d+)").match(name, position):
        start = match.end()
        position = start + int(match[1])
        parts.append(name[start:position])
    named = [part for part in parts if not part.startswith("_GLOBAL__")]
    if not named:
        return _elided(name)
    inner = re.search(r"23ImplicitGemmConvolution|4gemm6kernel", name)
    base = "::".join([named[0], named[-1]] if len(named) > 1 else named)
    what = f"{base}<{inner[0].lstrip('0123456789')}>" if inner and named[-1].startswith("Kernel") else base
    return _elided(f"{what} {_mark(name)}")


def _file_tail(path: str) -> str:
    """The file's name with its folder, which tells one module.py from another."""
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def _once(name: str) -> str:
    """The name with neighbouring words of a dtype triple (tf32f32_tf32f32_f32) reduced to the first."""
    return re.sub(r"_([a-z]+\d+[a-z0-9]*)_\1_[a-z]+\d+(?=_)", r"_\1", name)


def _mark(name: str) -> str:
    return "~" + hashlib.sha256(name.encode()).hexdigest()[:4]


def _elided(text: str) -> str:
    """The text, its middle left out if it is too long: heads tell what it is, tails which variant."""
    if len(text) <= LIMIT:
        return text
    tail = LIMIT * 2 // 5
    return f"{text[: LIMIT - tail - 1]}…{text[-tail:]}"
